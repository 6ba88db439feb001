"""Where a later checkpoint moved its likelihoods: per-token shift and KL at the entrance of a solution and after it.

Entrance tokens run from the start of the solution text through its first operator; the rest, end token included, is
execution. The unit is the problem: mean over a part's tokens, then over a problem's texts, then over problems.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.entropy_curves import entropy_by_position
from entropy_lab.diagnostics.intervals import Band, bootstrap_ratios
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.tabulate import join_notes, mean_metrics, metric
from entropy_lab.diagnostics.trajectories import problem_means, span_sums
from entropy_lab.ragged import Ragged

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PARTS = ("entrance", "execution")


@dataclass(frozen=True)
class Split:
    """Token indices of one completion: entrance [start, stop), execution [stop, end). Before `start` is scaffold."""

    start: int
    stop: int


def split_at(pieces: Sequence[str], start: int, operator: int) -> Split:
    """Where the entrance lies among a completion's tokens, by character offsets.

    `pieces` is the text that each token adds (joined, the decoded text), `start` the first character of the solution
    text and `operator` the last character of its first operator. A token that holds characters of both parts goes to
    the entrance, and one of both scaffold and solution too; a token whose character a later one completes goes with it.
    """
    ends = list(accumulate(map(len, pieces)))
    begins = [end - len(piece) for end, piece in zip(ends, pieces, strict=True)]
    scaffold = sum(max(end, begin + 1) <= start for begin, end in zip(begins, ends, strict=True))
    return Split(scaffold, sum(begin <= operator for begin in begins))


@dataclass(frozen=True)
class Shifts:
    """N texts of P problems scored at two checkpoints; lists hold the completion's tokens, values in nats."""

    problem_N: Ints
    problems: int
    delta: Ragged
    """log p_late − log p_early."""
    kl: Ragged
    """KL(early‖late) of the next-token distributions."""
    start_N: Ints
    stop_N: Ints

    def part_means(self, values: Ragged, part: str) -> Floats:
        """Problem means of `values` over a part's tokens, shape (P,); NaN where no text of a problem has any."""
        first_N = values.offsets[:-1]
        begin_N, end_N = first_N + self.start_N, first_N + self.stop_N
        if part == "execution":
            begin_N, end_N = end_N, values.offsets[1:]
        with np.errstate(invalid="ignore"):
            mean_N = span_sums(values.values, begin_N, end_N) / (end_N - begin_N)
        return problem_means(mean_N, self.problem_N, self.problems)

    def by_position(self, values: Ragged, seed: int = 0) -> Band:
        """Problem mean of `values` at the t-th token of the solution text, x = t from 0, with its band."""
        lengths_N = values.lengths - self.start_N
        offsets = np.concatenate(([0], np.cumsum(lengths_N)))
        kept_T = values.positions() >= np.repeat(self.start_N, values.lengths)
        return entropy_by_position(Ragged(values.values[kept_T], offsets), self.problem_N, self.problems, seed=seed)


def size(values: Ragged) -> Ragged:
    """|values|, token by token."""
    return Ragged(np.abs(values.values), values.offsets)


def shift_columns(shifts: Shifts, note: str = "") -> list[Column]:
    """Mean |Δ|, mean Δ and mean KL a token, nats, in each part."""
    measured = {"shift.{}.abs": size(shifts.delta), "shift.{}.mean": shifts.delta, "kl.{}": shifts.kl}
    missing = {"entrance": "no text with a first operator", "execution": "no text goes on after its first operator"}
    return [
        Column(name.format(part), "nats", shifts.part_means(values, part), missing[part], note)
        for name, values in measured.items()
        for part in PARTS
    ]


def shift_metrics(columns: Sequence[Column], name: str, *, seed: int = 0) -> tuple[Metric, ...]:
    """The columns' means, then the ratios entrance ÷ execution of |Δ| and of KL.

    A ratio is of problem means, over the problems that have both parts, with a bootstrap interval. It has no value
    where the execution's mean is 0, as between equal checkpoints.
    """
    by_name = {column.name: column for column in columns}
    ratios = (
        _ratio("shift.ratio", by_name["shift.entrance.abs"], by_name["shift.execution.abs"], name, seed),
        _ratio("kl.ratio", by_name["kl.entrance"], by_name["kl.execution"], name, seed),
    )
    return (*mean_metrics(columns, name, seed=seed), *ratios)


def _ratio(metric_name: str, entrance: Column, execution: Column, name: str, seed: int) -> Metric:
    both_P = ~np.isnan(entrance.values_P) & ~np.isnan(execution.values_P)
    above_P, below_P = entrance.values_P[both_P], execution.values_P[both_P]
    if not below_P.any():
        why = "nothing shifts after the entrance, so the ratio has no value" if len(below_P) else "no problem has both"
        return metric(metric_name, np.nan, np.nan, np.nan, "ratio", len(below_P), checkpoint=name, note=why)
    # A problem with no shift at all after the entrance counts like any other; a denominator of 0 would drop it.
    found = bootstrap_ratios(above_P, np.maximum(below_P, np.finfo(float).tiny), seed=seed)
    value, low, high = (float(column[0]) for column in (found.value, found.low, found.high))
    note = join_notes("entrance ÷ execution, ratio of problem means", found.notes[0], entrance.note)
    return metric(metric_name, value, low, high, "ratio", int(found.n[0]), checkpoint=name, note=note)
