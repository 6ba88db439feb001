"""Differences between two checkpoints, paired by problem: mean difference, BCa interval, sign-flip p-value."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entropy_lab.diagnostics.intervals import RESAMPLES, bootstrap_means
from entropy_lab.errors import InputError

_EXACT = 12  # problems up to which all 2^P sign patterns are tried
_FLIPS = 9999
_CELLS = 1 << 21


@dataclass(frozen=True)
class PairedDifference:
    """Mean of first − second over the `n` problems where both exist; NaN where undefined, `note` then says why.

    `p` is two-sided: the share of sign patterns of the per-problem differences whose mean is at least as far from 0.
    """

    value: float
    low: float
    high: float
    n: int
    p: float
    note: str


def paired_difference(first_P: ArrayLike, second_P: ArrayLike, *, seed: int = 0) -> PairedDifference:
    """Compare two aligned per-problem vectors, NaN where a problem has no value. Raises InputError on unequal shapes.

    The sign-flip test is exact up to 12 problems, else 9,999 seeded flips (p is then never below 1e-4).
    """
    return paired_differences(np.asarray(first_P)[:, None], np.asarray(second_P)[:, None], seed=seed)[0]


def paired_differences(
    first_PM: ArrayLike, second_PM: ArrayLike, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[PairedDifference, ...]:
    """As `paired_difference`, for M metrics at once; all share resamples and flips."""
    first, second = np.asarray(first_PM, np.float64), np.asarray(second_PM, np.float64)
    if first.shape != second.shape:
        raise InputError(
            f"A paired comparison needs the same problems on both sides, got tables of shape {first.shape} and "
            f"{second.shape}: align both by problem first."
        )
    differences_PM = first - second
    intervals = bootstrap_means(differences_PM, confidence=confidence, resamples=resamples, seed=seed)
    p_M = _sign_flip(differences_PM, seed)
    return tuple(
        PairedDifference(
            float(intervals.value[m]),
            float(intervals.low[m]),
            float(intervals.high[m]),
            int(intervals.n[m]),
            float(p_M[m]),
            intervals.notes[m],
        )
        for m in range(differences_PM.shape[1])
    )


def _sign_flip(differences_PM: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    """Two-sided p-values, shape (M,); NaN for columns without a value, 1 where all differences are 0."""
    problems = len(differences_PM)
    filled_PM = np.nan_to_num(differences_PM, nan=0.0)
    # Sums that differ by rounding alone count as equal.
    bound_M = np.abs(filled_PM.sum(axis=0)) - 1e-9 * np.abs(filled_PM).sum(axis=0)
    reached_M = np.zeros(filled_PM.shape[1])
    patterns = 0
    for signs_bP in _signs(problems, seed):
        reached_M += (np.abs(signs_bP @ filled_PM) >= bound_M).sum(axis=0)
        patterns += len(signs_bP)
    exact = problems <= _EXACT
    p_M = reached_M / patterns if exact else (reached_M + 1) / (patterns + 1)
    return np.where(np.isnan(differences_PM).all(axis=0), np.nan, p_M)


def _signs(problems: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Sign patterns of shape (b, P): all of them for few problems, else seeded ones."""
    if problems <= _EXACT:
        bits = np.arange(1 << problems)[:, None] >> np.arange(problems) & 1
        yield 1 - 2 * bits.astype(np.float64)
        return
    rng = np.random.default_rng(seed)
    block = max(1, _CELLS // problems)
    for start in range(0, _FLIPS, block):
        bits = rng.integers(0, 2, (min(block, _FLIPS - start), problems), dtype=np.int8)
        yield 1 - 2 * bits.astype(np.float64)
