"""All solutions of a problem in canonical form, and its menus of entrance families. Exact rationals throughout.

Small subsets of the numbers get a table of everything they can make; larger ones are split in two, and the value that
the larger part must have is looked up or asked for recursively, so only forms that reach the target are ever built.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product

from entropy_lab.tasks.countdown.expressions import Tree, canonical_node, form_text, value_of
from entropy_lab.tasks.countdown.rules import Rules, Value, combine, simplest

Numbers = tuple[int, ...]
TABLE_SIZE = 3
"""Subsets up to this size are tabulated whole (ours): 104 forms for three numbers."""


def solutions(nums: Sequence[int], target: int, rules: Rules | None = None) -> tuple[Tree, ...]:
    """Every canonical form that reaches `target` under `rules`, sorted by its text."""
    rules = rules or Rules()
    numbers = tuple(sorted(nums))
    found = _forms(numbers, target, rules)
    if rules.use == "any":
        for size in range(1, len(numbers)):
            for subset in set(combinations(numbers, size)):
                found = found | _forms(subset, target, rules)
    return tuple(sorted(found, key=form_text))


def everything(nums: Sequence[int], rules: Rules | None = None) -> dict[Value, frozenset[Tree]]:
    """Every value that `nums`, all used, can make, with its canonical forms; meant for up to four numbers."""
    return _table.__wrapped__(tuple(sorted(nums)), rules or Rules())


@lru_cache(maxsize=20_000)
def _table(numbers: Numbers, rules: Rules) -> dict[Value, frozenset[Tree]]:
    """Everything `numbers`, all used, can make: value → canonical forms."""
    if len(numbers) == 1:
        return {numbers[0]: frozenset(numbers)}
    table: dict[Value, set[Tree]] = {}
    for first, second in _splits(numbers):
        for (left, left_forms), (right, right_forms) in product(
            _table(first, rules).items(), _table(second, rules).items()
        ):
            for operator, a, b, a_forms, b_forms in (
                ("+", left, right, left_forms, right_forms),
                ("*", left, right, left_forms, right_forms),
                ("-", left, right, left_forms, right_forms),
                ("-", right, left, right_forms, left_forms),
                ("/", left, right, left_forms, right_forms),
                ("/", right, left, right_forms, left_forms),
            ):
                value = combine(operator, a, b)
                if value is not None and rules.admit(value):
                    table.setdefault(value, set()).update(
                        canonical_node(operator, pair) for pair in product(a_forms, b_forms)
                    )
    return {value: frozenset(forms) for value, forms in table.items()}


@lru_cache(maxsize=200_000)
def _forms(numbers: Numbers, target: Value, rules: Rules) -> frozenset[Tree]:
    """Canonical forms over all of `numbers` that make `target`."""
    if len(numbers) <= TABLE_SIZE:
        return _table(numbers, rules).get(target, frozenset())
    if not rules.admit(target):
        return frozenset()
    found: set[Tree] = set()
    for larger, smaller in _splits(numbers):
        for value, forms in _table(smaller, rules).items():
            for operator, needed, first in _needed(target, value):
                for partner in _forms(larger, needed, rules):
                    found.update(
                        canonical_node(operator, (form, partner) if first else (partner, form)) for form in forms
                    )
            if target == 0 and value == 0:
                # 0 × anything and 0 ÷ anything: no single partner value answers, so the partner's table is walked
                for partner_value, partners in _table(larger, rules).items():
                    for partner, form in product(partners, forms):
                        found.add(canonical_node("*", (form, partner)))
                        if partner_value != 0:
                            found.add(canonical_node("/", (form, partner)))
    return frozenset(found)


def _needed(target: Value, value: Value) -> Iterator[tuple[str, Value, bool]]:
    """Partner values that complete `value` to `target`: (operator, partner, whether `value` is the first operand)."""
    yield "+", _exact(target - value), False
    yield "-", _exact(value - target), True
    yield "-", _exact(target + value), False
    if value != 0:
        yield "*", _exact(Fraction(target) / value), False
        yield "/", _exact(Fraction(target) * value), False
        if target != 0:
            yield "/", _exact(Fraction(value) / target), True


def _exact(value: Value) -> Value:
    return value if isinstance(value, int) else simplest(value)


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
    return frozenset(family for form in forms for family in _written(form))


@lru_cache(maxsize=200_000)
def _written(form: Tree) -> frozenset[str]:
    if isinstance(form, int):
        return frozenset()
    operator, children = form
    first = children if operator in "+*" else children[:1]
    families = {f"{child}{operator}" for child in first if isinstance(child, int)}
    return frozenset(families.union(*(_written(child) for child in first)))


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
    for form in forms:
        _first_steps(form, rules, menu)
    return frozenset(menu)


def _first_steps(form: Tree, rules: Rules, menu: set[str]) -> None:
    if isinstance(form, int):
        return
    operator, children = form
    for child in children:
        _first_steps(child, rules, menu)
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
