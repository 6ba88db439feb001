"""Low-rank adapters (LoRA, Hu et al. 2021) through peft, put into a model in place; out comes the merged model.

The model keeps its class, decoder and head, so whatever samples from it, scores it or trains it needs to know nothing.
"""

import copy
import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.pytorch_utils import Conv1D

from entropy_lab.errors import InputError
from entropy_lab.training.recipe import Lora


def add_adapters(model: PreTrainedModel, settings: Lora, seed: int = 0) -> None:
    """Replace each target layer Wx by Wx + (alpha/rank)·B·A·x, in place; only A and B train.

    A (rank × inputs) is drawn uniformly from `seed` as peft does it, B (outputs × rank) is 0, so that at first nothing
    changes. Targets are linear layers by name or last part of it; `all-linear` is all of them. The head never is one:
    it may be tied to the embeddings, and its weights are read without calling it.

    Raises:
        InputError: peft is not installed, or a target is no linear layer of the model.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise InputError("[lora] needs peft; pip install 'entropy-lab[lora]', or leave the table out.") from error

    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,  # type: ignore[arg-type]  # only ever divided
        target_modules=_targets(model, settings),
    )
    with _seeded(model.device, seed):
        inject_adapter_in_model(config, model)


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """The parameters that train, by name; tied ones once."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


@torch.no_grad()
def merged(model: PreTrainedModel) -> PreTrainedModel:
    """A model without adapters that gives the same logits: W + (alpha/rank)·B·A in place of each adapted W.

    For saving: weights that no adapter touched are shared with `model`, not copied. A model without adapters is given
    back itself.
    """
    if not hasattr(model, "peft_config"):  # peft's mark of a model that it has put adapters into
        return model
    from peft.tuners.tuners_utils import BaseTunerLayer

    adapted = {name for name, module in model.named_modules() if isinstance(module, BaseTunerLayer)}
    own = {id(weight) for name in adapted for weight in model.get_submodule(name).parameters()}
    shared = {id(weight): weight for weight in model.parameters() if id(weight) not in own}
    twin = copy.deepcopy(model, shared)
    for name in adapted:
        layer = cast(BaseTunerLayer, twin.get_submodule(name))
        layer.merge()
        parent, _, child = name.rpartition(".")
        setattr(twin.get_submodule(parent), child, layer.get_base_layer())
    vars(twin).pop("peft_config", None)
    return twin


def _targets(model: PreTrainedModel, settings: Lora) -> list[str]:
    """Full names of the layers to adapt."""
    head = model.get_output_embeddings()
    layers = [
        name for name, module in model.named_modules() if isinstance(module, (nn.Linear, Conv1D)) and module is not head
    ]
    if settings.targets == "all-linear":
        return layers
    found = []
    for target in settings.targets:
        here = [name for name in layers if name == target or name.endswith(f".{target}")]
        if not here:
            known = sorted({name.rpartition(".")[2] for name in layers})
            near = difflib.get_close_matches(target, known, n=3)
            raise InputError(
                f"`lora.targets` names {target!r}, which is no linear layer of this {type(model).__name__} in front of "
                f"its head; {'nearest' if near else 'it has'}: {', '.join(near or known)}."
            )
        found += here
    return found


@contextmanager
def _seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Draws of torch's global generators from `seed`, without a trace afterwards."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
