"""From estimates to rows of metrics.json: NaN becomes None with a note, proportions of problems get Wilson."""

import math
from collections.abc import Sequence

import numpy as np

from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.intervals import bootstrap_means, wilson
from entropy_lab.diagnostics.metric import Metric


def metric(
    name: str, value: float, low: float, high: float, unit: str, n: int, *, checkpoint: str = "", note: str = ""
) -> Metric:
    """One row; whatever is not finite becomes None. A missing value must bring a note that says why."""

    def known(number: float) -> float | None:
        return float(number) if math.isfinite(number) else None

    if not math.isfinite(value) and not note:
        raise ValueError(f"{name} has no value and no note that says why")
    return Metric(name, known(value), known(low), known(high), unit, int(n), checkpoint, note)


def mean_metrics(columns: Sequence[Column], checkpoint: str, *, seed: int = 0) -> tuple[Metric, ...]:
    """Means over problems with 95 % intervals: BCa, all columns resampled together.

    A share that is 0 or 1 in every problem is a proportion of problems and gets the Wilson interval instead, which
    does not shrink to a point when all problems agree.
    """
    if not columns:
        return ()
    intervals = bootstrap_means(np.stack([column.values_P for column in columns], axis=1), seed=seed)
    rows = []
    for column, value, low, high, n, fallback in zip(
        columns, intervals.value, intervals.low, intervals.high, intervals.n, intervals.notes, strict=True
    ):
        values = column.values_P[~np.isnan(column.values_P)]
        kind = fallback
        if column.unit == "share" and n > 0 and np.isin(values, (0.0, 1.0)).all():
            low, high = (float(end) for end in wilson(values.sum(), n))
            kind = "Wilson interval over problems"
        note = join_notes(left_out(column), kind, column.note)
        rows.append(metric(column.name, value, low, high, column.unit, n, checkpoint=checkpoint, note=note))
    return tuple(rows)


def left_out(column: Column) -> str:
    """How many problems have no value, and why."""
    missing = int(np.isnan(column.values_P).sum())
    return f"{missing} of {len(column.values_P)} problems left out: {column.missing}" if missing else ""


def join_notes(*notes: str) -> str:
    """The notes that say something, in order, each once."""
    return "; ".join(dict.fromkeys(note for note in notes if note))
