"""Numbers and sentences: how a metric is written, and what a diagnosis says in plain words, never beyond its numbers.

A number has three significant digits; a value with its interval has no more decimals than the interval can bear. A
difference whose interval holds zero is called "no clear difference", whatever its value.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import replace

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis
from entropy_lab.reports.visible import short_name

ABSENT = "—"
_MINUS, _TIMES = "\u2212", "\u00d7"
_MOST_DECIMALS = 6
_PASS = re.compile(r"pass@(\d+)")
_NAME_LIMIT = 60
_SPOKEN_UNITS = {"nats", "tokens"}
_NAMES = {
    "entropy.problem_mean": "problem-mean entropy",
    "entropy.token_mean": "token-mean entropy",
    "entropy.first_calculation": "first-calculation entropy",
    "coverage.family": "family coverage",
    "coverage.solution": "solution coverage",
    "sampling.truncation_rate": "truncation rate",
}


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


def metric_name(name: str, early_tokens: int) -> str:
    """What a dotted metric name is called in a sentence; an unknown one is its own name."""
    if name == "entropy.early":
        return f"first-{early_tokens}-token entropy"
    return _NAMES.get(name, name)


def headline_names(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """The metrics a report leads with, in reading order: those known here that have an interval and an n."""
    present = {metric.metric for metric in metrics if has_interval(metric)}
    ks = sorted(int(match.group(1)) for name in present if (match := _PASS.fullmatch(name)))
    passes = [f"pass@{k}" for k in dict.fromkeys((ks[0], ks[-1]))] if ks else []
    order = (
        *passes,
        "entropy.problem_mean",
        "entropy.early",
        *(name for name in _NAMES if name.startswith("coverage")),
    )
    rest = ("entropy.first_calculation", "sampling.truncation_rate")
    return tuple(name for name in (*order, *rest) if name in present)


def by_name(metrics: Iterable[Metric]) -> dict[str, Metric]:
    """The metrics under their names."""
    return {metric.metric: metric for metric in metrics}


def scope(checkpoint: CheckpointDiagnosis) -> str:
    """How much was measured: `100 problems × 16 samples`, or as much of it as is known."""
    if not checkpoint.problems:
        return ""
    problems = _problems(checkpoint.problems)
    return f"{problems} {_TIMES} {checkpoint.samples:,} samples" if checkpoint.samples else problems


def _problems(count: int) -> str:
    return f"{count:,} problem{'s' * (count != 1)}"


def _own_n(metric: Metric, problems: int) -> str:
    return "" if metric.n == problems else f" (n = {metric.n:,})"


def _spoken(metrics: Iterable[Metric]) -> list[list[Metric]]:
    """The metrics a sentence names, in groups that belong together; the rest are for the cards and the table."""
    known = by_name(metrics)
    names = headline_names(known.values())
    groups = (
        [name for name in names if _PASS.fullmatch(name)],
        [name for name in names if name in ("entropy.problem_mean", "entropy.early")],
        [name for name in names if name == "coverage.family"],
    )
    return [[known[name] for name in group] for group in groups if group]


def _alone(checkpoint: CheckpointDiagnosis, task: str, early_tokens: int) -> str:
    measured = scope(checkpoint)
    place = f"{short_name(checkpoint.name, _NAME_LIMIT)} on {short_name(task, _NAME_LIMIT)}"
    place += f", {measured}" if measured else ""
    groups = _spoken(checkpoint.metrics)
    clauses = [[_value_clause(metric, checkpoint.problems, early_tokens) for metric in group] for group in groups]
    said = "; ".join(" and ".join(group) for group in clauses)
    return f"{place}: {said or 'no number with an interval was measured'}."


def _value_clause(metric: Metric, problems: int, early_tokens: int) -> str:
    return f"{metric_name(metric.metric, early_tokens)} is {with_interval(metric)}{_own_n(metric, problems)}"


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


def _paired(diagnosis: Diagnosis, groups: list[list[Metric]]) -> str:
    first, second = (short_name(checkpoint.name, _NAME_LIMIT) for checkpoint in diagnosis.checkpoints)
    metrics = [metric for group in groups for metric in group]
    problems = max(metric.n for metric in metrics)
    clauses = [
        f"{metric_name(metric.metric, diagnosis.early_tokens)} {difference_words(metric)}{_own_n(metric, problems)}"
        for metric in metrics
    ]
    place = f"{first} compared with {second} on {short_name(diagnosis.task, _NAME_LIMIT)}"
    return f"{place}, paired on {_problems(problems)}: {'; '.join(clauses)}."


def sentence(diagnosis: Diagnosis) -> str:
    """What was measured, in plain words: the main numbers of each checkpoint, or the paired differences of two.

    Only metrics with a value, an interval and an n take part; where there are none, it says that.
    """
    groups = _spoken(diagnosis.differences)
    if len(diagnosis.checkpoints) == 2 and groups:
        return _paired(diagnosis, groups)
    alone = [_alone(checkpoint, diagnosis.task, diagnosis.early_tokens) for checkpoint in diagnosis.checkpoints]
    return " ".join(alone) or "Nothing was measured."
