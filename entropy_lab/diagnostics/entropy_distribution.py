"""All token entropies of a run as one sample: quantiles with intervals over problems, and the histogram."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.intervals import bootstrap_ratios
from entropy_lab.ragged import Ragged

Floats = NDArray[np.float64]

LEVELS = (0.1, 0.25, 0.5, 0.75, 0.9)
BIN_WIDTH = 0.1


@dataclass(frozen=True)
class Distribution:
    """Quantiles (nats) at `levels` with `low` and `high`, NaN where undefined; histogram edges (B + 1) and counts (B).

    `n` counts the problems that have tokens.
    """

    levels: tuple[float, ...]
    quantile: Floats
    low: Floats
    high: Floats
    n: int
    edges: Floats
    counts: NDArray[np.int64]


def entropy_distribution(
    entropies: Ragged,
    problem_N: NDArray[np.integer],
    problems: int,
    *,
    levels: Sequence[float] = LEVELS,
    seed: int = 0,
) -> Distribution:
    """Quantiles over all tokens and a histogram with bins of 0.1 nats from 0 (ours: the same edges in every run).

    A quantile's interval is Woodruff's (1952): the BCa interval over problems of the share of tokens at or below the
    quantile, carried back through the quantile function. An empty selection gives NaN and no bins.
    """
    if len(entropies.values) == 0:
        nothing = np.full(len(levels), np.nan)
        return Distribution(tuple(levels), nothing, nothing, nothing, 0, np.zeros(1), np.zeros(0, np.int64))
    sorted_T = np.sort(entropies.values)
    level_Q = np.asarray(levels, np.float64)
    quantile_Q = _quantiles(sorted_T, level_Q)

    problem_T = np.repeat(problem_N, entropies.lengths)
    tokens_P = np.bincount(problem_T, minlength=problems)
    below_PQ = np.stack(
        [np.bincount(problem_T[entropies.values <= quantile], minlength=problems) for quantile in quantile_Q], axis=1
    )
    share = bootstrap_ratios(below_PQ, np.broadcast_to(tokens_P[:, None], below_PQ.shape), seed=seed)
    low_Q = _quantiles(sorted_T, np.clip(level_Q - (share.high - share.value), 0, 1))
    high_Q = _quantiles(sorted_T, np.clip(level_Q + (share.value - share.low), 0, 1))

    bins = int(np.floor(sorted_T[-1] / BIN_WIDTH)) + 1
    edges = np.arange(bins + 1, dtype=np.float64) * BIN_WIDTH
    inner = np.searchsorted(sorted_T, edges[1:-1].astype(sorted_T.dtype))
    counts = np.diff(np.concatenate(([0], inner, [len(sorted_T)])))
    return Distribution(tuple(levels), quantile_Q, low_Q, high_Q, int((tokens_P > 0).sum()), edges, counts)


def _quantiles(sorted_T: NDArray[np.generic], level_Q: Floats) -> Floats:
    """Linearly interpolated quantiles of sorted values; a NaN level gives NaN."""
    place = np.nan_to_num(level_Q, nan=0.0) * (len(sorted_T) - 1)
    lower = np.floor(place).astype(np.int64)
    upper = np.minimum(lower + 1, len(sorted_T) - 1)
    low, high = sorted_T[lower].astype(np.float64), sorted_T[upper].astype(np.float64)
    return np.where(np.isnan(level_Q), np.nan, low + (place - lower) * (high - low))
