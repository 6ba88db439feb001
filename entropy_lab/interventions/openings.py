"""How a correct expression can begin: its text through the first operator, and through the number after that.

Every way to write a solution is considered, each with as few opening brackets as its own tree allows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from entropy_lab.tasks.countdown.expressions import Tree, value_of
from entropy_lab.tasks.countdown.rules import Rules, combine


@dataclass(frozen=True)
class Opening:
    """The beginning of an expression: `text` goes through the first operator, `rest` on through the second number."""

    family: str
    text: str
    second: int
    rest: str

    @property
    def whole(self) -> str:
        """Through the second number: `(7-3` or `1+(2`."""
        return self.text + self.rest

    def within(self, brackets: int) -> "Opening":
        """The same beginning inside more brackets."""
        return Opening(self.family, "(" * brackets + self.text, self.second, self.rest)


def openings(forms: Iterable[Tree], rules: Rules) -> tuple[Opening, ...]:
    """One opening for each family and second number that some solution among the canonical `forms` has.

    Of several it is the one with the fewest brackets before the operator, then the fewest in all, then the first by its
    text (ours). Sorted by family and second number.
    """
    best: dict[tuple[str, int], Opening] = {}
    for form in forms:
        for one in _openings(form, rules):
            key = (one.family, one.second)
            if key not in best or _effort(one) < _effort(best[key]):
                best[key] = one
    return tuple(best[key] for key in sorted(best))


def entrance_text(family: str, found: Iterable[Opening]) -> str:
    """The text through the first operator, with the fewest brackets; a family that nothing has is written as it is."""
    return min((one.text for one in found if one.family == family), key=len, default=family)


def _effort(one: Opening) -> tuple[int, int, str]:
    return one.text.count("("), one.whole.count("("), one.whole


@lru_cache(maxsize=200_000)
def _openings(form: Tree, rules: Rules) -> frozenset[Opening]:
    if isinstance(form, int):
        return frozenset()
    operator, children = form
    found: set[Opening] = set()
    for place, first in enumerate(children if operator in "+*" else children[:1]):
        if isinstance(first, int):
            for other in children[:place] + children[place + 1 :]:
                brackets = _stands_in_brackets(operator, first, other, len(children) > 2, rules)
                found.update(
                    Opening(f"{first}{operator}", f"{first}{operator}", number, "(" * (brackets + inner) + str(number))
                    for number, inner in _leading(other)
                )
        else:
            brackets = int(operator in "*/" and first[0] in "+-")
            found.update(one.within(brackets) for one in _openings(first, rules))
    return frozenset(found)


def _stands_in_brackets(operator: str, first: int, other: Tree, more: bool, rules: Rules) -> int:
    """Whether the operand right after a first number needs a bracket before it (1) or none (0)."""
    if not isinstance(other, int) and not (operator in "+-" and other[0] in "*/"):
        return 1
    if not more:
        return 0
    second = value_of(other)  # of three or more operands, the first two are combined unless brackets say otherwise
    together = None if second is None else combine(operator, first, second)
    return int(together is None or not rules.admit(together))


@lru_cache(maxsize=200_000)
def _leading(form: Tree) -> frozenset[tuple[int, int]]:
    """The numbers that can stand first in the text of a form, each with the brackets before it."""
    if isinstance(form, int):
        return frozenset({(form, 0)})
    operator, children = form
    return frozenset(
        (number, inner + int(operator in "*/" and not isinstance(first, int) and first[0] in "+-"))
        for first in (children if operator in "+*" else children[:1])
        for number, inner in _leading(first)
    )
