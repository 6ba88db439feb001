r"""The `math` task: questions with a gold answer, graded by mathematical equality of the last \boxed{} of a text.

Reads any set that `question_answer` knows (GSM8K, MATH500, AIME, AMC, Minerva, OlympiadBench, trainers' Parquet
files). math-verify judges, in processes of their own; a text without \boxed{} is graded on the answer that math-verify
finds near its end, and flagged `unboxed`. Every grade carries the label of the text's first calculation.
"""

import os
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from entropy_lab.errors import InputError
from entropy_lab.tasks.boxed import last_boxed, readable
from entropy_lab.tasks.calculations import first_calculation
from entropy_lab.tasks.grading_process import GradingPool, Reply
from entropy_lab.tasks.problem_files import read_rows
from entropy_lab.tasks.protocol import Grade, Problem
from entropy_lab.tasks.question_answer import read_problem

SECONDS_PER_ANSWER = 5.0
LONGEST_BOX = 1_000  # characters beyond the gold's; more cannot be a final answer, and must not reach the parser
TAIL = 2_000  # characters of a text without a box in which math-verify looks for an answer


@dataclass(frozen=True)
class ProblemSet:
    """Problems without duplicates, and what a person should know about how they were read."""

    problems: tuple[Problem, ...]
    notes: tuple[str, ...]


def load_problems(source: str | Path, limit: int | None = None, seed: int | None = None) -> ProblemSet:
    """Read the problems of a .jsonl or .parquet file or of a hub set, in its order.

    Of rows with the same question and answer the first is kept. `limit` keeps the first so many problems, or with a
    `seed` so many drawn at random. Raises InputError for what cannot be read and for a limit below 1.
    """
    if limit is not None and limit < 1:
        raise InputError(f"limit is {limit}; ask for at least one problem.")
    seen: dict[str, Problem] = {}
    repeated = 0
    for position, row in read_rows(source):
        problem = read_problem(row, position)
        repeated += problem.id in seen
        seen.setdefault(problem.id, problem)
        if seed is None and len(seen) == limit:
            break
    if not seen:
        raise InputError(f"{source}: holds no problems; give a file with one problem a row.")
    problems = tuple(seen.values())
    notes = [f"{source}: {repeated} repeated problems were left out."] if repeated else []
    if limit is not None and limit > len(problems):
        notes.append(f"{source}: {limit} problems were asked for, it has {len(problems)}.")
    elif limit is not None and seed is not None:
        chosen = set(random.Random(seed).sample(range(len(problems)), limit))
        problems = tuple(problem for index, problem in enumerate(problems) if index in chosen)
    return ProblemSet(problems, tuple(notes))


class Mathematics:
    """A set of mathematical problems; a context manager, though its processes also end with the program.

    Grade codes: correct; wrong-value; no-answer (no box, and nothing near the end that reads as an answer);
    grader-timeout and grader-error, with `correct` None. Flags: unboxed; long-box (too long to be an answer, so
    wrong-value); the kind of error after grader-error.
    """

    name = "math"

    def __init__(
        self,
        source: str | Path,
        *,
        limit: int | None = None,
        seed: int | None = None,
        seconds_per_answer: float = SECONDS_PER_ANSWER,
    ) -> None:
        self.source = str(source)
        self._set = load_problems(source, limit, seed)
        self._graders = GradingPool(seconds_per_answer, processes=min(4, os.cpu_count() or 1))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a person should know about how the problems were read."""
        return self._set.notes

    def problems(self) -> Sequence[Problem]:
        """All problems, in the order of the file."""
        return self._set.problems

    def messages(self, problem: Problem) -> list[dict[str, str]]:
        """The question as a user message that states the rule of grading, after any earlier turns of the row."""
        instruction = problem.data["instruction"]
        content = f"{problem.question}\n\n{instruction}" if instruction else problem.question
        return [*problem.data["before"], {"role": "user", "content": content}]

    def grade(self, problem: Problem, text: str) -> Grade:
        """Grade any text; never raises on account of the text."""
        return self.grade_many([(problem, text)])[0]

    def grade_many(self, pairs: Iterable[tuple[Problem, str]]) -> list[Grade]:
        """Grade many texts, on several processes where the machine has the cores."""
        pairs = list(pairs)
        requests = [_request(problem, text) for problem, text in pairs]
        replies = iter(self._graders.ask_all([request for request in requests if not _too_long(request)]))
        grades = [_long_box(request) if _too_long(request) else _grade(request, next(replies)) for request in requests]
        return [
            replace(grade, first_calculation=first_calculation(text))
            for grade, (_, text) in zip(grades, pairs, strict=True)
        ]

    def close(self) -> None:
        """End the grading processes; grading again starts new ones."""
        self._graders.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _request(problem: Problem, text: str) -> dict[str, Any]:
    boxed = last_boxed(text)
    return {
        "gold": problem.data["gold"],
        "several": problem.data["several"],
        "unit": problem.data["unit"],
        "tolerance": problem.data["tolerance"],
        "boxed": boxed,
        "tail": text[-TAIL:] if boxed is None else "",
    }


def _too_long(request: dict[str, Any]) -> bool:
    return request["boxed"] is not None and len(request["boxed"]) > LONGEST_BOX + len(request["gold"])


def _long_box(request: dict[str, Any]) -> Grade:
    return Grade(False, "wrong-value", readable(request["boxed"]), flags=("long-box",))


def _grade(request: dict[str, Any], reply: Reply) -> Grade:
    code = reply["code"]
    flags = ("unboxed",) if request["boxed"] is None and code != "no-answer" else ()
    if code.startswith("grader-"):
        answer = readable(request["boxed"]) if request["boxed"] is not None else None
        return Grade(None, code, answer, flags=(*flags, reply["detail"]) if "detail" in reply else flags)
    return Grade(code == "correct", code, reply["answer"] or None, flags=flags)
