"""Token entropy of trajectories as one number each, to be averaged by problem; and the token mean of a run.

Every function takes the per-token entropies (nats) of the tokens the policy wrote, one row a trajectory, and gives
NaN for a trajectory without tokens. `problem_means` then makes the per-problem vector that intervals rest on.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import cumulative_trapezoid

from entropy_lab.diagnostics.intervals import Intervals, bootstrap_ratios
from entropy_lab.diagnostics.trajectories import head_means, numbers, row_means, share_counts, sorted_rows, span_sums
from entropy_lab.errors import InputError
from entropy_lab.ragged import Ragged

Floats = NDArray[np.float64]

FIRST_TOKENS = 8
TENTH = 0.1
COIN = math.log(2)
"""Default threshold (ours): the entropy of a fair coin, an effective branching of 2."""


def trajectory_entropy(entropies: Ragged) -> Floats:
    """Mean entropy of each trajectory, shape (N,), nats."""
    return row_means(entropies)


def early_entropy(entropies: Ragged, first: int = FIRST_TOKENS) -> Floats:
    """Mean over the first `first` tokens of each trajectory (all of a shorter one), shape (N,), nats."""
    return head_means(entropies, np.full(len(entropies), first))


def early_share_entropy(entropies: Ragged, share: float = TENTH) -> Floats:
    """Mean over the first ⌈share · length⌉ tokens of each trajectory, shape (N,), nats."""
    return head_means(entropies, share_counts(entropies, share))


def lowest_share_entropy(entropies: Ragged, share: float = TENTH) -> Floats:
    """Mean over the ⌈share · length⌉ lowest token entropies of each trajectory ("worst token"), shape (N,), nats."""
    return head_means(sorted_rows(entropies), share_counts(entropies, share))


def share_above(entropies: Ragged, threshold: float) -> Floats:
    """Share of each trajectory's tokens whose entropy is above `threshold` nats, shape (N,)."""
    return row_means(Ragged((numbers(entropies) > threshold).astype(np.float32), entropies.offsets))


def effective_branching(entropy: NDArray[np.float64]) -> Floats:
    """e^H: how many equally likely tokens would have this entropy (nats)."""
    return np.exp(entropy)


def token_mean(entropies: Ragged, problem_N: NDArray[np.integer], problems: int, *, seed: int = 0) -> Intervals:
    """Mean over all tokens of the run, nats, with its interval over problems (a ratio of sums, resampled as one)."""
    sums_N = span_sums(entropies.values, entropies.offsets[:-1], entropies.offsets[1:])
    sums_P = np.bincount(problem_N, sums_N, minlength=problems)
    tokens_P = np.bincount(problem_N, entropies.lengths, minlength=problems)
    return bootstrap_ratios(sums_P, tokens_P, seed=seed)


def cumulative_entropy(step_S: NDArray[np.generic], entropy_S: NDArray[np.generic]) -> Floats:
    """Area under the entropy curve of a training run up to each step, shape (S,), nats · steps, by trapezoids.

    Points whose entropy is NaN must be dropped by the caller. Raises InputError unless the steps increase strictly
    and every entropy is finite. No points give no areas.
    """
    steps, entropies = np.asarray(step_S, np.float64), np.asarray(entropy_S, np.float64)
    if steps.shape != entropies.shape:
        raise InputError(f"There are {steps.size} steps but {entropies.size} entropies: give one entropy a step.")
    if (np.diff(steps) <= 0).any():
        place = int(np.flatnonzero(np.diff(steps) <= 0)[0]) + 1
        raise InputError(
            f"Step {steps[place]:g} at position {place} does not come after step {steps[place - 1]:g}: "
            "sort the log by step and keep one row a step."
        )
    if not np.isfinite(entropies).all():
        place = int(np.flatnonzero(~np.isfinite(entropies))[0])
        raise InputError(f"The entropy at step {steps[place]:g} is {entropies[place]}: leave out steps without one.")
    return cumulative_trapezoid(entropies, steps, initial=0) if len(steps) else np.zeros(0)
