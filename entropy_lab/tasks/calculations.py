r"""The first calculation of a mathematical text as a label, `48/2`: two numbers with an operator between them.

What counts is decided by how it is written, never by its value, in time linear in the text and bounded.
"""

import re

from entropy_lab.tasks.countdown.expressions import normalise

LONGEST = 20_000
"""Only the first so many characters are read (ours): a calculation that comes later does not open the text."""

_GAP = r"[^\S\n]{0,4}"
_NUMBER = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})(?![0-9])(?:\.[0-9]{1,18}(?![0-9]))?|\.[0-9]{1,18}(?![0-9]))"
_CALCULATION = re.compile(
    rf"""
    (?<![0-9A-Za-z_^\\.]) (?<![0-9][:,]) (?<![_^]\{{)  # not in a word, number, power, list, time of day
    (?P<first>{_NUMBER}) (?P<first_percent>{_GAP}%)?
    (?P<before>{_GAP}) (?P<operator>[-+*/]|(?<=\s)x(?=\s)) (?P<after>{_GAP})
    (?P<second>-?{_NUMBER})
    (?! [.:][0-9] | ,[0-9]{{3}} | [A-Za-z_(] | \\(?!text|mathrm)[A-Za-z] | {_GAP}\^ )  # nor 3x, 3(4), 3\pi, 3^2
    (?P<second_percent>{_GAP}%)?
    """,
    re.VERBOSE,
)
_RESULT = re.compile(rf"(?:{_GAP}[-+*/]{_GAP}-?{_NUMBER}%?){{0,8}}{_GAP}[=≈]")
_RUN = re.compile(rf"(?:[-/]{_NUMBER})*")
_DATE = re.compile(r"(?:[0-9]{1,2}/[0-9]{1,2}/(?:[0-9]{4}|[0-9]{2})|[0-9]{4}/[0-9]{1,2}/[0-9]{1,2})(?![0-9/])")

_BEFORE = 24
_COUNTED = re.compile(r"(?:step|part|case|day|week|question|problem|example|option|equation)\s?#?$", re.IGNORECASE)
_MARKER = re.compile(_COUNTED.pattern[:-1] + rf"[0-9]{{1,3}}{_GAP}-{_GAP}$", re.IGNORECASE)
_CONTINUED = re.compile(rf"(?:[0-9)\]}}%]|(?<![A-Za-z])[A-Za-z]{{1,2}}){_GAP}([-+*/^]){_GAP}$")
_SIGN = re.compile(r"(?:^|[\s(\[{=<>,:])-$")

_ESCAPED = re.compile(r"\\([$%])")
_THOUSANDS = re.compile(r"(?<=[0-9])(?:\{,\}|\\[,!])(?=[0-9]{3})")
_FRACTION = re.compile(rf"\\frac\s?\{{\s?({_NUMBER})\s?\}}\s?\{{\s?({_NUMBER})\s?\}}")
_IN_BRACKETS = re.compile(rf"(?<![A-Za-z0-9)\]}}])\({_GAP}(-?{_NUMBER}){_GAP}\)")
_POWER = re.compile(r"(?<=[0-9]) ?\*\* ?(?=[0-9])")
_EMPHASIS = re.compile(r"\*\*|__")


def first_calculation(text: str) -> str | None:
    r"""Label of the first calculation in a text, or None where there is none: `1,200 \times 0.50` is `1200*0.5`.

    The operands stand beside the operator on one line. They may have thousands separators, decimals and a percent sign;
    `\frac{a}{b}` is `a/b`, ` x ` between numbers a product. The first one written counts, precedence aside. These do
    not (ours): a minus without space on both sides where no result follows (a range or an identifier); dates, times of
    day, powers; `Step 1 - 44`; a number that belongs to an algebraic term (`2x + 3`, `x + 3 - 4`, `5 + 3x`).
    """
    spelled = _spelled(text[:LONGEST])
    position = 0
    while match := _CALCULATION.search(spelled, position):
        after = _past_something_else(spelled, match)
        if after is None:
            return _label(spelled, match)
        position = after
    return None


def _spelled(text: str) -> str:
    text = _IN_BRACKETS.sub(r"\1", normalise(_THOUSANDS.sub(",", _ESCAPED.sub(r"\1", text))))
    return _EMPHASIS.sub("", _POWER.sub("^", _FRACTION.sub(r"(\1/\2)", text)))


def _past_something_else(text: str, match: re.Match[str]) -> int | None:
    """Where to read on if the match is no calculation, else None."""
    date = _DATE.match(text, match.start())
    if date and not _RESULT.match(text, date.end()):
        return date.end()
    before = _before(text, match)
    operator = match["operator"]
    if operator == "-":
        spaced = match["before"] and match["after"]
        if not spaced and not _RESULT.match(text, match.end()):
            run = _RUN.match(text, match.end())
            return run.end() if run else match.end()
        if _COUNTED.search(before):
            return match.start("second")
    term = _CONTINUED.search(before)
    if term and not _MARKER.search(before) and not (term[1] in "+-" and operator in "*/x"):
        return match.start("second")  # but in x + 3*4 the product stands by itself
    return None


def _before(text: str, match: re.Match[str]) -> str:
    return text[max(0, match.start() - _BEFORE) : match.start()]


def _label(text: str, match: re.Match[str]) -> str:
    before = _before(text, match)
    sign = "-" if _SIGN.search(before) and not _CONTINUED.search(before) else ""
    operator = "*" if match["operator"] == "x" else match["operator"]
    first = sign + _normal(match["first"]) + ("%" if match["first_percent"] else "")
    return first + operator + _normal(match["second"]) + ("%" if match["second_percent"] else "")


def _normal(number: str) -> str:
    """Equal numbers as equal text: `1,200` is `1200`, `2.50` is `2.5`, `.5` is `0.5`."""
    whole, _, decimals = number.removeprefix("-").replace(",", "").partition(".")
    decimals = decimals.rstrip("0")
    return f"{'-' * number.startswith('-')}{int(whole or 0)}{'.' * bool(decimals)}{decimals}"
