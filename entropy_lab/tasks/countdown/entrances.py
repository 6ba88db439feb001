"""Entrance families of text: the first calculation that reasoning attempts, as `first operand + first operator`."""

import re
from collections.abc import Sequence

from entropy_lab.tasks.countdown.expressions import normalise

REACH = 50_000
"""Characters of a text in which its first calculation is looked for (ours): milliseconds, whatever the text."""

POWER = re.compile(r"(?<=[0-9])\s*\*\*\s*(?=[0-9])")
EMPHASIS = re.compile(r"\*\*|__")
# Repeats are possessive (`+` after the quantifier): giving back a space, digit or operation never finds a match.
_NUMBER = r"[0-9]{1,18}+(?![0-9])"
_CALCULATION = re.compile(
    rf"(?<![0-9A-Za-z_.^])({_NUMBER})\s*+([-+*/])\s*+"
    rf"(?:\((?=\s*+(?:[-(]\s*+)?[0-9])|{_NUMBER}(?!\.[0-9])(?!\s*+\^))"
)
_REST_WITH_RESULT = re.compile(rf"(?:\s*+[-+*/]\s*+{_NUMBER}(?!\.[0-9])){{0,8}}+\s*+=\s*+-?[0-9]")


def first_calculation(nums: Sequence[int], text: str) -> str | None:
    """Label of the first calculation in a text: `44+`, `off-input`, or None where there is none.

    A match counts when its first operand is one of the problem's numbers and a second operand (or an opening
    bracket) follows. A calculation that starts from another number and states a result is `off-input`.
    Ranges, list markers, decimals and powers are skipped. `**` between digits is a power, elsewhere emphasis.
    Only the first REACH characters are read.
    """
    spelled = normalise(text[:REACH])
    if "**" in spelled or "__" in spelled:
        spelled = EMPHASIS.sub("", POWER.sub("^", spelled))
    found = find_calculation(nums, spelled)
    return None if found is None else found[0]


def find_calculation(nums: Sequence[int], spelled: str) -> tuple[str, int] | None:
    """Label and place of the operator of the first calculation in a text whose operators are spelled one way."""
    given = {str(number) for number in nums}
    for match in _CALCULATION.finditer(spelled):
        operand, operator = match.groups()
        if operand in given:
            return f"{operand}{operator}", match.start(2)
        if _REST_WITH_RESULT.match(spelled, match.end()):
            return "off-input", match.start(2)
    return None
