"""The tasks of the package reasoning-gym: procedural problems of a hundred kinds, scored by their own scorers.

`reasoning-gym:NAME` has 500 problems of seed 0; `reasoning-gym:NAME?size=100&seed=3000&max_terms=4` sets these and any
field of the kind's configuration. The package draws problem i from seed + i, so sets that are to share no problem need
seeds further apart than their size. The answer is what the last <answer>…</answer> of a text holds.
"""

import contextlib
import dataclasses
import difflib
import hashlib
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import parse_qsl

from entropy_lab.errors import InputError
from entropy_lab.tasks.calculations import first_calculation
from entropy_lab.tasks.grading_process import GradingPool
from entropy_lab.tasks.protocol import Grade, Problem

PREFIX = "reasoning-gym:"
SIZE, SEED = 500, 0
SECONDS_PER_ANSWER = 5.0
LONGEST = 4_000  # characters of an answer; more is no answer, and must not reach a scorer
INSTRUCTION = "Give the final answer inside <answer> and </answer>."
_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)


class ReasoningGym:
    """One kind of problem. Grade codes: correct; wrong-value; no-answer (no answer tags); grader-timeout and
    grader-error, with `correct` None. A partial score is wrong (ours).
    """

    def __init__(self, source: str) -> None:
        """Read `reasoning-gym:NAME?field=value&…`.

        Raises:
            InputError: the package is not installed, or there is no such kind, field or value.
        """
        name, _, query = source.removeprefix(PREFIX).partition("?")
        self.name = f"{PREFIX}{name}"
        self._kind = name
        self._settings = {"size": SIZE, "seed": SEED, **_settings(source, query)}
        self._problems = _problems(source, name, self._settings)
        self._graders = GradingPool(
            SECONDS_PER_ANSWER, min(4, os.cpu_count() or 1), "entropy_lab.tasks.reasoning_gym_scores"
        )

    def problems(self) -> Sequence[Problem]:
        """All problems; of equal ones the first."""
        return self._problems

    def messages(self, problem: Problem) -> list[dict[str, str]]:
        """The question as a user message that states where the answer goes."""
        return [{"role": "user", "content": f"{problem.question}\n\n{INSTRUCTION}"}]

    def grade(self, problem: Problem, text: str) -> Grade:
        """Grade any text; never raises on account of the text."""
        return self.grade_many([(problem, text)])[0]

    def grade_many(self, pairs: Iterable[tuple[Problem, str]]) -> list[Grade]:
        """Grade many texts, on several processes where the machine has the cores."""
        pairs = list(pairs)
        answers = [answer_of(text) for _, text in pairs]
        requests = [
            {
                "name": self._kind,
                "settings": self._settings,
                "index": problem.data["index"],
                "question": problem.question,
                "answer": answer,
            }
            for (problem, _), answer in zip(pairs, answers, strict=True)
            if answer is not None and len(answer) <= LONGEST
        ]
        replies = iter(self._graders.ask_all(requests))
        return [
            _grade(answer, text, next(replies) if answer is not None and len(answer) <= LONGEST else None)
            for (_, text), answer in zip(pairs, answers, strict=True)
        ]

    def close(self) -> None:
        """End the grading processes; grading again starts new ones."""
        self._graders.close()


def answer_of(text: str) -> str | None:
    """What the last complete pair of answer tags holds, without white space around it."""
    found = _ANSWER.findall(text)
    return found[-1].strip() if found else None


def _grade(answer: str | None, text: str, reply: dict[str, Any] | None) -> Grade:
    first = first_calculation(text)
    if answer is None:
        return Grade(False, "no-answer", first_calculation=first)
    if reply is None:
        return Grade(False, "wrong-value", answer[:LONGEST], first_calculation=first, flags=("long-answer",))
    code = reply["code"]
    if code.startswith("grader-"):
        flags = (reply["detail"],) if "detail" in reply else ()
        return Grade(None, code, answer, first_calculation=first, flags=flags)
    return Grade(code == "correct", code, answer, first_calculation=first)


def _settings(source: str, query: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, text in parse_qsl(query, keep_blank_values=True):
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    for key in ("size", "seed"):
        value = found.get(key, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < (key == "size"):
            raise InputError(f"task {source}: {key} = {value!r} must be a whole number from {int(key == 'size')} up.")
    return found


def _problems(source: str, name: str, settings: dict[str, Any]) -> tuple[Problem, ...]:
    try:
        import reasoning_gym
        from reasoning_gym.factory import DATASETS
    except ImportError as error:
        raise InputError(
            f'task {source} needs the package reasoning-gym: pip install "entropy-lab[reasoning-gym]".'
        ) from error
    if name not in DATASETS:
        near = difflib.get_close_matches(name, DATASETS, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(sorted(DATASETS))}."
        raise InputError(f"task {source}: reasoning-gym has no {name!r}; {hint}")
    fields = [field.name for field in dataclasses.fields(DATASETS[name][1])]
    unknown = [key for key in settings if key not in fields]
    if unknown:
        near = difflib.get_close_matches(unknown[0], fields, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InputError(f"task {source}: {name} has no field {unknown[0]!r}; {hint}It has {', '.join(fields)}.")
    frozen = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    problems: dict[str, Problem] = {}
    try:
        with contextlib.redirect_stdout(sys.stderr):  # some kinds print while they are made
            dataset = reasoning_gym.create_dataset(name, **frozen)
            for index in range(len(dataset)):
                entry = dataset[index]
                digest = hashlib.sha256(f"{entry['question']}\x1f{entry['answer']}".encode()).hexdigest()[:16]
                problems.setdefault(digest, Problem(digest, entry["question"], {"index": index}))
    except Exception as error:  # the package checks its settings by assertions, and may fail on odd ones anywhere
        raise InputError(f"task {source}: reasoning-gym refuses it ({type(error).__name__}: {error}).") from error
    return tuple(problems.values())
