"""Breadth of sampled solutions from counts: n graded samples of a problem, c of them correct.

Unbiased pass@k, G-Pass@k, mG-Pass@k, Cover@τ and avg@n as problem vectors; k > n is refused, never capped.
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln

from entropy_lab.errors import InputError

Floats = NDArray[np.float64]


def default_ks(samples: int) -> tuple[int, ...]:
    """The powers of two ≤ `samples`."""
    return tuple(1 << power for power in range(samples.bit_length()))


def pass_at_k(correct_P: ArrayLike, samples_P: ArrayLike, ks: Sequence[int], *, short: str = "refuse") -> Floats:
    """1 − C(n−c, k) / C(n, k), the chance that k of the n samples hold a correct one, shape (P, K).

    Unbiased (Chen et al. 2021), unlike 1 − (1 − c/n)^k. The product form runs over k, so values are exact to
    rounding and never fall as k grows. `short` says what becomes of problems with fewer than k samples: "refuse"
    raises InputError, "nan" gives NaN. Raises InputError for counts that are no counts.
    """
    correct, samples = _counts(correct_P, samples_P, ks, short)
    wrong = samples - correct
    result = np.full((len(samples), len(ks)), np.nan)
    none_correct = np.ones(len(samples))
    for drawn in range(1, max(ks, default=0) + 1):
        left = samples - drawn + 1
        none_correct = none_correct * (np.maximum(wrong - drawn + 1, 0) / np.where(left > 0, left, 1))
        result[:, np.equal(ks, drawn)] = np.where(left > 0, 1 - none_correct, np.nan)[:, None]
    return result


def g_pass_at_k(
    correct_P: ArrayLike, samples_P: ArrayLike, k: int, thresholds: Sequence[float], *, short: str = "refuse"
) -> Floats:
    """G-Pass@k_τ: the chance that at least max(1, ⌈τk⌉) of k drawn samples are correct, shape (P, thresholds).

    The tail of the hypergeometric law (Liu et al. 2024). Errors as for `pass_at_k`.
    """
    tail = _tail(*_counts(correct_P, samples_P, (k,), short), k)
    return tail[:, [max(1, math.ceil(threshold * k - 1e-9)) for threshold in thresholds]]


def mg_pass_at_k(correct_P: ArrayLike, samples_P: ArrayLike, k: int, *, short: str = "refuse") -> Floats:
    """mG-Pass@k = (2/k) Σ_{i=⌈k/2⌉+1..k} P(≥ i correct of k), shape (P,). Errors as for `pass_at_k`."""
    tail = _tail(*_counts(correct_P, samples_P, (k,), short), k)
    return 2 / k * tail[:, math.ceil(k / 2) + 1 :].sum(axis=1)


def success_rate(correct_P: ArrayLike, samples_P: ArrayLike) -> Floats:
    """avg@n = c / n, shape (P,); NaN for a problem without samples."""
    correct, samples = _counts(correct_P, samples_P, (), "nan")
    with np.errstate(invalid="ignore"):
        return correct / samples


def covered(correct_P: ArrayLike, samples_P: ArrayLike, threshold: float) -> Floats:
    """1 where the success rate is ≥ `threshold`, else 0, shape (P,); the mean over problems is Cover@τ."""
    rate = success_rate(correct_P, samples_P)
    return np.where(np.isnan(rate), np.nan, rate >= threshold - 1e-12)


def refuse_greedy(temperature: float | None, samples_P: NDArray[np.integer]) -> None:
    """Raise InputError where several samples were drawn at temperature 0: they are one answer written n times."""
    if temperature == 0 and samples_P.max(initial=0) > 1:
        raise InputError(
            f"{samples_P.max()} samples a problem were drawn at temperature 0, where all are the same: "
            "sample at a temperature above 0, or one sample a problem."
        )


def _counts(correct_P: ArrayLike, samples_P: ArrayLike, ks: Sequence[int], short: str) -> tuple[Floats, Floats]:
    correct, samples = np.broadcast_arrays(np.asarray(correct_P, np.float64), np.asarray(samples_P, np.float64))
    bad = ~((correct >= 0) & (correct <= samples) & (correct == np.floor(correct)) & (samples == np.floor(samples)))
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        raise InputError(
            f"Problem {place} has {correct[place]:g} correct of {samples[place]:g} samples: give whole numbers with "
            "0 ≤ correct ≤ samples."
        )
    for k in ks:
        if k < 1 or k != int(k):
            raise InputError(f"pass@k needs a whole number k ≥ 1, got {k}.")
        if short == "refuse" and (samples < k).any():
            place = int(np.flatnonzero(samples < k)[0])
            fewest = int(samples.min())
            remedy = (
                f"ask for k ≤ {fewest} or draw more samples"
                if fewest > 1
                else "draw several samples a problem (problems cannot stand in for samples)"
            )
            raise InputError(
                f"pass@{k} needs {k} graded samples a problem, but problem {place} has {samples[place]:g}: {remedy}."
            )
    return correct, samples


def _tail(correct_P: Floats, samples_P: Floats, k: int) -> Floats:
    """P(at least i of k drawn are correct) for i = 0 … k, shape (P, k + 1); NaN where n < k."""
    pairs, inverse = np.unique(np.stack((correct_P, samples_P), axis=1), axis=0, return_inverse=True)
    correct, samples = pairs[:, :1], pairs[:, 1:]
    hits = np.arange(k + 1.0)
    log_ways = _log_choose(correct, hits) + _log_choose(samples - correct, k - hits)
    log_mass = log_ways - np.where(samples >= k, _log_choose(samples, k), 0.0)
    tail = np.cumsum(np.exp(log_mass)[:, ::-1], axis=1)[:, ::-1]
    tail = np.where(samples >= k, np.minimum(tail, 1.0), np.nan)
    return tail[inverse.ravel()]


def _log_choose(n: Floats, k: Floats | int) -> Floats:
    """Log C(n, k), −inf where k > n."""
    inside = np.asarray(k) <= n
    rest = np.where(inside, n - k, 0.0)
    return np.where(inside, gammaln(n + 1) - gammaln(np.asarray(k) + 1.0) - gammaln(rest + 1), -np.inf)
