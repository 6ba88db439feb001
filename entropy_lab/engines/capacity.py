"""How many rows can be sampled at once in the memory at hand, and whether an error says that it ran out."""

import gc

import psutil
import torch

from entropy_lab.engines.policy import Policy

SHARE = 0.6  # of free memory; the rest is for what this estimate leaves out; ours
MOST_ROWS_CPU = 512  # more rows than this make a processor no faster; ours
MOST_ROWS_DEVICE = 1024  # ours


def free_bytes(device: torch.device) -> int:
    """Memory that new tensors on `device` can take; what PyTorch holds in reserve counts as free."""
    if device.type == "cuda":
        reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + reserve
    return int(psutil.virtual_memory().available)


def row_bytes(policy: Policy, tokens: int) -> int:
    """Memory of one row of `tokens` tokens: keys and values, attention scores, activations and logits.

    As if no prompt were shared, which makes it an upper bound, reached by branches with a prefix each.
    """
    config = policy.config
    heads = getattr(config, "num_attention_heads", None) or 1  # a recurrent model has none
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    head_size = getattr(config, "head_dim", None) or config.hidden_size // heads
    item = policy.dtype.itemsize if policy.device.type == "cuda" else max(4, policy.dtype.itemsize)
    kept = tokens * config.num_hidden_layers * 2 * kv_heads * head_size * item
    scores = 3 * 4 * tokens * heads
    activations = 32 * 4 * config.hidden_size
    logits = 2 * 4 * policy.vocabulary_size
    return kept + scores + activations + logits


def rows_that_fit(policy: Policy, memory: int, tokens: int) -> int:
    """Rows of `tokens` tokens that `memory` bytes hold: a power of two, so that small changes of free memory between
    a run and its continuation do not change how its requests are cut into batches.
    """
    most = MOST_ROWS_CPU if policy.device.type == "cpu" else MOST_ROWS_DEVICE
    fit = int(SHARE * memory) // row_bytes(policy, tokens)
    return min(most, 1 << max(0, fit.bit_length() - 1))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether `error` says that memory ran out, on whatever device."""
    if isinstance(error, (MemoryError, torch.OutOfMemoryError)):
        return True
    text = str(error)
    return isinstance(error, RuntimeError) and ("not enough memory" in text or "can't allocate memory" in text)


def release() -> None:
    """Give memory that nothing refers to any more back, so that the next attempt finds it."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
