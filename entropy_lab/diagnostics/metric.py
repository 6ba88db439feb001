"""One measured number: its value, its interval, its n, whose it is. Nothing is shown without these."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Metric:
    """One row of `metrics.json`.

    `value`, `low` and `high` are None, never NaN, where a number does not exist; `note` then says why.
    `n` counts the independent units the interval rests on (problems, unless the note says otherwise).
    """

    metric: str
    value: float | None
    low: float | None
    high: float | None
    unit: str
    n: int
    checkpoint: str = ""
    note: str = ""
