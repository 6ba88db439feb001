"""Numbers and sentences: how a metric is written, and what a diagnosis says in plain words, never more than its numbers.

A number has three significant digits; a value and its interval share their decimals. A difference whose interval holds
zero is called "no clear difference", whatever its value.
"""

import math
import re
from collections.abc import Iterable

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis
from entropy_lab.reports.visible import short_name

ABSENT = "—"
_MOST_DECIMALS = 6
_PASS = re.compile(r"pass@(\d+)")
_NAME_LIMIT = 60
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


def _decimals(size: float) -> int:
    if size == 0:
        return 0
    exponent = int(f"{size:.2e}".split("e")[1])
    return max(0, 2 - exponent)


def _fixed(value: float, decimals: int) -> str:
    if decimals > _MOST_DECIMALS:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa}e{int(exponent)}" if value else "0"
    else:
        text = f"{value:,.{decimals}f}"
    if not any(digit in "123456789" for digit in text):
        text = text.lstrip("-")
    return text.replace("-", "−")


def number(value: float | None) -> str:
    """Three significant digits (`0.312`, `12.3`, `1,234`, `1.20e−7`), or a dash where there is no number."""
    value = finite(value)
    return ABSENT if value is None else _fixed(value, _decimals(abs(value)))


def has_interval(metric: Metric) -> bool:
    """Whether a metric may stand alone: it has a value, both ends of its interval, and an n."""
    return all(finite(part) is not None for part in (metric.value, metric.low, metric.high)) and metric.n > 0


def parts(metric: Metric) -> tuple[str, str]:
    """The value and its interval, `("0.312", "[0.271, 0.353]")`, each a dash where it does not exist."""
    if not has_interval(metric):
        return number(metric.value), ABSENT
    value, low, high = (float(part or 0.0) for part in (metric.value, metric.low, metric.high))
    decimals = _decimals(max(abs(value), (high - low) / 2))
    return _fixed(value, decimals), f"[{_fixed(low, decimals)}, {_fixed(high, decimals)}]"


def with_interval(metric: Metric) -> str:
    """The value, its interval and its unit: `0.423 [0.401, 0.447] nats`."""
    value, interval = parts(metric)
    unit = f" {metric.unit}" if metric.unit == "nats" or metric.unit == "tokens" else ""
    return f"{value} {interval}{unit}" if interval != ABSENT else f"{value}{unit}"


def metric_name(name: str, early_tokens: int) -> str:
    """What a dotted metric name is called in a sentence; an unknown one is its own name."""
    if name == "entropy.early":
        return f"entropy over the first {early_tokens} tokens"
    return _NAMES.get(name, name)


def headline_names(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """The metrics a report leads with, in reading order: those known here that have an interval and an n."""
    present = {metric.metric for metric in metrics if has_interval(metric)}
    ks = sorted(int(match.group(1)) for name in present if (match := _PASS.fullmatch(name)))
    passes = [f"pass@{k}" for k in dict.fromkeys((ks[0], ks[-1]))] if ks else []
    order = (*passes, "entropy.problem_mean", "entropy.early", *(name for name in _NAMES if name.startswith("coverage")))
    rest = ("entropy.first_calculation", "sampling.truncation_rate")
    return tuple(name for name in (*order, *rest) if name in present)


def find(metrics: Iterable[Metric], name: str) -> Metric | None:
    """The metric of that name, if there is one."""
    return next((metric for metric in metrics if metric.metric == name), None)


def scope(checkpoint: CheckpointDiagnosis) -> str:
    """How much was measured: `100 problems × 16 samples`, or as much of it as is known."""
    if not checkpoint.problems:
        return ""
    problems = f"{checkpoint.problems:,} problem{'s' * (checkpoint.problems != 1)}"
    return f"{problems} × {checkpoint.samples:,} samples" if checkpoint.samples else problems


def _own_n(metric: Metric, problems: int) -> str:
    return "" if metric.n == problems else f" (n = {metric.n:,})"


def _joined(clauses: list[str]) -> str:
    return clauses[0] if len(clauses) == 1 else f"{', '.join(clauses[:-1])} and {clauses[-1]}"


def _alone(checkpoint: CheckpointDiagnosis, task: str, early_tokens: int) -> str:
    measured = scope(checkpoint)
    name = short_name(checkpoint.name, _NAME_LIMIT)
    place = f"{name} on {short_name(task, _NAME_LIMIT)}" + (f", {measured}" if measured else "")
    clauses = []
    for key in headline_names(checkpoint.metrics):
        metric = find(checkpoint.metrics, key)
        assert metric is not None
        clauses.append(
            f"{metric_name(key, early_tokens)} is {with_interval(metric)}{_own_n(metric, checkpoint.problems)}"
        )
    if not clauses:
        return f"{place}: no number with an interval was measured."
    return f"{place}: {_joined(clauses)}."


def difference_clause(metric: Metric, name: str) -> str:
    """One paired difference in words: `name is lower by 0.120 [0.080, 0.160] nats`, or no clear difference."""
    assert metric.value is not None
    assert metric.low is not None
    assert metric.high is not None
    if metric.low > 0:
        return f"{name} is higher by {with_interval(metric)}"
    if metric.high < 0:
        size = Metric(metric.metric, -metric.value, -metric.high, -metric.low, metric.unit, metric.n)
        return f"{name} is lower by {with_interval(size)}"
    return f"{name} shows no clear difference ({with_interval(metric)})"


def _paired(diagnosis: Diagnosis) -> str:
    first, second = diagnosis.checkpoints
    names = [short_name(checkpoint.name, _NAME_LIMIT) for checkpoint in (first, second)]
    pairs = [metric.n for metric in diagnosis.differences if has_interval(metric)]
    shared = max(set(pairs), key=pairs.count)
    clauses = []
    for key in headline_names(diagnosis.differences):
        metric = find(diagnosis.differences, key)
        assert metric is not None
        clauses.append(
            difference_clause(metric, metric_name(key, diagnosis.early_tokens)) + _own_n(metric, shared)
        )
    start = f"{names[0]} compared with {names[1]} on {short_name(diagnosis.task, _NAME_LIMIT)}, paired on "
    return f"{start}{shared:,} problem{'s' * (shared != 1)}: {'; '.join(clauses)}."


def sentence(diagnosis: Diagnosis) -> str:
    """What was measured, in plain words: one sentence for one checkpoint, the paired differences for two.

    Only metrics with a value, an interval and an n take part; where there are none, it says that.
    """
    if len(diagnosis.checkpoints) == 2 and headline_names(diagnosis.differences):
        return _paired(diagnosis)
    if not diagnosis.checkpoints:
        return "Nothing was measured."
    return " ".join(
        _alone(checkpoint, diagnosis.task, diagnosis.early_tokens) for checkpoint in diagnosis.checkpoints
    )
