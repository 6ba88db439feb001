"""What 16-bit log-probs and logits do to importance ratios: rounding, the bias it makes, the clip decisions it changes.

Shape letters: N tokens, D draws, V vocabulary. Log-probs in nats; r = exp(new log-prob − old log-prob).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_BITS_AND_EXPONENT = {"bfloat16": (8, -126), "float16": (11, -14)}
FORMATS = ("bfloat16", "float16")
SHIFT = 0.1
"""Standard deviation (ours) of the shift of the sampled token's logit in `shifted_logprobs`."""


def spacing(values: ArrayLike, form: str) -> Floats:
    """u, the distance between neighbouring numbers of `form` at each value: 2^(⌊log2 |x|⌋ + 1 − bits of precision)."""
    bits, smallest = _BITS_AND_EXPONENT[form]
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    exponent = np.where(mantissa == 0, smallest, np.maximum(exponent - 1, smallest))
    return np.ldexp(1.0, exponent - (bits - 1))


def rounded(values: ArrayLike, form: str) -> Floats:
    """The nearest numbers of `form`, ties to even, as a cast gives them; nothing overflows."""
    step = spacing(values, form)
    return np.rint(np.asarray(values, np.float64) / step) * step


def expected_bias(step: ArrayLike, old_step: ArrayLike | None = None) -> Floats:
    """E[r_obs/r] − 1 = (sinh(u/2)/(u/2))² − 1 ≈ u²/12 for two log-probs rounded to a spacing u = `step`.

    The errors of new and old log-prob are then independent and uniform on ±u/2, and E[e^error] = sinh(u/2)/(u/2); with
    an `old_step` the square becomes the product of both. It holds where log-ratios spread over more than u; for equal
    policies both errors are one and the same, and r_obs is exactly 1.
    """
    return _growth(step) * _growth(step if old_step is None else old_step) - 1


def _growth(step: ArrayLike) -> Floats:
    """E[e^error] = sinh(u/2)/(u/2) of an error uniform on ±u/2."""
    half = np.asarray(step, np.float64) / 2
    return np.sinh(half) / half


def observed_bias(new: ArrayLike, old: ArrayLike, new_observed: ArrayLike, old_observed: ArrayLike) -> Floats:
    """r_obs/r − 1 from exact and observed log-probs, elementwise."""
    exact = np.asarray(new, np.float64) - np.asarray(old, np.float64)
    return np.expm1(np.asarray(new_observed, np.float64) - np.asarray(old_observed, np.float64) - exact)


def shifted_logprobs(logprob_N: ArrayLike, draws: int, seed: int) -> Floats:
    """Log-probs (N, D) of a policy drawn at random: the logit of each sampled token moves by δ ~ N(0, `SHIFT`²).

    log p' = log p + δ − log(1 + p(e^δ − 1)): an unlikely token's log-ratio is δ, a certain one's 0, and no log-prob
    exceeds 0 (ours). One stream of draws a seed.
    """
    logprob_N1 = np.asarray(logprob_N, np.float64)[:, None]
    shift_ND = SHIFT * np.random.default_rng(seed).standard_normal((len(logprob_N1), draws))
    return np.minimum(logprob_N1 + shift_ND - np.log1p(np.exp(logprob_N1) * np.expm1(shift_ND)), 0.0)


def clip_decisions(log_ratio: ArrayLike, low: float, high: float) -> NDArray[np.int8]:
    """−1 where r < 1 − low, 1 where r > 1 + high, else 0."""
    ratio = np.exp(np.asarray(log_ratio, np.float64))
    return (ratio > 1 + high).astype(np.int8) - (ratio < 1 - low).astype(np.int8)


class LogitRounding(NamedTuple):
    """Of N targets, once the finished logits are rounded: their log-probs, and the bias that theory expects of r."""

    logprob_N: Floats
    expected_bias_N: Floats


def round_logits(logits_NV: ArrayLike, targets_N: NDArray[np.integer], form: str) -> LogitRounding:
    """Log-probs of logits cast to `form`, the softmax itself exact, and E[r_obs/r] − 1 to first order.

    Each logit's error is uniform on ±u_v/2 and moves log p(target) by (1[v = target] − p_v) of it, so that the bias is
    Σ_v (1[v = target] − p_v)²·u_v²/12; u²/12 at the target's logit where p is small.
    """
    logits = np.asarray(logits_NV, np.float64)
    rows = np.arange(len(logits))
    weight_NV = _softmax(logits)
    weight_NV[rows, targets_N] -= 1
    bias_N = ((weight_NV * spacing(logits, form)) ** 2).sum(1) / 12
    cast_NV = rounded(logits, form)
    largest_N = cast_NV.max(1, initial=-np.inf)
    total_N = np.log(np.exp(cast_NV - largest_N[:, None]).sum(1))
    return LogitRounding(cast_NV[rows, targets_N] - largest_N - total_N, bias_N)


def own_gradient(logprob_N: ArrayLike) -> NDArray[np.float32]:
    """The sampled token's own log-prob gradient by its logit, 1 − p, as float32 computes it from a float32 log-prob."""
    p_N = np.exp(np.asarray(logprob_N, np.float64)).astype(np.float32)
    return np.float32(1) - p_N


def _softmax(logits_NV: Floats) -> Floats:
    weight_NV = np.exp(logits_NV - logits_NV.max(1, initial=-np.inf, keepdims=True))
    return weight_NV / weight_NV.sum(1, keepdims=True)
