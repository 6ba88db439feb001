"""How a training run tells what it sees: the loop reports, whoever called decides what to show."""

from collections.abc import Mapping
from types import TracebackType
from typing import Protocol, Self

from entropy_lab.training.recipe import Recipe


class View(Protocol):
    """Someone who watches a run, from `start` to the end of the context."""

    def start(self, recipe: Recipe, done: int) -> None:
        """The run begins, or continues after `done` of the recipe's steps."""

    def iteration(self, metrics: Mapping[str, float | None]) -> None:
        """One line of `metrics.jsonl`: an iteration, or at `step` 0 the evaluation before the first one."""

    def note(self, text: str) -> None:
        """One thing a person may want to know."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class SilentView:
    """The default: show nothing."""

    def start(self, recipe: Recipe, done: int) -> None:
        """Show nothing."""

    def iteration(self, metrics: Mapping[str, float | None]) -> None:
        """Show nothing."""

    def note(self, text: str) -> None:
        """Say nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None
