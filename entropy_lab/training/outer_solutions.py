"""Full solutions of another model, kept in the run, one a problem: drawn once, or read from stored rollouts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from entropy_lab.errors import InputError
from entropy_lab.rollouts import Rollouts
from entropy_lab.tasks.protocol import Problem


@dataclass(frozen=True)
class Solution:
    """What another model wrote: its text, and its ids where the policy reads the same ones."""

    text: str
    token_ids: tuple[int, ...] | None


class OuterSolutions:
    """The solutions of one source. `sample` draws new ones; without it the source holds all there are.

    New ones are written to `folder`/part-<iteration>.parquet before they are used. What a killed run wrote beyond the
    iteration it continues from is not read, so that it ends as an unbroken run does.
    """

    def __init__(
        self,
        folder: Path,
        stored: Path | None,
        sample: Callable[[Sequence[Problem]], Rollouts] | None,
        same_ids: bool,
    ) -> None:
        self._folder = folder
        self._sample = sample
        self._same_ids = same_ids
        self._known: dict[str, Solution] = {}
        self._read = 0
        if stored is not None:
            self._take(Rollouts.read(stored), stored)

    def of(self, problems: Sequence[Problem], iteration: int) -> dict[str, Solution]:
        """Solutions by problem; a source of stored ones may lack some."""
        while self._read < iteration:
            self._read += 1
            part = self._part(self._read)
            if part.is_file():
                self._take(Rollouts.read(part), part)
        missing = [problem for problem in problems if problem.id not in self._known]
        if missing and self._sample is not None:
            found = self._sample(missing)
            part = self._part(iteration + 1)
            found.write(part)
            self._take(found, part)
        return {problem.id: self._known[problem.id] for problem in problems if problem.id in self._known}

    def _part(self, number: int) -> Path:
        return self._folder / f"part-{number:05d}.parquet"

    def _take(self, rollouts: Rollouts, source: Path) -> None:
        """The first solution of each problem that has a text."""
        columns = (rollouts.strings("problem_id"), rollouts.strings("text"), rollouts.table["token_ids"].to_pylist())
        for problem, text, ids in zip(*columns, strict=True):
            if text is None:
                raise InputError(f"{source}: problem {problem!r} has a solution without `text`.")
            known = tuple(ids) if self._same_ids and ids is not None else None
            self._known.setdefault(str(problem), Solution(text, known))
