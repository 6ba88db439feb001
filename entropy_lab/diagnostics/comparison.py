"""Two checkpoints on the problems they share: paired differences of every per-problem metric, and the crossing.

Token-weighted figures (token mean, quantiles) have no value a problem and are compared through the problem means.
"""

import numpy as np

from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.crossing import crossing
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.paired import paired_differences
from entropy_lab.diagnostics.summary import Summary
from entropy_lab.diagnostics.tabulate import join_notes, metric


def compare(first: Summary, second: Summary, *, seed: int = 0) -> tuple[Metric, ...]:
    """First minus second, paired by problem: `difference.<metric>` with BCa interval and sign-flip p in the note.

    Only problems with a value on both sides count. A last row, `crossing.pass@k`, holds the k at which the pass@k
    curves cross, or none with a note.
    """
    _, rows_first, rows_second = np.intersect1d(
        first.problems, second.problems, assume_unique=True, return_indices=True
    )
    names = f"{first.checkpoint} - {second.checkpoint}"
    other = {column.name: column for column in second.columns}
    pairs = [(column, other[column.name]) for column in first.columns if column.name in other]
    metrics = []
    if pairs:
        differences = paired_differences(
            np.stack([column.values_P[rows_first] for column, _ in pairs], axis=1),
            np.stack([column.values_P[rows_second] for _, column in pairs], axis=1),
            seed=seed,
        )
        for (column, against), difference in zip(pairs, differences, strict=True):
            test = f"p = {difference.p:.2g} (sign flips, paired by problem)" if np.isfinite(difference.p) else ""
            note = join_notes(difference.note, test, _conditions(column, against))
            ends = (difference.value, difference.low, difference.high)
            name = f"difference.{column.name}"
            metrics.append(metric(name, *ends, column.unit, difference.n, checkpoint=names, note=note))
    if first.graded_P.any() and second.graded_P.any():
        metrics.append(_crossing_metric(first, second, rows_first, rows_second, names, seed))
    return tuple(metrics)


def _conditions(column: Column, against: Column) -> str:
    """What goes with the two means, said once where it is the same (so truncation stands beside every accuracy)."""
    return column.note if column.note == against.note else f"{column.note} against {against.note}"


def _crossing_metric(
    first: Summary, second: Summary, rows_first: np.ndarray, rows_second: np.ndarray, names: str, seed: int
) -> Metric:
    counts = [
        first.correct_P[rows_first],
        first.graded_P[rows_first],
        second.correct_P[rows_second],
        second.graded_P[rows_second],
    ]
    graded = (counts[1] > 0) & (counts[3] > 0)
    result = crossing(*(count[graded] for count in counts), seed=seed)
    leader = ""
    if result.first_leads is not None:
        leader = f"{first.checkpoint if result.first_leads else second.checkpoint} leads at small k"
    note = join_notes(result.note, leader)
    return metric("crossing.pass@k", result.k, result.low, result.high, "k", result.n, checkpoint=names, note=note)
