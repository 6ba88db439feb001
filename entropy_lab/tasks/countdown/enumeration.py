"""All solutions of a problem in canonical form, and its menus of entrance families. Exact rationals throughout.

Small subsets of the numbers get a table of the values they can make; larger ones are split in two, and the value that
the larger part must have is looked up or asked for recursively, so only forms that reach the target are ever built.
"""

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import gcd

from entropy_lab.tasks.countdown.expressions import Tree, canonical_node, form_text, value_of
from entropy_lab.tasks.countdown.rules import Rules, Value, combine

Numbers = tuple[int, ...]
"""A sorted multiset of numbers at hand."""

Ratio = tuple[int, int]
"""An exact rational: numerator and denominator > 0 in lowest terms; several times faster than Fraction."""

Way = tuple[str, Numbers, Ratio, Numbers, Ratio]
"""A last operation: the operator, then the numbers that make its first operand and their value, then the second's."""

LARGEST_TABLE = 4
"""Subsets up to this size are tabulated (ours): 1,170 values of four distinct numbers, but 27,142 of five."""

# Operator and whether the operands are swapped, for each of the results of `_results(first, second)`.
_OPERATIONS = (("+", False), ("-", False), ("-", True), ("*", False), ("/", False), ("/", True))
# With (target, value) for (first, second) the same six results are the partners that complete `value` to `target`:
# by which operation, and whether the partner is its first operand.
_COMPLETIONS = (("-", True), ("+", True), ("-", False), ("/", True), ("*", True), ("/", False))


def solutions(nums: Sequence[int], target: int, rules: Rules | None = None) -> tuple[Tree, ...]:
    """Every canonical form that reaches `target` under `rules`, sorted by its text."""
    rules = rules or Rules()
    numbers = tuple(sorted(nums))
    search = _Search(rules, min(len(numbers) - 2, LARGEST_TABLE))
    found = set(search.forms(numbers, (target, 1)))
    if rules.use == "any":
        for size in range(1, len(numbers)):
            for subset in set(combinations(numbers, size)):
                found.update(search.forms(subset, (target, 1)))
    return tuple(sorted(found, key=form_text))


def everything(nums: Sequence[int], rules: Rules | None = None) -> dict[Value, frozenset[Tree]]:
    """Every value that `nums`, all used, can make, with its canonical forms; meant for up to four numbers."""
    return {value: frozenset(forms) for value, forms in everything_by_value(nums, rules)}


def everything_by_value(nums: Sequence[int], rules: Rules | None = None) -> Iterator[tuple[Value, set[Tree]]]:
    """Every value that `nums`, all used, can make, and its canonical forms, which only the caller keeps."""
    numbers = tuple(sorted(nums))
    search = _Search(rules or Rules(), len(numbers))
    for value in search.table(numbers):
        yield _value(value), search.made(numbers, value)


class _Search:
    """What subsets of one problem's numbers can make. It goes when the problem is solved, and its memory with it."""

    def __init__(self, rules: Rules, table_size: int) -> None:
        self.rules = rules
        self.unrestricted = not rules.integers_only and rules.minimum is None and rules.max_value is None
        self.table_size = max(1, table_size)
        self._tables: dict[Numbers, dict[Ratio, list[Way]]] = {}
        self._forms: dict[tuple[Numbers, Ratio], set[Tree]] = {}

    def admit(self, value: Ratio) -> bool:
        """Whether an operation may give `value`."""
        return self.unrestricted or self.rules.admit(_value(value))

    def table(self, numbers: Numbers) -> dict[Ratio, list[Way]]:
        """Every value that `numbers`, all used, can make: value → its ways; a number at hand has none."""
        table = self._tables.get(numbers)
        if table is None:
            table = self._tables[numbers] = {(numbers[0], 1): []} if len(numbers) == 1 else self._tabulate(numbers)
        return table

    def _tabulate(self, numbers: Numbers) -> dict[Ratio, list[Way]]:
        table: dict[Ratio, list[Way]] = {}
        refused: set[Ratio] = set()
        for larger, smaller in _splits(numbers):
            for first, second in product(self.table(larger), self.table(smaller)):
                for (operator, swapped), value in zip(_OPERATIONS, _results(first, second), strict=True):
                    if value is None or value in refused:
                        continue
                    ways = table.get(value)
                    if ways is None:
                        if not self.admit(value):
                            refused.add(value)
                            continue
                        ways = table[value] = []
                    ways.append(
                        (operator, smaller, second, larger, first)
                        if swapped
                        else (operator, larger, first, smaller, second)
                    )
        return table

    def ways(self, numbers: Numbers, target: Ratio) -> Iterable[Way]:
        """Every last operation by which `numbers`, all used, make `target`."""
        if len(numbers) <= self.table_size or numbers in self._tables:
            return self.table(numbers).get(target, ())
        return self._completed(numbers, target) if self.admit(target) else ()

    def _completed(self, numbers: Numbers, target: Ratio) -> Iterator[Way]:
        for larger, smaller in _splits(numbers):
            known = self.table(larger) if len(larger) <= self.table_size else None
            for value in self.table(smaller):
                if value[0] == 0:
                    # v ± 0 and 0 − v are found by the partner's value; 0 × v and 0 ÷ v only where every v will do.
                    yield from self._completed_by_zero(larger, smaller, value, target)
                    continue
                for (operator, partner_first), partner in zip(_COMPLETIONS, _results(target, value), strict=True):
                    if partner is not None and (known is None or partner in known):
                        if partner_first:
                            yield operator, larger, partner, smaller, value
                        else:
                            yield operator, smaller, value, larger, partner

    def _completed_by_zero(self, larger: Numbers, smaller: Numbers, zero: Ratio, target: Ratio) -> Iterator[Way]:
        negative = (-target[0], target[1])
        yield "+", larger, target, smaller, zero
        yield "-", larger, target, smaller, zero
        yield "-", smaller, zero, larger, negative
        if target == zero:
            for partner in self.table(larger):
                yield "*", smaller, zero, larger, partner
                if partner != zero:
                    yield "/", smaller, zero, larger, partner

    def forms(self, numbers: Numbers, value: Ratio) -> set[Tree]:
        """Canonical forms over all of `numbers` that make `value`."""
        key = (numbers, value)
        found = self._forms.get(key)
        if found is None:
            found = self._forms[key] = self.made(numbers, value)
        return found

    def made(self, numbers: Numbers, value: Ratio) -> set[Tree]:
        """As `forms`, which it does not remember."""
        if len(numbers) == 1:
            return {numbers[0]} if value == (numbers[0], 1) else set()
        return {
            canonical_node(operator, pair)
            for operator, first, first_value, second, second_value in self.ways(numbers, value)
            for pair in product(self.forms(first, first_value), self.forms(second, second_value))
        }


def _results(first: Ratio, second: Ratio) -> tuple[Ratio | None, ...]:
    """Sum, both differences, product, both quotients; None for a division by zero."""
    a, b = first
    c, d = second
    left, right, below = a * d, c * b, b * d
    difference = _ratio(left - right, below)
    return (
        _ratio(left + right, below),
        difference,
        (-difference[0], difference[1]),
        _ratio(a * c, below),
        _ratio(left, right) if c else None,
        _ratio(right, left) if a else None,
    )


def _ratio(above: int, below: int) -> Ratio:
    common = gcd(above, below) if below > 0 else -gcd(above, below)
    return above // common, below // common


def _value(ratio: Ratio) -> Value:
    return ratio[0] if ratio[1] == 1 else Fraction(*ratio)


def _splits(numbers: Numbers) -> list[tuple[Numbers, Numbers]]:
    """Every way to part a sorted multiset in two, once each, the larger part first."""
    seen: dict[tuple[Numbers, Numbers], None] = {}
    indices = range(len(numbers))
    for size in range(1, len(numbers) // 2 + 1):
        for chosen in combinations(indices, size):
            smaller = tuple(numbers[index] for index in chosen)
            larger = tuple(numbers[index] for index in indices if index not in chosen)
            if len(larger) == len(smaller) and (smaller, larger) in seen:
                continue
            seen[(larger, smaller)] = None
    return list(seen)


def written_menu(forms: Sequence[Tree]) -> frozenset[str]:
    """Families `leftmost number + operator right after it` over every way the solutions could be written.

    + and × commute, so any of their operands can stand first, whatever the rules of play.
    """
    menu: set[str] = set()
    seen: set[Tree] = set()
    for form in forms:
        _written(form, menu, seen)
    return frozenset(menu)


def _written(form: Tree, menu: set[str], seen: set[Tree]) -> None:
    if isinstance(form, int) or form in seen:
        return
    seen.add(form)
    operator, children = form
    for child in children if operator in "+*" else children[:1]:
        if isinstance(child, int):
            menu.add(f"{child}{operator}")
        else:
            _written(child, menu, seen)


def canonical_menu(forms: Sequence[Tree]) -> frozenset[str]:
    """Families of the canonical forms themselves, to be compared with canonicalised answers only."""
    menu = set()
    for form in forms:
        while isinstance(form, tuple):
            operator, children = form
            if isinstance(children[0], int):
                menu.add(f"{children[0]}{operator}")
            form = children[0]
    return frozenset(menu)


def steps_menu(forms: Sequence[Tree], rules: Rules | None = None) -> frozenset[str]:
    """Families of possible *first steps*: operations of a solution whose both operands are given numbers."""
    rules = rules or Rules()
    menu: set[str] = set()
    seen: set[Tree] = set()
    for form in forms:
        _first_steps(form, rules, menu, seen)
    return frozenset(menu)


def _first_steps(form: Tree, rules: Rules, menu: set[str], seen: set[Tree]) -> None:
    if isinstance(form, int) or form in seen:
        return
    seen.add(form)
    operator, children = form
    for child in children:
        _first_steps(child, rules, menu, seen)
    values = [value_of(child) for child in children]
    for i, j in combinations(range(len(children)), 2):
        left, right = children[i], children[j]
        if isinstance(left, int) and isinstance(right, int):
            rest = [value for k, value in enumerate(values) if k not in (i, j) and value is not None]
            merged = combine(operator, left, right)
            if merged is not None and rules.admit(merged) and _mergeable([merged, *rest], operator, rules):
                menu.add(f"{left}{operator}")
                if operator in "+*":
                    menu.add(f"{right}{operator}")


def _mergeable(values: list[Value], operator: str, rules: Rules) -> bool:
    """Whether some order of merging operands of one + or × keeps every result within the rules."""
    if len(values) == 1:
        return True
    for i, j in combinations(range(len(values)), 2):
        merged = combine(operator, values[i], values[j])
        rest = [value for k, value in enumerate(values) if k not in (i, j)]
        if merged is not None and rules.admit(merged) and _mergeable([merged, *rest], operator, rules):
            return True
    return False
