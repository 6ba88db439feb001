"""Rules that end a run: a metric of `metrics.jsonl`, a comparison, a number."""

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from entropy_lab.errors import InputError
from entropy_lab.training.recipe_fields import suggestion

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
EVALUATION = "evaluation."
_RULE = re.compile(r"\s*([^\s<>=]+)\s*(<=|>=|<|>)\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*")


@dataclass(frozen=True)
class StopRule:
    """Stop once `metric` stands in relation `comparison` (<, <=, >, >=) to `threshold`."""

    metric: str
    comparison: str
    threshold: float

    @classmethod
    def parse(cls, text: str) -> "StopRule":
        """Read `entropy.problem_mean<0.05`; spaces around the parts do not matter.

        Raises:
            InputError: anything else.
        """
        found = _RULE.fullmatch(text)
        if found is None or not math.isfinite(float(found[3])):
            raise InputError(
                f"--stop-on {text!r} is no rule; write METRIC, one of < <= > >=, and a number, as in "
                '--stop-on "entropy.problem_mean<0.05".'
            )
        metric, comparison, threshold = found.groups()
        return cls(metric, comparison, float(threshold))

    def __str__(self) -> str:
        """The rule as `parse` reads it."""
        return f"{self.metric}{self.comparison}{str(self.threshold).removesuffix('.0')}"

    @property
    def evaluated(self) -> bool:
        """Whether the metric is known after evaluations only."""
        return self.metric.startswith(EVALUATION)


def check(rules: Iterable[StopRule], metrics: Mapping[str, float | None]) -> StopRule | None:
    """The first rule that an iteration's metrics fulfil, if any.

    A metric without a value fulfils nothing. Rules on `evaluation.…` are looked at only where `metrics` hold an
    evaluation, the others only after an update (an iteration whose groups were all degenerate makes none, and has
    fewer metrics).

    Raises:
        InputError: the iteration has no metric of a rule's name.
    """
    updated, evaluated = "loss" in metrics, any(name.startswith(EVALUATION) for name in metrics)
    for rule in rules:
        if rule.metric not in metrics and (evaluated if rule.evaluated else updated):
            known = sorted(name for name in metrics if name.startswith(EVALUATION) == rule.evaluated)
            raise InputError(f"--stop-on {rule}: there is no metric `{rule.metric}`; {suggestion(rule.metric, known)}")
        value = metrics.get(rule.metric)
        if value is not None and COMPARISONS[rule.comparison](value, rule.threshold):
            return rule
    return None
