"""Countdown by brute force: every ordered binary tree, one by one; every order of combining two numbers at hand."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, permutations

from entropy_lab.tasks.countdown.expressions import Tree, canonical
from entropy_lab.tasks.countdown.rules import Rules

Playing = tuple[Tree, Fraction]


def ordered_trees(numbers: Sequence[int], rules: Rules) -> Iterator[Playing]:
    """Every ordered binary tree over `numbers` in this order, with its value."""
    if len(numbers) == 1:
        yield numbers[0], Fraction(numbers[0])
        return
    for cut in range(1, len(numbers)):
        for left, a in ordered_trees(numbers[:cut], rules):
            for right, b in ordered_trees(numbers[cut:], rules):
                for operator in "+-*/":
                    if operator == "/" and b == 0:
                        continue
                    value = {"+": a + b, "-": a - b, "*": a * b}[operator] if operator != "/" else a / b
                    if rules.admit(value.numerator if value.denominator == 1 else value):
                        yield (operator, (left, right)), value


def all_solutions(nums: Sequence[int], target: int, rules: Rules) -> set[Tree]:
    """Every ordered tree over every order of the numbers that reaches the target."""
    return {tree for order in set(permutations(nums)) for tree, value in ordered_trees(order, rules) if value == target}


def leftmost_family(tree: Tree) -> str:
    """First number and the operator right after it, by walking down the left edge."""
    operator, (left, _) = tree
    return f"{left}{operator}" if isinstance(left, int) else leftmost_family(left)


def first_step_families(tree: Tree) -> set[str]:
    """Operations of the tree whose both operands are given numbers."""
    if isinstance(tree, int):
        return set()
    operator, (left, right) = tree
    if isinstance(left, int) and isinstance(right, int):
        return {f"{left}{operator}"}
    return first_step_families(left) | first_step_families(right)


def pair_combining(nums: Sequence[int], target: int, rules: Rules | None = None) -> set[Tree]:
    """Canonical forms over all numbers by the usual recursion: pick two numbers at hand, combine them, recurse."""
    rules = rules or Rules()
    found: set[Tree] = set()

    def combine_two(at_hand: list[Playing]) -> None:
        if len(at_hand) == 1:
            if at_hand[0][1] == target:
                found.add(canonical(at_hand[0][0]))
            return
        for i, j in combinations(range(len(at_hand)), 2):
            (left, a), (right, b) = at_hand[i], at_hand[j]
            rest = [playing for k, playing in enumerate(at_hand) if k not in (i, j)]
            made = [(("+", (left, right)), a + b), (("-", (left, right)), a - b), (("-", (right, left)), b - a)]
            made.append((("*", (left, right)), a * b))
            if b != 0:
                made.append((("/", (left, right)), a / b))
            if a != 0:
                made.append((("/", (right, left)), b / a))
            for tree, value in made:
                if rules.admit(value.numerator if value.denominator == 1 else value):
                    combine_two([*rest, (tree, value)])

    combine_two([(number, Fraction(number)) for number in nums])
    return found
