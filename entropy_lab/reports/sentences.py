"""What a diagnosis says in one sentence, composed from measured numbers with their intervals, never beyond them."""

from collections.abc import Iterable, Sequence

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis
from entropy_lab.reports.names import headline_names, is_pass, metric_name
from entropy_lab.reports.visible import short_name
from entropy_lab.reports.wording import by_name, count_of_problems, difference_words, has_interval, scope, with_interval

_NAME_LIMIT = 60
_TOGETHER: tuple[tuple[tuple[str, ...], str], ...] = (
    (("entropy.problem_mean", "entropy.early"), ""),
    (("coverage.family",), ""),
    (("force.solve_rate",), "{} of free samples are correct"),
    (
        ("force.free", "force.execution", "force.execution_value"),
        "a family is completed {} freely, {} when its entrance is forced and {} when its value is forced too",
    ),
    (
        ("force.low_access.free", "force.low_access.forced"),
        "low-access families are completed {} freely and {} when forced",
    ),
    (
        ("shift.entrance.abs", "shift.execution.abs", "shift.ratio"),
        "|Δ log p| per token is {} at the entrance and {} after it, a ratio of {}",
    ),
    (("kl.entrance", "kl.execution"), "KL per token is {} at the entrance and {} after it"),
)
"""Metrics named together, and how, where all of them are there; an empty phrase names each and gives its number."""


def sentence(diagnosis: Diagnosis) -> str:
    """What was measured, in plain words: a checkpoint's main numbers, the differences of two, the range of more.

    Only metrics with a value, an interval and an n take part; where there are none, it says that.
    """
    if len(diagnosis.checkpoints) > 2:
        return _range(diagnosis)
    groups = [metrics for metrics, _ in _spoken(diagnosis.differences)]
    if len(diagnosis.checkpoints) == 2 and groups:
        return _paired(diagnosis, [metric for group in groups for metric in group])
    alone = [_alone(checkpoint, diagnosis.task, diagnosis.early_tokens) for checkpoint in diagnosis.checkpoints]
    return " ".join(alone) or "Nothing was measured."


def _spoken(metrics: Iterable[Metric]) -> list[tuple[list[Metric], str]]:
    """The metrics a sentence names, in groups that belong together; the rest are for the cards and the table."""
    known = by_name(filter(has_interval, metrics))
    names = headline_names(known.values())
    groups = [(tuple(filter(is_pass, names)), ""), *_TOGETHER]
    if not any(name in names for group, _ in groups for name in group):
        groups = [(names[:2], "")]
    found = []
    for group, phrase in groups:
        present = [known[name] for name in group if name in names]
        if present:
            found.append((present, phrase if len(present) == len(group) else ""))
    return found


def _own_n(metric: Metric, problems: int) -> str:
    return "" if metric.n == problems else f" (n = {metric.n:,})"


def _alone(checkpoint: CheckpointDiagnosis, task: str, early_tokens: int) -> str:
    clauses = []
    for metrics, phrase in _spoken(checkpoint.metrics):
        numbers = [with_interval(metric) + _own_n(metric, checkpoint.problems) for metric in metrics]
        names = [metric_name(metric.metric, early_tokens) for metric in metrics]
        plain = " and ".join(f"{name} is {value}" for name, value in zip(names, numbers, strict=True))
        clauses.append(phrase.format(*numbers) if phrase else plain)
    measured = ", ".join(filter(None, (f"{_short(checkpoint.name)} on {_short(task)}", scope(checkpoint))))
    return f"{measured}: {'; '.join(clauses) or 'no number with an interval was measured'}."


def _paired(diagnosis: Diagnosis, metrics: Sequence[Metric]) -> str:
    first, second = (_short(checkpoint.name) for checkpoint in diagnosis.checkpoints)
    problems = max(metric.n for metric in metrics)
    clauses = [
        f"{metric_name(metric.metric, diagnosis.early_tokens)} {difference_words(metric)}{_own_n(metric, problems)}"
        for metric in metrics
    ]
    place = f"{first} compared with {second} on {_short(diagnosis.task)}"
    return f"{place}, paired on {count_of_problems(problems)}: {'; '.join(clauses)}."


def _range(diagnosis: Diagnosis) -> str:
    """The smallest and the largest value of each main number, and whose they are."""
    rows = [metric for checkpoint in diagnosis.checkpoints for metric in checkpoint.metrics]
    names = [metric.metric for group, _ in _spoken(rows) for metric in group]
    clauses = [_extremes(diagnosis, name) for name in names]
    scopes = {scope(checkpoint) for checkpoint in diagnosis.checkpoints}
    place = f"{len(diagnosis.checkpoints)} arms on {_short(diagnosis.task)}"
    measured = ", ".join(filter(None, (place, *(scopes if len(scopes) == 1 else ()))))
    return f"{measured}: {'; '.join(clauses) or 'no number with an interval was measured'}."


def _extremes(diagnosis: Diagnosis, name: str) -> str:
    found = [
        (metric.value or 0.0, with_interval(metric) + _own_n(metric, checkpoint.problems), checkpoint.name)
        for checkpoint in diagnosis.checkpoints
        for metric in checkpoint.metrics
        if metric.metric == name and has_interval(metric)
    ]
    (_, low, lowest), (_, high, highest) = min(found, key=lambda row: row[0]), max(found, key=lambda row: row[0])
    spoken = metric_name(name, diagnosis.early_tokens)
    if len(found) > 1 and low == high:
        return f"{spoken} is {low} throughout"
    return f"{spoken} from {low} ({_short(lowest)}) to {high} ({_short(highest)})"


def _short(name: str) -> str:
    return short_name(name, _NAME_LIMIT)
