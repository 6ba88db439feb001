"""Intervals for numbers whose unit is the problem: Wilson for proportions, BCa bootstrap for means and ratios.

Many metrics are resampled by one set of weights, so metrics of one run stay paired; the seed decides everything.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri

Floats = NDArray[np.float64]

RESAMPLES = 5000
_CELLS = 1 << 21  # weights or resampled values held at once
_TIE = 1e-12  # relative size below which a difference is rounding


@dataclass(frozen=True)
class Intervals:
    """M estimates. `low` and `high` are NaN where no interval exists and `notes` says why; `n` counts problems."""

    value: Floats
    low: Floats
    high: Floats
    n: NDArray[np.int64]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Band:
    """A curve with its interval at each x; `n` counts the problems behind each point."""

    x: Floats
    value: Floats
    low: Floats
    high: Floats
    n: NDArray[np.int64]

    @classmethod
    def empty(cls) -> "Band":
        """The curve of an empty selection."""
        none = np.zeros(0)
        return cls(none, none, none, none, np.zeros(0, np.int64))


def wilson(successes: ArrayLike, n: ArrayLike, confidence: float = 0.95) -> tuple[Floats, Floats]:
    """Wilson score interval of a proportion, elementwise; NaN where n = 0. Stays within [0, 1]. (Wilson 1927)."""
    trials = np.asarray(n, np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.asarray(successes, np.float64) / trials
        square = ndtri(0.5 + confidence / 2) ** 2 / trials
        centre = (share + square / 2) / (1 + square)
        half = np.sqrt(share * (1 - share) * square + square**2 / 4) / (1 + square)
    low = np.where(share == 0, 0.0, np.clip(centre - half, 0, 1))
    high = np.where(share == 1, 1.0, np.clip(centre + half, 0, 1))
    return low, high


def bootstrap_means(
    values_PM: ArrayLike, *, confidence: float = 0.95, resamples: int = RESAMPLES, seed: int = 0
) -> Intervals:
    """BCa intervals of the column means of a problem × metric table, NaN entries left out of their own column.

    Shape (P, M) or (P,). All columns share the resampled problems. A problem without a value is resampled too and
    adds nothing, so the number of values behind a resampled mean varies as it would in a new draw of problems.
    """
    values = _columns(values_PM)
    valid = ~np.isnan(values)
    return bootstrap_ratios(
        np.where(valid, values, 0.0), valid.astype(np.float64), confidence=confidence, resamples=resamples, seed=seed
    )


def bootstrap_ratios(
    numerators_PM: ArrayLike,
    denominators_PM: ArrayLike,
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Intervals:
    """BCa intervals of Σ numerator / Σ denominator over problems, as a token mean is Σ entropy / Σ tokens.

    Shapes (P, M) or (P,); denominators ≥ 0, and a problem with denominator 0 counts neither in value nor in n.
    The acceleration is the exact jackknife, which a ratio of sums has in closed form (Efron & Tibshirani 1993,
    14.3). Where BCa does not exist, as on constant data, the interval is the percentile one and the note says so.
    """
    numerators, denominators = _columns(numerators_PM), _columns(denominators_PM)
    width = max(1, _CELLS // max(resamples, len(numerators)))
    parts = [
        _bca(numerators[:, start : start + width], denominators[:, start : start + width], confidence, resamples, seed)
        for start in range(0, numerators.shape[1], width)
    ]
    if not parts:
        none = np.zeros(0)
        return Intervals(none, none, none, np.zeros(0, np.int64), ())
    return Intervals(
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
        np.concatenate([part.n for part in parts]),
        sum((part.notes for part in parts), ()),
    )


def resample_weights(problems: int, resamples: int, seed: int) -> Iterator[Floats]:
    """How often each problem appears in each bootstrap resample: blocks of shape (b, P), `resamples` rows in all.

    The rows depend on (problems, seed) alone, however they are blocked.
    """
    rng = np.random.default_rng(seed)
    block = max(1, _CELLS // max(problems, 1))
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        picks = rng.integers(0, problems, (rows, problems))
        picks += np.arange(rows)[:, None] * problems
        counts = np.bincount(picks.ravel(), minlength=rows * problems)
        yield counts.reshape(rows, problems).astype(np.float64)


def _columns(table: ArrayLike) -> Floats:
    array = np.asarray(table, np.float64)
    return array[:, None] if array.ndim == 1 else array


def _bca(numerators_PM: Floats, denominators_PM: Floats, confidence: float, resamples: int, seed: int) -> Intervals:
    counted_PM = denominators_PM > 0
    n_M = counted_PM.sum(axis=0)
    total_M = denominators_PM.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value_M = numerators_PM.sum(axis=0) / total_M
    # Resampled as deviations from the estimate, so that equal values stay equal after rounding.
    deviations_PM = np.where(counted_PM, numerators_PM - value_M * denominators_PM, 0.0)
    scale_M = np.abs(numerators_PM).max(axis=0, initial=0.0)
    deviations_PM[np.abs(deviations_PM) <= _TIE * scale_M] = 0.0

    resampled_MB = _resample(deviations_PM, denominators_PM, resamples, seed)
    exists_M = n_M > 1
    tail = (1 - confidence) / 2
    nominal_2 = np.array([tail, 1 - tail])
    levels_M2 = _bca_levels(resampled_MB, _acceleration(deviations_PM, denominators_PM, counted_PM), nominal_2)
    falls_back_M = np.asarray(~np.isfinite(levels_M2).all(axis=1))
    levels_M2[falls_back_M] = nominal_2
    ends_M2 = value_M[:, None] + _row_quantiles(resampled_MB, levels_M2)
    ends_M2[~exists_M] = np.nan
    varies_M = np.asarray((deviations_PM != 0).any(axis=0))
    notes = tuple(_note(int(n_M[m]), bool(falls_back_M[m]), bool(varies_M[m])) for m in range(len(value_M)))
    return Intervals(value_M, ends_M2[:, 0], ends_M2[:, 1], n_M.astype(np.int64), notes)


def _note(n: int, falls_back: bool, varies: bool) -> str:
    """Why an estimate has no interval, or not BCa's."""
    if n < 2:
        return "one problem: no interval" if n else "no problem has a value"
    if not falls_back:
        return ""
    return "percentile interval: BCa does not exist for this sample" + ("" if varies else ", all values are equal")


def _resample(deviations_PM: Floats, denominators_PM: Floats, resamples: int, seed: int) -> Floats:
    """Sorted resampled deviations, shape (M, B); resamples that hold no value are NaN and sorted last."""
    problems, metrics = deviations_PM.shape
    resampled_BM = np.full((resamples, metrics), np.nan)
    if problems == 0:
        return resampled_BM.T
    everywhere = bool((denominators_PM == 1).all())
    tie_M = _TIE * np.abs(deviations_PM).max(axis=0)
    start = 0
    for weights_bP in resample_weights(problems, resamples, seed):
        sums_bM = weights_bP @ deviations_PM
        sums_bM[np.abs(sums_bM) <= tie_M * problems] = 0.0
        totals_bM = float(problems) if everywhere else weights_bP @ denominators_PM
        with np.errstate(invalid="ignore", divide="ignore"):
            resampled_BM[start : start + len(sums_bM)] = sums_bM / totals_bM
        start += len(sums_bM)
    resampled_MB = np.ascontiguousarray(resampled_BM.T)
    resampled_MB.sort(axis=1)
    return resampled_MB


def _acceleration(deviations_PM: Floats, denominators_PM: Floats, counted_PM: NDArray[np.bool_]) -> Floats:
    """Skewness of the jackknife values / 6, shape (M,); NaN on constant data. For a mean it is Σd³ / 6(Σd²)^1.5."""
    with np.errstate(invalid="ignore", divide="ignore"):
        left_out_PM = -deviations_PM / (denominators_PM.sum(axis=0) - denominators_PM)
        mean_M = np.where(counted_PM, left_out_PM, 0.0).sum(axis=0) / counted_PM.sum(axis=0)
        influence_PM = np.where(counted_PM, mean_M - left_out_PM, 0.0)
        influence_PM /= np.abs(influence_PM).max(axis=0, initial=0.0)
        return (influence_PM**3).sum(axis=0) / (6 * (influence_PM**2).sum(axis=0) ** 1.5)


def _bca_levels(resampled_MB: Floats, acceleration_M: Floats, nominal_2: Floats) -> Floats:
    """The quantile levels that BCa puts in place of the nominal ones, shape (M, 2)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        held_M = (~np.isnan(resampled_MB)).sum(axis=1)
        below_M = ((resampled_MB < 0).sum(axis=1) + (resampled_MB <= 0).sum(axis=1)) / (2 * held_M)
        bias_M1 = ndtri(below_M)[:, None]
        shifted_M2 = bias_M1 + ndtri(nominal_2)
        return ndtr(bias_M1 + shifted_M2 / (1 - acceleration_M[:, None] * shifted_M2))


def _row_quantiles(sorted_MB: Floats, levels_M2: Floats) -> Floats:
    """Linearly interpolated quantiles of each sorted row, NaN (sorted last) left out, shape (M, 2)."""
    last_M1 = np.maximum((~np.isnan(sorted_MB)).sum(axis=1, keepdims=True) - 1, 0)
    place_M2 = levels_M2 * last_M1
    lower_M2 = np.floor(place_M2).astype(np.int64)
    upper_M2 = np.minimum(lower_M2 + 1, last_M1)
    low_M2 = np.take_along_axis(sorted_MB, lower_M2, axis=1)
    return low_M2 + (place_M2 - lower_M2) * (np.take_along_axis(sorted_MB, upper_M2, axis=1) - low_M2)
