"""The Countdown task: its problem sets, the prompt that states the rules, the grade that applies them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from entropy_lab.errors import InputError
from entropy_lab.tasks.countdown.answers import Format, find_answer, grade_answer
from entropy_lab.tasks.countdown.entrances import first_calculation
from entropy_lab.tasks.countdown.enumeration import solutions, steps_menu, written_menu
from entropy_lab.tasks.countdown.expressions import canonical, form_text
from entropy_lab.tasks.countdown.layouts import ACCEPTED, read_numbers
from entropy_lab.tasks.countdown.rules import Rules, problem_key
from entropy_lab.tasks.problem_files import is_problem_file, read_rows
from entropy_lab.tasks.protocol import Grade, Problem, Space

LADDER_RULES = Rules(integers_only=True, minimum=0, max_value=225)
"""Rules of the embedded ladder: whole numbers that a number-level vocabulary can hold; 225 = 15 × 15 (ours)."""

LARGEST_ENUMERATED = 6
"""Problems of more numbers have no solution space here (ours): six, the television game, mostly take a few hundredths
of a second and have at most some ten thousand forms; seven can have over a million."""

EMBEDDED_FILES = {"countdown": "countdown_test.jsonl", "countdown-train": "countdown_train.jsonl"}
"""Task name → its file of problems in the package."""

FORMATS: dict[Format, str] = {
    "steps": (
        "Write the calculation as steps separated by commas, each on two numbers at hand with its result, "
        "for example <answer>3*5=15,15+7=22</answer>."
    ),
    "expression": "Write the calculation as one expression, for example <answer>(3*5)+7</answer>.",
    "auto": (
        "Write the calculation as one expression, for example <answer>(3*5)+7</answer>, or as comma-separated steps, "
        "for example <answer>3*5=15,15+7=22</answer>."
    ),
}
"""The sentence that asks for each answer format."""

_PLAIN = Rules()
_RULES = TypeAdapter(Rules)


@dataclass(frozen=True)
class Countdown:
    """Countdown problems in one answer format, under one set of rules."""

    problem_list: tuple[Problem, ...]
    form: Format = "expression"
    rules: Rules = field(default_factory=Rules)
    name: str = "countdown"

    @classmethod
    def embedded(cls, name: str = "countdown") -> "Countdown":
        """Problems of the embedded ladder, answered in steps under LADDER_RULES: `countdown`, which no rung was taught,
        or `countdown-train`, of the problems that the rungs were taught and are trained on; with `-3` or `-4` only
        those of so many numbers.
        """
        whole, size = name, name[-2:]
        if size in ("-3", "-4"):
            whole = name[:-2]
        with as_file(files("entropy_lab.builtin") / EMBEDDED_FILES[whole]) as path:
            task = replace(cls.from_file(path), name=name)
        if whole == name:
            return task
        kept = tuple(one for one in task.problem_list if len(one.data["nums"]) == int(size[1:]))
        return replace(task, problem_list=kept)

    @classmethod
    def from_file(cls, source: str | Path) -> "Countdown":
        """Problems of a JSONL or Parquet file, or of a hub set, whose rows have one of the layouts of `layouts`.

        Rows may also hold `format` (expression, steps or auto; expression if absent) and `rules` (the fields of
        `Rules`; the plain game if absent), the same in all of them. Of equal problems the first is kept.

        Raises:
            InputError: a row lacks a field, holds something else, or has another format or other rules.
        """
        problems: dict[str, Problem] = {}
        manner: tuple[Format, Rules] | None = None
        for place, row in read_rows(source):
            problem, found = countdown_problem(*read_numbers(row, place)), manner_of(row, place)
            manner = manner or found
            if found != manner:
                raise InputError(f"{place}: `format` or `rules` differ from the rows before; split the file by them.")
            problems.setdefault(problem.id, problem)
        if manner is None:
            raise InputError(f"{source} holds no problems: each row needs {ACCEPTED}.")
        return cls(tuple(problems.values()), *manner, name=_short_name(source))

    def problems(self) -> Sequence[Problem]:
        """All problems, in file order."""
        return self.problem_list

    def messages(self, problem: Problem) -> list[dict[str, str]]:
        """One user message: the rules, the answer format, then the problem as its last paragraph."""
        request = "Reach the target number with the given numbers."
        return [
            {
                "role": "user",
                "content": f"{request} {self.rules.sentences()} {FORMATS[self.form]}\n\n{problem.question}\n",
            }
        ]

    def space(self, problem: Problem) -> Space | None:
        """All canonical solutions and the menu that fits the answer format, under the rules of the task."""
        nums, target = problem.data["nums"], problem.data["target"]
        if len(nums) > LARGEST_ENUMERATED or self.form == "auto":  # a menu belongs to one answer format
            return None
        forms = solutions(nums, target, self.rules)
        menu = steps_menu(forms, self.rules) if self.form == "steps" else written_menu(forms)
        return Space(frozenset(map(form_text, forms)), menu)

    def grade(self, problem: Problem, text: str) -> Grade:
        """Grade one text; `answer` is the canonical form of the expression, so equal solutions compare equal."""
        nums, target = problem.data["nums"], problem.data["target"]
        verdict = grade_answer(nums, target, text, self.form, self.rules)
        answer = None
        if verdict.tree is not None:
            answer = form_text(canonical(verdict.tree))
        elif verdict.code not in ("no-answer", "too-long"):
            answer = (find_answer(text) or text).strip()[:200]
        return Grade(
            correct=verdict.correct,
            code=verdict.code,
            answer=answer,
            family=verdict.family,
            first_calculation=first_calculation(nums, text),
            flags=verdict.flags,
        )


def countdown_problem(nums: Sequence[int], target: int) -> Problem:
    """A problem from its numbers; the question is the paragraph that the embedded ladder reads."""
    numbers = " ".join(str(number) for number in nums)
    return Problem(
        problem_key(nums, target),
        f"Numbers: {numbers}\nTarget: {target}",
        {"nums": tuple(int(number) for number in nums), "target": int(target)},
    )


def _short_name(source: str | Path) -> str:
    if is_problem_file(str(source)):
        return Path(source).stem
    return str(source).partition("@")[0].partition(":")[0].rpartition("/")[2]


def manner_of(row: Mapping[str, Any], place: str) -> tuple[Format, Rules]:
    """The answer format and the rules of play that a row states, or the defaults.

    Raises:
        InputError: `format` or `rules` hold something else.
    """
    return _format(row, place), _rules(row, place)


def _format(row: Mapping[str, Any], place: str) -> Format:
    form = row.get("format") or "expression"
    if form not in FORMATS:
        raise InputError(f"{place}: `format` is {form!r}; use one of {', '.join(FORMATS)}.")
    return cast(Format, form)


def _rules(row: Mapping[str, Any], place: str) -> Rules:
    given = row.get("rules")
    if not given:
        return _PLAIN
    try:
        return _RULES.validate_python(given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "rules"
        raise InputError(f"{place}: `rules.{name}`: {first['msg']} (found {first['input']!r}).") from error
