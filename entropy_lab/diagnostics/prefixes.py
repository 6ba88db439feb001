"""Groups that went on from another model's tokens: how surprising those were, and what the groups explored. Numpy only.

Shape letters: G groups, B bins of surprise.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from entropy_lab.diagnostics.intervals import RESAMPLES, bootstrap_means
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.tabulate import metric

BINS = 4
FEWEST = 5
"""Groups that a bin of surprise holds at least (ours)."""
QUANTITIES = {
    "accuracy": ("share", "mean share of a group's completions that are right"),
    "differing": ("share of groups", "groups with right and wrong completions, which alone train"),
    "families": ("families", "distinct families among a group's right completions"),
}


@dataclass(frozen=True)
class Group:
    """Completions of one problem that began alike: `surprise` in nats a token, NaN where nothing was given."""

    surprise: float
    accuracy: float
    families: int

    @property
    def differing(self) -> float:
        """1 where some are right and some are wrong."""
        return float(0 < self.accuracy < 1)


def groups_of(rows: Sequence[tuple[str, float | None, bool | None, str | None]]) -> list[Group]:
    """Groups from rows of (group name, surprise, correct, family); rows without a grade are left out."""
    found: dict[str, list[tuple[float | None, bool, str | None]]] = defaultdict(list)
    for name, surprise, correct, family in rows:
        if correct is not None:
            found[name].append((surprise, correct, family))
    return [
        Group(
            np.nan if own[0][0] is None else own[0][0],
            float(np.mean([correct for _, correct, _ in own])),
            len({family for _, correct, family in own if correct and family is not None}),
        )
        for own in found.values()
    ]


def binned(groups: Sequence[Group], most: int = BINS) -> list[tuple[str, list[Group]]]:
    """Groups with a surprise, in up to `most` bins between its quantiles, named by their range."""
    ordered = sorted((one for one in groups if np.isfinite(one.surprise)), key=lambda one: one.surprise)
    bins = min(most, len(ordered) // FEWEST) or int(bool(ordered))
    parts = np.array_split(np.arange(len(ordered)), bins) if bins else []
    return [
        (f"{ordered[part[0]].surprise:.2f} to {ordered[part[-1]].surprise:.2f}", [ordered[place] for place in part])
        for part in parts
    ]


def summarised(groups: Sequence[Group], prefix: str, name: str, seed: int = 0) -> dict[str, Metric]:
    """Mean of each quantity over groups with its 95 % BCa interval, as `<prefix>.<quantity>`."""
    found = {}
    for quantity, (unit, note) in QUANTITIES.items():
        values_G = np.array([getattr(one, quantity) for one in groups], float)
        if not len(values_G):
            found[quantity] = metric(
                f"{prefix}.{quantity}", np.nan, np.nan, np.nan, unit, 0, checkpoint=name, note="no groups"
            )
            continue
        one = bootstrap_means(values_G, seed=seed)
        found[quantity] = metric(
            f"{prefix}.{quantity}", one.value[0], one.low[0], one.high[0], unit, one.n[0], checkpoint=name, note=note
        )
    return found


def rank_correlation(groups: Sequence[Group], quantity: str, name: str, seed: int = 0) -> Metric:
    """Spearman's ρ of surprise and `quantity` over groups, with a percentile bootstrap interval over groups."""
    x_G = np.array([one.surprise for one in groups])
    y_G = np.array([getattr(one, quantity) for one in groups], float)
    label, note = f"prefix.rank_correlation.{quantity}", "Spearman, surprise of the prefix against it, over groups"
    if len(groups) < FEWEST or not np.ptp(x_G) or not np.ptp(y_G):
        return metric(
            label, np.nan, np.nan, np.nan, "", len(groups), checkpoint=name, note="too few groups, or all alike"
        )
    draws = _resampled(x_G, y_G, seed)
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return metric(label, _spearman(x_G, y_G), low, high, "", len(groups), checkpoint=name, note=note)


def _resampled(x_G: NDArray[np.float64], y_G: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    picks = generator.integers(0, len(x_G), (min(RESAMPLES, 1000), len(x_G)))
    return np.array([_spearman(x_G[pick], y_G[pick]) for pick in picks])


def _spearman(x_G: NDArray[np.float64], y_G: NDArray[np.float64]) -> float:
    if not np.ptp(x_G) or not np.ptp(y_G):
        return float("nan")
    return float(np.corrcoef(stats.rankdata(x_G), stats.rankdata(y_G))[0, 1])
