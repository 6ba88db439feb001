"""Training runs compared at equal sampled tokens and at matched pass@1: pure functions of their evaluations.

A run is matched at a level of pass@1 where the straight lines between its evaluations reach it first; what it does
later, such as collapse, does not change that. Shapes: E evaluations, S runs, L levels.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

Floats = NDArray[np.float64]
PASS = "pass@1"


@dataclass(frozen=True)
class Track:
    """The evaluations of one run in order; a value is NaN where a metric does not exist."""

    steps_E: NDArray[np.int64]
    tokens_E: Floats
    """Tokens sampled for training until then; all 0 where the recipe does not sample."""
    values: Mapping[str, Floats]

    @property
    def peak(self) -> float:
        """The largest pass@1 of all evaluations."""
        return float(np.max(self.values[PASS]))

    def at(self, place: float) -> dict[str, float]:
        """Every metric at a place between evaluations: 2.25 is a quarter of the way from the third to the fourth."""
        evaluations = np.arange(len(self.steps_E))
        return {name: float(np.interp(place, evaluations, values_E)) for name, values_E in self.values.items()}

    def place_of_tokens(self, tokens: float) -> float:
        """Where `tokens` were sampled; NaN where the run never sampled so many."""
        if not 0 < tokens <= self.tokens_E[-1]:
            return 0.0 if tokens == 0 else np.nan
        return float(np.interp(tokens, self.tokens_E, np.arange(len(self.tokens_E))))

    def place_of_level(self, level: float) -> float:
        """Where pass@1 first reaches `level`; NaN where it never does, or began above it."""
        pass_E = self.values[PASS]
        reached = np.flatnonzero(pass_E >= level)
        if pass_E[0] > level or not len(reached):
            return np.nan
        stop = int(reached[0])
        if stop == 0:
            return 0.0
        before, after = pass_E[stop - 1], pass_E[stop]
        return float(stop - 1 + (level - before) / (after - before))


@dataclass(frozen=True)
class Estimate:
    """A mean over runs of different seeds with its 95 % t interval (NaN for one run), and the range of the runs."""

    value: float
    low: float
    high: float
    least: float
    most: float
    n: int


def over_seeds(values_S: ArrayLike) -> Estimate:
    """Mean, t interval and range over runs; NaN throughout where a run has no value, since the rest would be chosen."""
    values = np.asarray(values_S, np.float64)
    n = len(values)
    if not n or np.isnan(values).any():
        return Estimate(*(np.nan,) * 5, n)
    mean = float(values.mean())
    half = float(stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / np.sqrt(n)) if n > 1 else np.nan
    return Estimate(mean, mean - half, mean + half, float(values.min()), float(values.max()), n)


def read_track(folder: Path) -> Track:
    """A run directory's evaluations, with the sampled tokens that `metrics.jsonl` gives for their steps."""
    tokens = {0: 0.0}
    for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        tokens[row["step"]] = float(row.get("sampled_tokens") or 0)
    files = sorted((folder / "evaluations").glob("step-*.json"))
    steps = [int(file.stem.removeprefix("step-")) for file in files]
    rows = [{one["metric"]: one["value"] for one in json.loads(file.read_text(encoding="utf-8"))} for file in files]
    names = dict.fromkeys(name for row in rows for name in row)
    return Track(
        np.array(steps),
        np.array([tokens[step] for step in steps]),
        {name: np.array([row.get(name) for row in rows], np.float64) for name in names},
    )


def common_tokens(tracks: Sequence[Track]) -> float:
    """The largest token count that every run which samples has reached; 0 if none samples."""
    return min((float(track.tokens_E[-1]) for track in tracks if track.tokens_E[-1] > 0), default=0.0)


def levels_of(tracks: Sequence[Track], spacing: float) -> Floats:
    """Levels of pass@1 in steps of `spacing` from the highest start up to the highest peak, the start left out."""
    start = max(float(track.values[PASS][0]) for track in tracks)
    peak = max(track.peak for track in tracks)
    return start + spacing * np.arange(1, int((peak - start) / spacing + 1e-9) + 1)


def reached(tracks: Sequence[Track], levels_L: Floats) -> NDArray[np.bool_]:
    """Levels that every one of the runs reaches."""
    return np.array([all(np.isfinite(track.place_of_level(level)) for track in tracks) for level in levels_L], bool)


def matched(tracks: Sequence[Track], metric: str, levels_L: Floats) -> Floats:
    """`metric` of every run where its pass@1 first reaches each level, shape (S, L); NaN where it never does."""
    return np.array(
        [
            [np.nan if np.isnan(place) else track.at(place)[metric] for place in map(track.place_of_level, levels_L)]
            for track in tracks
        ]
    ).reshape(len(tracks), len(levels_L))


def frontier_gap(ours: Sequence[Track], theirs: Sequence[Track], metric: str, levels_L: Floats) -> tuple[Estimate, int]:
    """Mean difference of `metric`, ours − theirs, over the levels that all runs of both reach, paired by seed.

    Also gives the number of those levels; without any there is no value.
    """
    shared_L = levels_L[reached([*ours, *theirs], levels_L)]
    if not len(shared_L):
        return over_seeds([np.nan] * len(ours)), 0
    gaps_SL = matched(ours, metric, shared_L) - matched(theirs, metric, shared_L)
    return over_seeds(gaps_SL.mean(axis=1)), len(shared_L)


def blended(columns_E: Sequence[Mapping[str, Floats]], place: float) -> dict[str, Floats]:
    """Per-problem columns at a place between the checkpoints they belong to, on the straight line."""
    below, above = columns_E[int(np.floor(place))], columns_E[int(np.ceil(place))]
    weight = place - np.floor(place)
    return {name: below[name] + weight * (above[name] - below[name]) for name in below if name in above}


def nearest_step(track: Track, place: float, by: str) -> int:
    """The evaluated step beside `place` (its neighbours) whose tokens or pass@1 (`by`) are nearest to those there."""
    column_E = track.tokens_E if by == "tokens" else track.values[PASS]
    below, above = int(np.floor(place)), int(np.ceil(place))
    here = np.interp(place, np.arange(len(column_E)), column_E)
    return int(track.steps_E[min((below, above), key=lambda at: abs(column_E[at] - here))])
