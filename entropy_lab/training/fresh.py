"""A fresh model as a checkpoint: a randomly initialised Llama with tied embeddings over a tokenizer of numbers."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.training.number_tokenizer import number_tokenizer
from entropy_lab.training.recipe import ModelShape


def fresh_checkpoint(shape: ModelShape, seed: int, device: torch.device) -> Checkpoint:
    """The model of a shape; its weights depend on `seed` alone."""
    tokenizer = number_tokenizer(shape.largest_number)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads,
        intermediate_size=shape.intermediate_size,
        max_position_embeddings=shape.context,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    return Checkpoint(
        name="fresh",
        model=model.eval().to(device),
        tokenizer=tokenizer,
        fingerprint=f"fresh {seed}",
        device=device,
        dtype=torch.float32,
        end_ids=(int(tokenizer.eos_token_id),),
    )
