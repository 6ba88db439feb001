"""All forced beginnings of one problem: nothing, entrance, entrance + value, and the two controls."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from entropy_lab.engines.protocol import trajectory_seed
from entropy_lab.interventions.forcing import Leak, Level, Prefix, scaffold_of
from entropy_lab.interventions.openings import entrance_text, openings
from entropy_lab.tasks.countdown.enumeration import solutions
from entropy_lab.tasks.countdown.expressions import leaves
from entropy_lab.tasks.countdown.rules import Rules, combine
from entropy_lab.tasks.countdown.task import Countdown, countdown_problem
from entropy_lab.tasks.protocol import Problem

_OPERATORS = "+-*/"
_OFF_BY = (1, -1, 2, -2, 3, -3)
"""What is added to a value to corrupt it, in the order tried (ours)."""


@dataclass(frozen=True)
class Ladder:
    """The prefixes of one problem with its menu. `skipped` counts families that a level leaves out, as leaks."""

    problem: Problem
    menu: tuple[str, ...]
    prefixes: tuple[Prefix, ...]
    skipped: dict[Level, int]

    @property
    def infeasible(self) -> tuple[str, ...]:
        """The families of the control outside the menu."""
        return tuple(one.family for one in self.prefixes if one.level == "infeasible")


def ladder(task: Countdown, problem: Problem, scaffold: str | None, seed: int) -> Ladder | None:
    """Every prefix of `problem` that gives nothing away, in a fixed order; None where it has no menu.

    `value` is the entrance with each second operand that some correct answer has there, in steps with its result;
    `corrupted` the same with a wrong result (steps only), the nearest one that leaves a solvable rest (ours).
    `infeasible` families are drawn by `seed` from the numbers × operators outside the menu, at most as many as the
    menu has. Raises `Leak` for a scaffold that holds the answer.
    """
    space = task.space(problem)
    if space is None or not space.menu:
        return None
    menu = tuple(sorted(space.menu, key=_family_order))
    make = partial(Prefix, task, problem, scaffold=scaffold_of(task, scaffold))
    prefixes = [make(level="empty", family="", body="")]
    skipped: dict[Level, int] = defaultdict(int)
    beginnings = _steps if task.form == "steps" else _expressions
    for family, entrance, values, corrupted in beginnings(task, problem, menu):
        prefixes.append(make(level="entrance", family=family, body=entrance))
        levels: list[tuple[Level, Sequence[tuple[str, Problem | None]]]] = [
            ("value", [(body, None) for body in values]),
            ("corrupted", corrupted),
        ]
        for level, bodies in levels:
            kept = []
            for body, continued in bodies:
                try:
                    kept.append(make(level=level, family=family, body=body, continued=continued))
                except Leak:
                    continue
            prefixes += kept
            if not kept and (level == "value" or task.form == "steps"):
                skipped[level] += 1
    for family in _outside(problem, menu, seed):
        prefixes.append(make(level="infeasible", family=family, body=family))
    return Ladder(problem, menu, tuple(prefixes), dict(skipped))


Beginning = tuple[str, str, list[str], list[tuple[str, Problem | None]]]
"""Family, entrance, entrance + value for each second operand, the same corrupted with what it leaves to solve."""


def _expressions(task: Countdown, problem: Problem, menu: Sequence[str]) -> Iterator[Beginning]:
    forms = solutions(problem.data["nums"], problem.data["target"], task.rules)
    found = openings(forms, task.rules)
    for family in menu:
        yield family, entrance_text(family, found), [one.whole for one in found if one.family == family], []


def _steps(task: Countdown, problem: Problem, menu: Sequence[str]) -> Iterator[Beginning]:
    target, rules = problem.data["target"], task.rules
    for family in menu:
        first, operator = int(family[:-1]), family[-1]
        others = Counter(problem.data["nums"]) - Counter([first])
        values: list[str] = []
        corrupted: list[tuple[str, Problem | None]] = []
        for second in sorted(others):
            value = combine(operator, first, second)
            rest = list((others - Counter([second])).elements())
            if not isinstance(value, int) or not _leads_on(rest, value, target, rules):
                continue
            values.append(f"{family}{second}={value}")
            wrong = _corrupted(rest, value, target, rules)
            if wrong is not None:
                stated, continued = wrong
                corrupted.append((f"{family}{second}={stated}", continued))
        yield family, family, values, corrupted


def _leads_on(rest: Sequence[int], value: int, target: int, rules: Rules) -> bool:
    """Whether a step may give `value` (which steps can only state from 0 up), and a solution goes on from it."""
    if value < 0 or not rules.admit(value):
        return False
    return any(value in leaves(form) for form in solutions([*rest, value], target, rules))


def _corrupted(rest: Sequence[int], value: int, target: int, rules: Rules) -> tuple[int, Problem | None] | None:
    """A wrong value near the true one, and the problem it leaves where that is solvable; None where there is none."""
    near = [value + shift for shift in _OFF_BY]
    wrong = [each for each in near if each >= 0 and each != target and rules.admit(each)]
    for each in wrong:
        if rest and _leads_on(rest, each, target, rules):
            return each, countdown_problem([*rest, each], target)
    return (wrong[0], None) if wrong else None


def _outside(problem: Problem, menu: Sequence[str], seed: int) -> list[str]:
    numbers = sorted(set(problem.data["nums"]))
    outside = [f"{number}{operator}" for number in numbers for operator in _OPERATORS]
    outside = [family for family in outside if family not in menu]
    generator = np.random.default_rng(trajectory_seed(seed, problem.id, "infeasible", 0))
    chosen = generator.permutation(len(outside))[: len(menu)]
    return [outside[index] for index in sorted(chosen)]


def _family_order(family: str) -> tuple[int, int]:
    return int(family[:-1]), _OPERATORS.index(family[-1])
