"""Whether decoding through a cache gives the logits of the model's plain forward pass, on a few tokens."""

from collections.abc import Callable

import numpy as np
import torch

from entropy_lab.engines.decoding import DecodeCache
from entropy_lab.engines.policy import Policy
from entropy_lab.errors import InputError

TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-3}  # of the largest logit; ours
LOW_PRECISION_TOLERANCE = 5e-2  # bfloat16 and float16; ours
CONTEXTS = ((1, 8, 15, 22, 29), (3, 5, 7))  # token ids as good as any
COUNTS = (2, 1)
STEPS = ((2, 4, 6), (9, 11))  # a token a row; the first row leaves in between


@torch.inference_mode()
def deviation(policy: Policy, plain: Policy, caches: Callable[[], DecodeCache], together: bool) -> float:
    """Largest difference between logits of cached decoding and of a full forward pass, over its tolerance.

    `together` runs both contexts in one cache, else one after the other. Above 1 the cache is wrong for this model.

    Raises:
        InputError: the plain forward pass gives NaN or +inf.
    """
    limit = policy.vocabulary_size
    contexts = [[token % limit for token in ids] for ids in CONTEXTS]
    groups = (
        [(contexts, COUNTS)] if together else [([ids], (count,)) for ids, count in zip(contexts, COUNTS, strict=True)]
    )
    worst = 0.0
    for group, counts in groups:
        cache = caches()
        rows = [list(ids) for ids, count in zip(group, counts, strict=True) for _ in range(count)]
        worst = max(worst, _difference(policy, plain, cache.prefill(group, counts), rows))
        for step in STEPS:
            tokens = [token % limit for token in step[: len(rows)]]
            rows = [[*row, token] for row, token in zip(rows, tokens, strict=True)]
            hidden = cache.step(torch.tensor(tokens, device=policy.device))
            worst = max(worst, _difference(policy, plain, hidden, rows))
            if len(rows) > 1 and step is STEPS[0]:
                order = cache.keep(np.arange(len(rows)) > 0)
                rows = [rows[row] for row in order]
    return worst


def _difference(policy: Policy, plain: Policy, hidden_RH: torch.Tensor, rows: list[list[int]]) -> float:
    ids = [torch.tensor([row], device=policy.device) for row in rows]
    expected = torch.cat([plain.twin(input_ids=row, use_cache=False).logits[:, -1] for row in ids]).double()
    if bool((expected.isnan() | (expected == torch.inf)).any()):
        raise InputError("it gives NaN or infinite logits on a short prompt; check its weights, or load it in float32.")
    found = policy.logits(hidden_RH).double()
    tolerance = TOLERANCE.get(policy.dtype, LOW_PRECISION_TOLERANCE) * max(1.0, float(_finite(expected).abs().max()))
    return float((_finite(found) - _finite(expected)).abs().max()) / tolerance


def _finite(logits: torch.Tensor) -> torch.Tensor:
    """Masked rows of the head at a value that compares; NaN stays."""
    return logits.masked_fill(logits == -torch.inf, 0.0)
