"""What every task offers: problems, the messages that pose them, and a grade for any text whatever."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class Problem:
    """One problem. `id` is stable across runs: the Countdown key, or a hash of the problem's content."""

    id: str
    question: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Grade:
    """The verdict on one text.

    `correct` is None where the grader itself failed (timed out, crashed): such rows are counted apart and
    never as wrong answers. `code` is the first verdict that applies; `answer` the final answer as read, in a
    normal form so that equal answers compare equal; `family` the entrance family of the answer and
    `first_calculation` the first calculation attempted in the text, both None where the task has no such notion.
    """

    correct: bool | None
    code: str
    answer: str | None = None
    family: str | None = None
    first_calculation: str | None = None
    flags: tuple[str, ...] = ()


class Task(Protocol):
    """A set of problems with a grader."""

    @property
    def name(self) -> str:
        """Short name for reports and file names."""

    def problems(self) -> Sequence[Problem]:
        """All problems, in a fixed order."""

    def messages(self, problem: Problem) -> list[dict[str, str]]:
        """The chat messages that pose `problem`, with the rule that the grader applies."""

    def grade(self, problem: Problem, text: str) -> Grade:
        """Grade any text, of any length, without raising."""


@dataclass(frozen=True)
class Space:
    """All canonical solutions of a problem, and the menu of families a correct answer can begin with."""

    solutions: frozenset[str]
    menu: frozenset[str]


@runtime_checkable
class Enumerable(Protocol):
    """A task whose problems have a solution space that can be written down whole."""

    def space(self, problem: Problem) -> Space | None:
        """All solutions and the menu of entrance families, or None where the problem is too large."""
