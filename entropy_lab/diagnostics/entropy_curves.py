"""Where in the response the entropy lies: by absolute position and by response decile, as problem means with bands."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.intervals import Band, bootstrap_means
from entropy_lab.diagnostics.trajectories import problem_means
from entropy_lab.ragged import Ragged

POINTS = 512
MIN_TRAJECTORIES = 8
_RESAMPLES = 1000  # a band is drawn, not tested


def entropy_by_position(
    entropies: Ragged,
    problem_N: NDArray[np.integer],
    problems: int,
    *,
    min_trajectories: int = MIN_TRAJECTORIES,
    seed: int = 0,
) -> Band:
    """Problem mean of the entropy (nats) of the t-th token, x = t from 0.

    Ends before the first position that fewer than `min_trajectories` trajectories reach, since few long responses
    are no sample of all. Past 512 positions, runs of w = ⌈T / 512⌉ positions are pooled within each problem and x is
    the middle of the run (ours). An empty selection gives an empty curve.
    """
    lengths = np.sort(entropies.lengths)
    reach = int(lengths[-min_trajectories]) if len(lengths) >= min_trajectories else 0
    if reach == 0:
        return Band.empty()
    width = -(-reach // POINTS)
    points = -(-reach // width)
    cell_T = entropies.positions()
    kept_T = cell_T < reach
    if width > 1:
        cell_T //= width
    cell_T += np.repeat(problem_N * points, entropies.lengths)
    cell_T, value_T = cell_T[kept_T], entropies.values[kept_T]
    sums = np.bincount(cell_T, value_T, minlength=problems * points)
    counts = np.bincount(cell_T, minlength=problems * points)
    edges = np.minimum(np.arange(points + 1) * width, reach)
    return _band((edges[:-1] + edges[1:] - 1) / 2, _ratio(sums, counts).reshape(problems, points), seed)


def entropy_by_decile(entropies: Ragged, problem_N: NDArray[np.integer], problems: int, *, seed: int = 0) -> Band:
    """Problem mean of the entropy (nats) in each tenth of the response, x = 1 … 10.

    Token t of L lies in tenth ⌊10 t / L⌋ + 1; a response of fewer than ten tokens leaves some tenths empty.
    """
    if len(entropies.values) == 0:
        return Band.empty()
    lengths = entropies.lengths
    cell_T = entropies.positions()
    cell_T *= 10
    cell_T //= np.repeat(lengths, lengths)
    cell_T += np.repeat(10 * np.arange(len(entropies)), lengths)
    sums = np.bincount(cell_T, entropies.values, minlength=10 * len(entropies))
    counts = np.bincount(cell_T, minlength=10 * len(entropies))
    means_N10 = _ratio(sums, counts).reshape(-1, 10)
    table = np.stack([problem_means(means_N10[:, tenth], problem_N, problems) for tenth in range(10)], axis=1)
    return _band(np.arange(1.0, 11.0), table, seed)


def _ratio(sums: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    with np.errstate(invalid="ignore"):
        return sums / counts


def _band(x: NDArray[np.float64], table_PX: NDArray[np.float64], seed: int) -> Band:
    intervals = bootstrap_means(table_PX, resamples=_RESAMPLES, seed=seed)
    return Band(x.astype(np.float64), intervals.value, intervals.low, intervals.high, intervals.n)
