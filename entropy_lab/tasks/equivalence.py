r"""Decides whether an answer equals the gold answer, with math-verify. Runs inside the grading process only: parsing
model text with sympy may hang, exhaust memory or crash, so nothing here bounds time.

Where we differ from plain math-verify (ours): numbers such as 4.5e33 are read as scientific notation; two numbers
must agree to RELATIVE beside math-verify's rounding to 6 decimals, which alone calls 6.7e-5 and 6.71e-5 equal; an
answer list is compared part by part in any order; stated units and tolerances are applied.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import math_verify
import sympy

from entropy_lab.tasks.boxed import readable

RELATIVE = 1e-5
EDGE_SPACE = re.compile(r"^(?:\s|~|\\[,;:! ]|\\q?quad(?![a-z]))+|(?:\s|~|\\[,;:! ]|\\q?quad(?![a-z]))+$")
Parsed = Sequence[Any]  # math-verify's readings of one text: a sympy object if it has one, then the text itself

logging.getLogger("math_verify").setLevel(logging.CRITICAL)
logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)


def judge(request: Mapping[str, Any]) -> dict[str, Any]:
    r"""Grade one answer.

    `request` holds gold, several, unit, tolerance, and either `boxed` (the content of the answer's \boxed{}) or
    `tail` (the end of a text without one). Returns {"code": correct | wrong-value | no-answer, "answer": text or None}.
    """
    gold = plain(request["gold"], request["unit"])
    if request["boxed"] is not None:
        written = plain(request["boxed"], request["unit"])
        parsed = parse_boxed(written)
    else:
        tail = without_exponents(request["tail"].replace("\\$", ""))
        parsed = math_verify.parse(tail, parsing_timeout=None, raise_on_error=True)
        written = next((reading for reading in parsed if isinstance(reading, str)), "")
    if not parsed:
        return {"code": "no-answer", "answer": None}
    correct = (
        written == gold
        or equal(parse_boxed(gold), parsed)
        or within(parse_boxed(gold), parsed, request["tolerance"])
        or (request["several"] and same_parts(gold, written, request["tolerance"]))
    )
    return {"code": "correct" if correct else "wrong-value", "answer": normal_form(parsed)}


def plain(latex: str, unit: str | None) -> str:
    """Strip math delimiters, space at the ends, the stated unit, and spellings LaTeX would misread: 4.5e33, 1./3."""
    latex = EDGE_SPACE.sub("", re.sub(r"(?<!\\)\$", "", latex))
    if unit:
        bare = unit.replace("$", "").strip()
        for ending in (f"\\{bare}", f"\\text{{{bare}}}", f"\\mathrm{{{bare}}}", bare):
            latex = EDGE_SPACE.sub("", latex.removesuffix(ending))
    latex = re.sub(r"(\d)\.(?=\s*[-/*+)]|\s*$)", r"\1", without_exponents(latex))
    return latex.strip()


def without_exponents(text: str) -> str:
    """Write 4.5e-3 as 0.0045, since LaTeX reads its e as Euler's number; exponents past 99 are left alone."""
    return re.sub(r"(?<![\w.])(?:\d+\.?\d*|\.\d+)[eE][+-]?\d{1,2}(?!\w)", lambda n: f"{Decimal(n[0]):f}", text)


@lru_cache(maxsize=1024)
def parse_boxed(latex: str) -> Parsed:
    r"""Return math-verify's readings of the content of a \boxed{}; empty where there is nothing to read."""
    return tuple(math_verify.parse(f"\\boxed{{{latex}}}", parsing_timeout=None, raise_on_error=True))


def equal(gold: Parsed, answer: Parsed) -> bool:
    """Say whether any reading of the answer equals any reading of the gold; an error counts only if none does."""
    failure: Exception | None = None
    for right in gold:
        for read in answer:
            try:
                if math_verify.verify(right, read, timeout_seconds=None, raise_on_error=True) and close(right, read):
                    return True
            except Exception as error:  # sympy raises many kinds; kept until every pair has had its turn
                failure = error
    if failure is not None:
        raise failure
    return False


def close(gold: Any, answer: Any) -> bool:
    """Say whether two numbers agree to RELATIVE; anything that is not a number, or is a percentage, passes."""
    if not (is_number(gold) and is_number(answer)) or sympy.Tuple(gold, answer).has(sympy.UnevaluatedExpr):
        return True
    larger = max(distance(gold, sympy.S.Zero), distance(answer, sympy.S.Zero))
    return bool(distance(gold, answer) <= RELATIVE * larger)


def within(gold: Parsed, answer: Parsed, tolerance: float | None) -> bool:
    """Say whether the two numbers differ by at most the stated absolute tolerance."""
    if tolerance is None or not (gold and answer and is_number(gold[0]) and is_number(answer[0])):
        return False
    # The slack is for the decimal-to-binary rounding of the two numbers: 4.3 − 4.2 is more than 0.1 in floats.
    return bool(distance(gold[0], answer[0]) <= tolerance * (1 + 1e-9))


def distance(left: sympy.Expr, right: sympy.Expr) -> sympy.Float:
    """Return |left − right|, each rounded to 30 digits first; sympy's floats have no largest value."""
    return sympy.N(sympy.Abs(sympy.N(left, 30) - sympy.N(right, 30)))


def is_number(value: Any) -> bool:
    """Say whether a reading is one finite number."""
    return isinstance(value, sympy.Expr) and bool(value.is_number) and not value.has(sympy.oo, sympy.zoo, sympy.nan)


def same_parts(gold: str, answer: str, tolerance: float | None) -> bool:
    """Say whether the two comma-separated lists hold equal parts in any order, each used once."""
    rest = split_parts(answer)
    wanted = split_parts(gold)
    if len(rest) != len(wanted) or len(wanted) < 2:
        return False
    for part in wanted:
        right = parse_boxed(part)
        for index, other in enumerate(rest):
            read = parse_boxed(other)
            if part == other or equal(right, read) or within(right, read, tolerance):
                del rest[index]
                break
        else:
            return False
    return True


def split_parts(latex: str) -> list[str]:
    """Split at the commas that stand outside every bracket, and at `and` and `or`."""
    latex = re.sub(r"\\text\s*\{\s*(?:and|or)\s*\}|(?<![\w\\])(?:and|or)(?!\w)", ",", latex)
    parts, depth = [""], 0
    for character in latex:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def normal_form(parsed: Parsed) -> str:
    """Return the text by which equal answers are recognised: the parsed value (27.0 is 27), or what was written."""
    value = parsed[0]
    if isinstance(value, sympy.Float) and (float(value) or not value):  # false where a double underflows
        return f"{float(value):.12g}"
    return readable(str(value))
