"""Whether decoding through a cache gives the logits of the model's plain forward pass, on a few tokens."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from entropy_lab.engines.decoding import DecodeCache
from entropy_lab.engines.policy import Policy

TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-3}  # of the largest logit; float32 parts hide in float64; ours
LOW_PRECISION_TOLERANCE = 5e-2  # bfloat16 and float16; ours
CONTEXTS = ((1, 8, 15, 22, 29), (3, 5, 7, 2))  # token ids as good as any; lengths that are padded to share a bucket
COUNTS = (2, 1)
FIRST_STEP, SECOND_STEP = (2, 4, 6), (9, 11)  # a token a row; one row leaves in between


@torch.inference_mode()
def deviation(policy: Policy, plain: Policy, new_cache: Callable[[], DecodeCache], together: bool) -> float:
    """Largest difference between logits of cached decoding and of full forward passes, over its tolerance.

    `together` runs both contexts in one cache, else one after the other. Above 1 (or NaN) the cache is wrong for this
    model. `plain` decodes like the model itself.

    """
    both = list(zip(CONTEXTS, COUNTS, strict=True))
    differences = []
    for group in [both] if together else [[one] for one in both]:
        for ids, logits_LV in _decode(policy, new_cache(), [ids for ids, _ in group], [count for _, count in group]):
            full = plain.twin(input_ids=torch.tensor([ids], device=plain.device), use_cache=False).logits[0]
            differences.append(_difference(logits_LV, full[-len(logits_LV) :].double(), policy.dtype))
    return float(np.max(differences))  # keeps NaN, which `max` would drop


def _decode(
    policy: Policy, cache: DecodeCache, contexts: Sequence[Sequence[int]], counts: Sequence[int]
) -> list[tuple[list[int], Tensor]]:
    """Prefill, step, drop the first row (unless it is alone), step: each row's ids and its logits at the end of them.

    Logits [L, V] belong to the last L of the ids.
    """

    def logits_of(hidden_RH: Tensor) -> Tensor:
        return policy.logits(hidden_RH).to(torch.float64, copy=True)

    V = policy.vocabulary_size
    prompts = [[token % V for token in context] for context in contexts]
    ids = [list(prompt) for prompt, count in zip(prompts, counts, strict=True) for _ in range(count)]
    logits = [[row] for row in logits_of(cache.prefill(prompts, counts))]
    alive = np.arange(len(ids))
    for tokens in (FIRST_STEP, SECOND_STEP):
        fed = [token % V for token in tokens[: len(alive)]]
        stepped = logits_of(cache.step(torch.tensor(fed, device=policy.device)))
        for row, token, found in zip(alive, fed, stepped, strict=True):
            ids[row].append(token)
            logits[row].append(found)
        if len(alive) > 1 and tokens is FIRST_STEP:
            alive = alive[cache.keep(np.arange(len(alive)) > 0)]
    return [(row, torch.stack(found)) for row, found in zip(ids, logits, strict=True)]


def _difference(found: Tensor, expected: Tensor, dtype: torch.dtype) -> float:
    """Where the plain logits are finite; others are masked head rows, or left to the run, which knows the problem."""
    finite = expected.isfinite()
    largest = float(torch.where(finite, expected, 0).abs().max())
    error = float(torch.where(finite, found - expected, 0).abs().max())
    return error / (TOLERANCE.get(dtype, LOW_PRECISION_TOLERANCE) * max(1.0, largest))
