"""How a number is written: a value, its interval, a difference in words.

A number has three significant digits; a value with its interval has no more decimals than the interval can bear. A
difference whose interval holds zero is called "no clear difference", whatever its value.
"""

import math
from collections.abc import Iterable
from dataclasses import replace

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import CheckpointDiagnosis

ABSENT = "—"
_MINUS, _TIMES = "\u2212", "\u00d7"
_MOST_DECIMALS = 6
_SPOKEN_UNITS = {"nats", "tokens"}


def finite(value: float | None) -> float | None:
    """`value`, or None where it is not a number anyone can read."""
    return value if value is not None and math.isfinite(value) else None


def _decimals(size: float, digits: int = 3) -> int:
    if size == 0:
        return 0
    exponent = int(f"{size:.{digits - 1}e}".split("e")[1])
    return max(0, digits - 1 - exponent)


def _fixed(value: float, decimals: int) -> str:
    if decimals > _MOST_DECIMALS:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa}e{int(exponent)}" if value else "0"
    else:
        text = f"{value:,.{decimals}f}"
    if not any(digit in "123456789" for digit in text):
        text = text.lstrip("-")
    return text.replace("-", _MINUS)


def number(value: float | None) -> str:
    """Three significant digits (`0.312`, `12.3`, `1,234`, `1.20e−7`), or a dash where there is no number."""
    value = finite(value)
    return ABSENT if value is None else _fixed(value, _decimals(abs(value)))


def percent(level: float) -> str:
    """A level of confidence: `95%`, `99.9%`."""
    return f"{100 * level:.4g}%"


def _numbers(metric: Metric) -> tuple[float, float, float] | None:
    value, low, high = finite(metric.value), finite(metric.low), finite(metric.high)
    return None if value is None or low is None or high is None or metric.n <= 0 else (value, low, high)


def has_interval(metric: Metric) -> bool:
    """Whether a metric may stand alone: it has a value, both ends of its interval, and an n."""
    return _numbers(metric) is not None


def parts(metric: Metric) -> tuple[str, str]:
    """The value and its interval, `("0.312", "[0.271, 0.353]")`, each a dash where it does not exist.

    Both have the decimals that show three digits of the value, or two of the interval's half width if those are fewer.
    """
    numbers = _numbers(metric)
    if numbers is None:
        return number(metric.value), ABSENT
    value, low, high = numbers
    half = (high - low) / 2
    decimals = _decimals(max(abs(value), half))
    if half:
        decimals = min(decimals, _decimals(half, digits=2))
    return _fixed(value, decimals), f"[{_fixed(low, decimals)}, {_fixed(high, decimals)}]"


def spoken_unit(unit: str) -> str:
    """What follows a number: a unit that is a word of its own, nothing for shares and plain numbers."""
    return f" {unit}" if unit in _SPOKEN_UNITS else ""


def with_interval(metric: Metric) -> str:
    """The value, its interval and its unit: `0.423 [0.401, 0.447] nats`."""
    return " ".join(part for part in parts(metric) if part != ABSENT) + spoken_unit(metric.unit)


def by_name(metrics: Iterable[Metric]) -> dict[str, Metric]:
    """The metrics under their names."""
    return {metric.metric: metric for metric in metrics}


def scope(checkpoint: CheckpointDiagnosis) -> str:
    """How much was measured: `100 problems × 16 samples`, or as much of it as is known."""
    if not checkpoint.problems:
        return ""
    problems = count_of_problems(checkpoint.problems)
    return f"{problems} {_TIMES} {checkpoint.samples:,} samples" if checkpoint.samples else problems


def count_of_problems(count: int) -> str:
    """`1 problem`, `1,000 problems`."""
    return f"{count:,} problem{'s' * (count != 1)}"


def is_clear(metric: Metric) -> bool:
    """Whether a difference has an interval, and zero lies outside."""
    numbers = _numbers(metric)
    return numbers is not None and (numbers[1] > 0 or numbers[2] < 0)


def difference_words(metric: Metric) -> str:
    """One paired difference in words: `lower by 0.120 [0.080, 0.160] nats`, or that there is no clear one."""
    numbers = _numbers(metric)
    if numbers is None:
        return "not compared"
    value, low, high = numbers
    if low > 0:
        return f"higher by {with_interval(metric)}"
    if high < 0:
        return f"lower by {with_interval(replace(metric, value=-value, low=-high, high=-low))}"
    return f"no clear difference ({with_interval(metric)})"
