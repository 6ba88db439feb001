"""What a metric is called, and which metrics a report leads with, in reading order."""

import re
from collections.abc import Iterable

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.wording import has_interval

_PASS = re.compile(r"pass@(\d+)")
_COHORT = "cohort."
_NAMES = {
    "entropy.problem_mean": "problem-mean entropy",
    "entropy.early": "",  # its length is the diagnosis's own
    "coverage.family": "family coverage",
    "coverage.solution": "solution coverage",
    "access.support_mass": "support mass",
    "access.top1": "top-1 share of the menu",
    "access.entropy": "entropy over the menu",
    "access.gini": "Gini over the menu",
    "cohort.size": "problems solved by all",
    "cohort.coverage.family": "",  # as any number over the cohort
    "force.solve_rate": "solve rate, free",
    "force.free": "families completed, free",
    "force.execution": "execution, entrance forced",
    "force.execution_value": "execution, value forced too",
    "force.low_access.share": "share of low-access families",
    "force.low_access.free": "low-access families, free",
    "force.low_access.forced": "low-access families, forced",
    "force.low_access.gain": "low-access families, forced − free",
    "force.infeasible": "solve rate, infeasible entrance",
    "force.corrupted": "solve rate, corrupted value",
    "force.factor.product": "Σ access × execution",
    "force.factor.gap": "Σ access × execution − solve rate",
    "shift.entrance.abs": "|Δ log p| at the entrance",
    "shift.execution.abs": "|Δ log p| after the entrance",
    "shift.ratio": "|Δ log p|, entrance ÷ after",
    "shift.entrance.mean": "Δ log p at the entrance",
    "shift.execution.mean": "Δ log p after the entrance",
    "kl.entrance": "KL at the entrance",
    "kl.execution": "KL after the entrance",
    "kl.ratio": "KL, entrance ÷ after",
    "entropy.first_calculation": "first-calculation entropy",
    "entropy.first_calculation_mm": "first-calculation entropy, Miller–Madow",
    "first_calculation.none_rate": "share without a calculation",
    "sampling.truncation_rate": "truncation rate",
    "tree.states": "states a tree",
    "tree.position": "tokens kept before an opening",
    "tree.value.root": "value of the root",
    "tree.value.later": "value of later states",
    "tree.gain": "gain from state to state",
    "tree.degenerate": "states whose branches fare alike",
    "prefix.surprise": "surprise of given prefixes",
    "prefix.accuracy": "right after a prefix",
    "prefix.families": "families after a prefix",
    "prefix.differing": "groups of both verdicts after a prefix",
    "prefix.plain.accuracy": "right from the prompt",
    "prefix.plain.families": "families from the prompt",
    "prefix.plain.differing": "groups of both verdicts from the prompt",
    "triage.pass_ratio": "pass@1 ÷ p*",
    "triage.degenerate": "groups that teach nothing",
    "triage.group_variance": "variance of rewards in a group",
    "change.predicted": "predicted change of entropy",
    "change.measured": "measured change of entropy",
    "change.ratio": "predicted ÷ measured",
    "change.error": "error of a token's change",
}
"""Names, in the order in which a report leads with them, after pass@k."""


def is_pass(name: str) -> bool:
    """Whether a metric is pass@k for some k."""
    return _PASS.fullmatch(name) is not None


def metric_name(name: str, early_tokens: int) -> str:
    """What a dotted metric name is called in a sentence; an unknown one is its own name."""
    if name == "entropy.early":
        return f"first-{early_tokens}-token entropy"
    if name not in _NAMES or not _NAMES[name]:
        inner = name.removeprefix(_COHORT)
        return name if inner == name else f"{metric_name(inner, early_tokens)}, on problems solved by all"
    return _NAMES[name]


def headline_names(metrics: Iterable[Metric]) -> tuple[str, ...]:
    """The metrics a report leads with: those known here that have an interval and an n; access only beside coverage."""
    present = {metric.metric for metric in metrics if has_interval(metric)}
    ks = sorted(int(match.group(1)) for name in present if (match := _PASS.fullmatch(name)))
    passes = [f"pass@{k}" for k in dict.fromkeys((ks[0], ks[-1]))] if ks else []
    covered = "coverage.family" in present
    return (*passes, *(name for name in _NAMES if name in present and (covered or not name.startswith("access."))))
