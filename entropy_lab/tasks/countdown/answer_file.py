"""Grades a file of Countdown answers: each row holds `nums`, `target`, `text` and perhaps its own `format`, `rules`."""

from pathlib import Path
from typing import Any

from entropy_lab.errors import InputError
from entropy_lab.tasks.countdown.layouts import read_numbers
from entropy_lab.tasks.countdown.rules import Rules
from entropy_lab.tasks.countdown.task import FORMATS, Countdown, countdown_problem, manner_of
from entropy_lab.tasks.problem_files import read_rows
from entropy_lab.tasks.protocol import Grade


def grade_file(path: Path, form: str = "auto", rules: Rules | None = None) -> list[Grade]:
    """Grade every row, in order; a row's own `format` and `rules` go before `form` and `rules`.

    Raises:
        InputError: an unreadable file, a row that lacks a field or holds something else, or no rows at all.
    """
    if form not in FORMATS:
        raise InputError(f"--format is {form!r}; choose one of {', '.join(FORMATS)}.")
    default = (form, rules or Rules())
    grades = []
    for place, row in read_rows(path):
        problem = countdown_problem(*read_numbers(row, place))
        own_form, own_rules = manner_of(row, place)
        task = Countdown(
            (), own_form if row.get("format") else default[0], own_rules if row.get("rules") else default[1]
        )
        grades.append(task.grade(problem, _text(row.get("text"), place)))
    if not grades:
        raise InputError(f"{path} holds no answers: each row needs `nums`, `target` and `text`.")
    return grades


def _text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise InputError(f"{place}: `text` holds {str(value)[:60]!r}; it must be the text of an answer.")
    return value
