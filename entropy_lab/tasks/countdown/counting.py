"""How many solutions there are when counted coarser or finer than canonical forms: as functions, as written trees."""

import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from entropy_lab.tasks.countdown.expressions import Tree
from entropy_lab.tasks.countdown.rules import Rules, Value, combine

PRIME = 2**127 - 1
"""Functions are compared by their residues modulo this prime (ours)."""

MAX_TRIES = 10


def function_count(forms: Sequence[Tree]) -> int:
    """Number of distinct rational functions of the numbers among `forms`; equal numbers share a symbol.

    Two forms are one function where their residues at one random point agree (Schwartz–Zippel; fixed seeds, so the
    same count every time). Different functions of n numbers agree there with probability at most 2n / 2¹²⁷: even the
    6.4 million forms of six numbers are miscounted with probability below 10⁻²³.

    Raises:
        ValueError: a form divides by zero whatever its numbers are.
    """
    for seed in range(MAX_TRIES):
        try:
            return len(set(residues(forms, seed)))
        except ZeroDivisionError:  # a denominator vanishes at this point, most likely not as a function
            continue
    raise ValueError("A form divides by zero; count only forms that have a value.")


def residues(forms: Iterable[Tree], seed: int) -> Iterator[int]:
    """Each form at one random point modulo PRIME; forms that are the same function give the same residue.

    Raises:
        ZeroDivisionError: a denominator vanishes at the point of this seed.
    """
    generator = random.Random(seed)
    point: dict[int, int] = {}
    known: dict[Tree, int] = {}

    def at_point(tree: Tree) -> int:
        if isinstance(tree, int):
            if tree not in point:
                point[tree] = generator.randrange(1, PRIME)
            return point[tree]
        operator, children = tree
        result = remembered(children[0])
        for child in children[1:]:
            operand = remembered(child)
            if operator == "+":
                result += operand
            elif operator == "-":
                result -= operand
            elif operator == "*":
                result *= operand
            elif operand:
                result *= pow(operand, -1, PRIME)
            else:
                raise ZeroDivisionError
            result %= PRIME
        return result

    def remembered(tree: Tree) -> int:
        residue = known.get(tree)
        if residue is None:
            residue = known[tree] = at_point(tree)
        return residue

    yield from map(at_point, forms)  # whole forms occur once each, their parts many times


def ordered_count(forms: Iterable[Tree], rules: Rules | None = None) -> int:
    """Number of ordered binary trees whose canonical form is among `forms`: every full way to write the solutions.

    Operands of + and × may stand in any order and be grouped in any way that keeps each result within `rules`. Trees
    that look the same are one, so equal operands are not told apart. Forms must be canonical and distinct.
    """
    rules = rules or Rules()
    known: dict[Tree, tuple[int, Value | None]] = {}
    return sum(_count(form, rules, known)[0] for form in forms)


def _count(tree: Tree, rules: Rules, known: dict[Tree, tuple[int, Value | None]]) -> tuple[int, Value | None]:
    """Ordered trees of one canonical form, and its value, which is the same for all of them."""
    if isinstance(tree, int):
        return 1, tree
    operator, children = tree
    count, value = 0, None
    for left, right in _groupings(operator, children):
        parts = []
        for part in (left, right):
            if part not in known:
                known[part] = _count(part, rules, known)
            parts.append(known[part])
        (left_count, first), (right_count, second) = parts
        if value is None and first is not None and second is not None:
            value = combine(operator, first, second)
        count += left_count * right_count
    return (count, value) if value is not None and rules.admit(value) else (0, value)


def _groupings(operator: str, children: tuple[Tree, ...]) -> Iterable[tuple[Tree, Tree]]:
    """Every last operation of a node on two canonical parts, first operand first; each pair once."""
    if len(children) == 2:
        return {children, children[::-1]} if operator in "+*" else (children,)
    pairs: set[tuple[Tree, Tree]] = set()
    indices = range(len(children))
    for size in range(1, len(children)):
        for chosen in combinations(indices, size):
            left = tuple(children[index] for index in chosen)
            right = tuple(children[index] for index in indices if index not in chosen)
            pairs.add((_node(operator, left), _node(operator, right)))
    return pairs


def _node(operator: str, children: tuple[Tree, ...]) -> Tree:
    return children[0] if len(children) == 1 else (operator, children)
