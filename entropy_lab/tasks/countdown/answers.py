"""From any text to a verdict: find the answer, read it, check it under the rules of play; never an exception.

Two formats. `expression`: one expression, optionally `= result`. `steps`: equations one after another, each on two
numbers at hand, its result replacing them. `auto` looks for tags, then a box, then reads the whole text as steps.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from entropy_lab.tasks.boxed import last_boxed
from entropy_lab.tasks.countdown.expressions import (
    MAX_LENGTH,
    Tree,
    Unreadable,
    as_fraction,
    entrance,
    has_negation,
    intermediate_values,
    leaves,
    normalise,
    parse,
    value_of,
)
from entropy_lab.tasks.countdown.rules import Rules, Value, combine

Format = Literal["expression", "steps", "auto"]

BOX_REACH = 20_000
"""A text with more braces and backslashes than this is searched for boxes in as many of its last characters (ours)."""

_STEP_END = re.compile(r"[,;\n]")
_STEP = re.compile(r"\s*\(?\s*([0-9]+)\s*([-+*/])\s*([0-9]+)\s*\)?\s*=\s*([0-9]+)\s*")
_LOOKS_LIKE_STEPS = re.compile(r"(?=[^0-9]{0,100}[0-9])[0-9\s()+\-*/^%.=,;]+")


@dataclass(frozen=True)
class Verdict:
    """What an answer is worth. `tree` is the answer as one binary expression, None where it cannot be read."""

    code: str
    tree: Tree | None = None
    family: str | None = None
    flags: tuple[str, ...] = ()

    @property
    def correct(self) -> bool:
        """Whether the answer is right."""
        return self.code == "correct"


@lru_cache(maxsize=1)  # a grade asks for the verdict and then for the answer as written
def find_answer(text: str) -> str | None:
    """The body of the last closed answer: `<answer>` tags before `\\boxed{}`, a box inside tags opened; else None."""
    body = text
    tagged = False
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, max(end, 0))
    if start >= 0:
        body = text[start + len("<answer>") : text.index("</answer>", start)]
        tagged = True
    boxed = last_boxed(_searched(body)) if "\\boxed" in body else None
    if boxed is not None:
        return boxed
    return body if tagged else None


def _searched(body: str) -> str:
    """The part of a text in which a box could close, bounded where braces and backslashes crowd."""
    body = body[: body.rfind("}") + 1]
    crowded = body.count("{") + body.count("}") + body.count("\\") > BOX_REACH
    return body[-BOX_REACH:] if crowded else body


def grade_answer(
    nums: Sequence[int], target: int, text: str, form: Format = "auto", rules: Rules | None = None
) -> Verdict:
    """Grade `text`, which may be anything, in time linear in its length.

    The code is the first that applies: `no-answer`, `too-long`, `forbidden-operator`, `decimal`, `malformed`,
    `wrong-numbers`, `division-by-zero`, `forbidden-value` (ours: a result outside the rules of play),
    `wrong-step` or `wrong-equation`, `wrong-value`, `correct`. In steps the first failing step decides.
    """
    rules = rules or Rules()
    body = find_answer(text)
    if body is None and form == "auto" and len(text) <= MAX_LENGTH:
        spelled = normalise(text)
        if spelled.strip() and _LOOKS_LIKE_STEPS.fullmatch(spelled):
            body, form = text, "steps"
    elif body is None and form == "steps":
        body = text
    if body is None or not body.strip():
        return Verdict("no-answer")
    if len(body) > MAX_LENGTH:
        return Verdict("too-long")
    spelled = normalise(body)
    if form == "steps" or (form == "auto" and (_STEP_END.search(spelled.strip()) or spelled.count("=") > 1)):
        return _grade_steps(nums, target, spelled, rules)
    return _grade_expression(nums, target, spelled, rules)


def _grade_expression(nums: Sequence[int], target: int, body: str, rules: Rules) -> Verdict:
    text, *stated = body.split("=")
    try:
        tree = parse(text)
    except Unreadable as error:
        return Verdict(error.code)
    result = as_fraction(stated[0]) if len(stated) == 1 else None
    if len(stated) > 1 or (stated and result is None):
        return Verdict("malformed")
    flags = ("unary",) if has_negation(tree) else ()
    family = entrance(tree)

    used, given = Counter(leaves(tree)), Counter(nums)
    if not (used == given if rules.use == "all" else used <= given):
        return Verdict("wrong-numbers", tree, family, flags)
    value, on_the_way = value_of(tree), intermediate_values(tree)
    if value is None or on_the_way is None:
        return Verdict("division-by-zero", tree, family, flags)
    if not all(rules.admit(each) for each in on_the_way):
        return Verdict("forbidden-value", tree, family, flags)
    if stated and result != value:
        return Verdict("wrong-equation", tree, family, flags)
    return Verdict("correct" if value == target else "wrong-value", tree, family, flags)


def _grade_steps(nums: Sequence[int], target: int, body: str, rules: Rules) -> Verdict:
    at_hand: list[tuple[Value, Tree]] = [(number, number) for number in nums]  # made results come last
    family = None
    steps = [step for step in _STEP_END.split(body) if step.strip()]
    for step in steps:
        match = _STEP.fullmatch(step)
        if match is None:
            return Verdict(_unreadable_step(step), None, family)
        first, operator, second, stated = match.groups()
        if any(len(number) > 1 and number[0] == "0" for number in (first, second, stated)):
            return Verdict("malformed", None, family)
        family = family or f"{first}{operator}"
        left, right = _take(at_hand, int(first)), _take(at_hand, int(second))
        if left is None or right is None:
            return Verdict("wrong-numbers", None, family)
        result = combine(operator, int(first), int(second))
        if result is None:
            return Verdict("division-by-zero", None, family)
        if not rules.admit(result):
            return Verdict("forbidden-value", None, family)
        if result != int(stated):
            return Verdict("wrong-step", None, family)
        at_hand.append((result, (operator, (left, right))))
    unused = len(at_hand) - 1
    if not steps or (unused and rules.use == "all") or isinstance(at_hand[-1][1], int):
        return Verdict("wrong-numbers" if steps else "no-answer", None, family)
    value, tree = at_hand[-1]
    if len(steps) != len(leaves(tree)) - 1:  # under use = any: every step must lead to the result
        return Verdict("wrong-numbers", tree, family)
    return Verdict("correct" if value == target else "wrong-value", tree, family)


def _take(at_hand: list[tuple[Value, Tree]], number: int) -> Tree | None:
    """Use up one number at hand, the most recent result first (ours)."""
    for index in range(len(at_hand) - 1, -1, -1):
        if at_hand[index][0] == number:
            return at_hand.pop(index)[1]
    return None


def _unreadable_step(step: str) -> str:
    """Which of the three reading faults a step has."""
    try:
        parse(step.partition("=")[0])
    except Unreadable as error:
        return error.code
    return "malformed"
