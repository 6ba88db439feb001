r"""Turns a row of a question-and-answer set into a Problem. Four layouts are known, told apart by their fields alone.

1. trainer: `prompt` (chat messages) with `reward_model.ground_truth`;
2. olympiad: a question with `final_answer` (a list), and where given `context`, `unit`, `error`, `is_multiple_answer`;
3. answer: a question with `answer`: a number, a string, a solution that ends `#### answer` or holds \boxed{answer};
4. solution: a question with `solution`, whose last \boxed{} is the answer.

"A question" is `problem`, `question` or `prompt`. The first layout whose fields are all there is taken.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from entropy_lab.errors import InputError
from entropy_lab.tasks.boxed import last_boxed
from entropy_lab.tasks.protocol import Problem

QUESTION_FIELDS = ("problem", "question", "prompt")
ACCEPTED = (
    "problem, question or prompt, with one of answer, final_answer, solution (holding \\boxed{}) "
    "or reward_model.ground_truth"
)
INSTRUCTION = "Reason step by step and put the final answer in \\boxed{}."


def read_problem(row: Mapping[str, Any], position: str) -> Problem:
    r"""Read one row; `position` names it in errors.

    `Problem.data` holds `gold` (LaTeX or a number as text), `several` (the gold lists several answers, all required,
    in any order), `unit` and `tolerance` (absolute) or None, `before` (chat messages that precede the question) and
    `instruction` (the rule the grader applies; "" where a trainer's prompt already asks for \boxed{}).
    Raises InputError where no layout fits or a field holds something else than its layout says.
    """
    gold, several = _gold(row, position)
    question, before = _question(row, position)
    unit, tolerance = None, None
    if _has(row, "final_answer"):
        unit = _text(row["unit"], "unit", position) if _has(row, "unit") else None
        tolerance = _tolerance(row["error"], position) if _has(row, "error") else None
        if _has(row, "context"):
            question = f"{_text(row['context'], 'context', position)}\n\n{question}"
    return Problem(
        id=hashlib.sha256(json.dumps([question, gold]).encode()).hexdigest()[:16],
        question=question,
        data={
            "gold": gold,
            "several": several,
            "unit": unit,
            "tolerance": tolerance,
            "before": before,
            "instruction": _instruction(question, several, unit, tolerance),
        },
    )


def _has(row: Mapping[str, Any], field: str) -> bool:
    return row.get(field) is not None


def _instruction(question: str, several: bool, unit: str | None, tolerance: float | None) -> str:
    sentences = [] if "\\boxed" in question else [INSTRUCTION]
    if several:
        sentences.append("There are several answers: put them all in one \\boxed{}, separated by commas.")
    if unit:
        sentences.append(f"The unit is {unit}: write the number alone.")
    if tolerance:
        sentences.append(f"An answer within {tolerance:g} of the exact one counts as correct.")
    return " ".join(sentences)


def _question(row: Mapping[str, Any], position: str) -> tuple[str, list[dict[str, str]]]:
    trainer = _has(row, "prompt") and _has(row, "reward_model")
    field = "prompt" if trainer else next((name for name in QUESTION_FIELDS if _has(row, name)), None)
    if field is None:
        raise _no_layout(row, position)
    if field == "prompt" and not isinstance(row["prompt"], str):
        return _chat(row["prompt"], position)
    return _text(row[field], field, position), []


def _chat(turns: Any, position: str) -> tuple[str, list[dict[str, str]]]:
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
        raise InputError(
            f"{position}: prompt holds {_shown(turns)}; write a text or a list of {{role, content}} messages."
        )
    read = [
        {
            "role": _text(turn.get("role"), "prompt.role", position),
            "content": _text(turn.get("content"), "prompt", position),
        }
        for turn in turns
    ]
    if read[-1]["role"] != "user":
        raise InputError(f"{position}: prompt ends with role {read[-1]['role']!r}; end it with the user's message.")
    return read[-1]["content"], read[:-1]


def _gold(row: Mapping[str, Any], position: str) -> tuple[str, bool]:
    if _has(row, "prompt") and _has(row, "reward_model"):
        rewards = row["reward_model"]
        if not isinstance(rewards, dict) or rewards.get("ground_truth") is None:
            raise InputError(f"{position}: reward_model holds no ground_truth; add the answer under that name.")
        return _answers(rewards["ground_truth"], "reward_model.ground_truth", position)
    if _has(row, "final_answer"):
        gold, several = _answers(row["final_answer"], "final_answer", position)
        return gold, several or row.get("is_multiple_answer") is True
    if _has(row, "answer"):
        return _answers(row["answer"], "answer", position)
    if _has(row, "solution"):
        boxed = last_boxed(_text(row["solution"], "solution", position))
        if boxed is None:
            raise InputError(f"{position}: solution holds no \\boxed{{}} answer; add an answer field or drop the row.")
        return boxed, False
    raise _no_layout(row, position)


def _answers(value: Any, field: str, position: str) -> tuple[str, bool]:
    """Read one answer, or a list of answers that are all required (ours: a list never means alternatives)."""
    if not isinstance(value, list):
        return _answer(value, field, position), False
    if not value:
        raise InputError(f"{position}: {field} is an empty list; give an answer or drop the row.")
    return ", ".join(_answer(part, field, position) for part in value), len(value) > 1


def _answer(value: Any, field: str, position: str) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise InputError(f"{position}: {field} is {value}; give a finite number or drop the row.")
        return str(int(value)) if value == int(value) and abs(value) < 1e15 else str(value)
    text = _text(value, field, position)
    if "####" in text:
        text = text.rpartition("####")[2]
    elif "\\boxed" in text:
        text = last_boxed(text) or ""
    return _text(text, field, position)


def _tolerance(value: Any, position: str) -> float:
    """Read `error`; several tolerances, one a part, count as the widest, since the parts come in any order (ours)."""
    try:
        tolerance = max(float(part) for part in str(value).split(","))
    except ValueError as error:
        raise InputError(f"{position}: error holds {_shown(value)}; write a number such as 0.1 or null.") from error
    if not 0 <= tolerance < math.inf:
        raise InputError(f"{position}: error holds {_shown(value)}; write a finite tolerance of at least 0.")
    return tolerance


def _text(value: Any, field: str, position: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{position}: {field} holds {_shown(value)}; give a text that is not blank.")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(
            f"{position}: {field} holds half of a surrogate pair, which no file can keep; repair the text."
        )
    return value.strip()


def _shown(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _no_layout(row: Mapping[str, Any], position: str) -> InputError:
    found = ", ".join(sorted(str(name) for name in row if _has(row, str(name)))) or "none"
    return InputError(f"{position}: no question with an answer; fields found: {found}; accepted: {ACCEPTED}.")
