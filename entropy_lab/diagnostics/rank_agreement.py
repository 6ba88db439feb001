"""Curves and orders over a few runs: the area under a curve, and how far two columns agree in rank."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.tabulate import metric

FEWEST = 3
"""Pairs below which no agreement is told (ours)."""


def mean_height(x: ArrayLike, y: ArrayLike) -> float:
    """Area under straight lines through (x, y), divided by the width; NaN points are left out, NaN without a width."""
    places, values = np.asarray(x, np.float64), np.asarray(y, np.float64)
    known = np.isfinite(places) & np.isfinite(values)
    places, values = places[known], values[known]
    if len(places) < 2 or places[-1] == places[0]:
        return float("nan")
    return float(np.trapezoid(values, places) / (places[-1] - places[0]))


def rank_agreement(name: str, x: Sequence[float], y: Sequence[float]) -> tuple[Metric, Metric]:
    """Kendall's τ and Spearman's ρ of two columns, with two-sided p values in the notes.

    τ's p is exact where nothing ties, ρ's by all or 9,999 seeded permutations: a handful of runs has no asymptotics.
    Pairs with a NaN are left out; fewer than `FEWEST`, or a constant column, have no value.
    """
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    known = np.isfinite(first) & np.isfinite(second)
    first, second = first[known], second[known]
    n = len(first)
    if n < FEWEST or not np.ptp(first) or not np.ptp(second):
        why = f"{n} pairs, {FEWEST} needed" if n < FEWEST else "one of the two is the same everywhere"
        return _none(f"{name}.tau", n, why), _none(f"{name}.rho", n, why)
    tau = stats.kendalltau(first, second)
    rho = float(stats.spearmanr(first, second).statistic)
    exact = stats.permutation_test(
        (first,),
        lambda column: stats.spearmanr(column, second).statistic,
        permutation_type="pairings",
        n_resamples=9_999,
        rng=np.random.default_rng(0),
    )
    return (
        metric(f"{name}.tau", tau.statistic, np.nan, np.nan, "", n, note=_p(tau.pvalue, "Kendall")),
        metric(f"{name}.rho", rho, np.nan, np.nan, "", n, note=_p(exact.pvalue, "Spearman")),
    )


def _p(value: float, kind: str) -> str:
    return f"{kind}, p = {value:.3g}, no interval for so few pairs"


def _none(name: str, n: int, why: str) -> Metric:
    return metric(name, np.nan, np.nan, np.nan, "", n, note=why)
