"""Models of two layers made from a seed, checkpoints around them, and what the engine's numbers must be."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.checkpoints.quiet import quiet_libraries
from entropy_lab.engines.protocol import Trajectory

SHAPE = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 128,
    "initializer_range": 0.3,
    "bos_token_id": None,
    "eos_token_id": 1,
    "pad_token_id": 0,
}


def small_model(kind: str = "llama", dtype: torch.dtype = torch.float64, **settings: Any) -> PreTrainedModel:
    """A causal LM of the architecture `kind`; grouped key-value heads where it has them."""
    with torch.random.fork_rng(devices=[]), quiet_libraries():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **(SHAPE | settings)))
    return model.to(dtype).eval()


def checkpoint_of(model: PreTrainedModel, end_ids: tuple[int, ...] = (1,)) -> Checkpoint:
    """A checkpoint with no tokenizer, which an engine does without."""
    weight = model.get_output_embeddings().weight
    return Checkpoint("small", model, None, "0" * 64, weight.device, weight.dtype, end_ids)  # type: ignore[arg-type]


@torch.no_grad()
def expected_statistics(
    model: PreTrainedModel, trajectory: Trajectory, temperature: float = 1.0, prefix: tuple[int, ...] = ()
) -> NDArray[np.float64]:
    """Log-prob, entropy and varentropy of each token by one plain forward pass, shape (3, tokens), in float64."""
    context = trajectory.prompt_ids + prefix
    ids = torch.tensor([[*context, *trajectory.token_ids.tolist()]])
    logits = model(input_ids=ids).logits[0, len(context) - 1 : -1].double() / temperature
    logp = logits.log_softmax(-1)
    entropy = -(logp.exp() * logp).sum(-1)
    varentropy = (logp.exp() * (logp + entropy[:, None]) ** 2).sum(-1)
    sampled = logp.gather(1, ids[0, len(context) :, None])[:, 0]
    return torch.stack([sampled, entropy, varentropy]).numpy()


def found_statistics(trajectory: Trajectory) -> NDArray[np.float32]:
    """The engine's log-prob, entropy and varentropy, shape (3, tokens)."""
    return np.stack([trajectory.logprob, trajectory.entropy, trajectory.varentropy])
