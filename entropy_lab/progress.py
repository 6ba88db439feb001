"""How long work tells its progress: the library counts, whoever called decides what to show."""

from types import TracebackType
from typing import Protocol, Self


class Stage(Protocol):
    """One stretch of countable work, used as a context manager."""

    def advance(self, amount: int = 1) -> None:
        """Say that `amount` more units are done."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Progress(Protocol):
    """Where a workflow announces its stages."""

    def stage(self, name: str, total: int, unit: str, done: int = 0) -> Stage:
        """Open a stage of `total` units, of which `done` were finished by an earlier run."""

    def note(self, text: str) -> None:
        """Say one thing a person may want to know: the device chosen, a batch that was halved."""


class SilentStage:
    """A stage nobody watches."""

    def advance(self, amount: int = 1) -> None:
        """Count nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None


class Silent:
    """The default: show nothing."""

    def stage(self, name: str, total: int, unit: str, done: int = 0) -> SilentStage:
        """Open a stage that shows nothing."""
        return SilentStage()

    def note(self, text: str) -> None:
        """Drop the note."""
