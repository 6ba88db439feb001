"""The rules of play, and how a problem is named. A menu, a solution and a grade always hold under one set of rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal

Value = int | Fraction
"""An exact rational; integers are kept as int, which is an order of magnitude faster than Fraction."""


@dataclass(frozen=True)
class Rules:
    """What a solution may do. The defaults are the plain game: every number once, exact rationals.

    `integers_only`, `minimum` and `max_value` hold for every result of an operation, intermediate ones included.
    """

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    use: Literal["all", "any"] = "all"
    integers_only: bool = False
    minimum: int | None = None
    max_value: int | None = None

    def admit(self, value: Value) -> bool:
        """Whether an operation may give `value`."""
        if self.integers_only and not isinstance(value, int):
            return False
        if self.minimum is not None and value < self.minimum:
            return False
        return self.max_value is None or value <= self.max_value

    def sentences(self) -> str:
        """The rules in words, for the prompt."""
        words = [
            "Use every number exactly once." if self.use == "all" else "Use each number at most once.",
            "Allowed operations: + - * / and brackets.",
        ]
        kind = "a whole number" if self.integers_only else "a number"
        if self.minimum is not None and self.max_value is not None:
            words.append(f"Every result on the way must be {kind} from {self.minimum} to {self.max_value}.")
        elif self.minimum is not None:
            words.append(f"Every result on the way must be {kind} not below {self.minimum}.")
        elif self.max_value is not None:
            words.append(f"Every result on the way must be {kind} not above {self.max_value}.")
        elif self.integers_only:
            words.append(f"Every result on the way must be {kind}.")
        return " ".join(words)


def problem_key(nums: Sequence[int], target: int) -> str:
    """The name of a problem, the same for any order of its numbers: `22<3,5,7`."""
    return f"{target}<{','.join(str(number) for number in sorted(nums))}"


def combine(operator: str, left: Value, right: Value) -> Value | None:
    """The exact result of one operation, or None for a division by zero."""
    if operator == "+":
        result = left + right
    elif operator == "-":
        result = left - right
    elif operator == "*":
        result = left * right
    elif right == 0:
        return None
    else:
        result = Fraction(left, right)
    return result if isinstance(result, int) else simplest(result)


def simplest(value: Fraction) -> Value:
    """An integral fraction as int, any other as it is."""
    return value.numerator if value.denominator == 1 else value
