"""Where samples start and what comes of it: one row a (problem, entrance family), and the grid of operand × operator.

Only problems with a menu have rows; a family is a number of the problem and the operator after it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OPERATORS = ("+", "-", "*", "/")


@dataclass(frozen=True)
class FamilyRow:
    """One family of one problem; first calculations outside the menu (`off-input` too) have rows of their own.

    `starts` of the problem's `samples` begin there, `graded` of them have a verdict and `correct` are right. `access`
    is the share of the problem's first calculations, None where it has none.
    """

    problem_id: str
    family: str
    offered: bool
    starts: int
    samples: int
    access: float | None
    graded: int
    correct: int


@dataclass(frozen=True)
class FamilyGrid:
    """Operand × operator for one checkpoint; all arrays have shape (R, 4).

    `operands` are ranks of the first number among the different numbers of its problem (ours). `access` is the mean
    over problems with a first calculation of the cell's share of them, `starts` how many samples start there,
    `execution` the share correct among those with a verdict (NaN where there are none), `offered` the share of
    problems whose menu holds the cell.
    """

    checkpoint: str
    operands: tuple[str, ...]
    operators: tuple[str, ...]
    access: Floats
    execution: Floats
    starts: Ints
    offered: Floats


def family_rows(
    samples: Iterable[tuple[str, bool | None, str | None]], menus: Mapping[str, frozenset[str]]
) -> list[FamilyRow]:
    """Count (problem, correct, first calculation) of every sample, for the problems in `menus`.

    Sorted by problem, then family. `correct` None is a sample without a verdict.
    """
    total, starting = Counter[str](), Counter[str]()
    starts, graded, right = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for problem, correct, first in samples:
        if problem not in menus:
            continue
        total[problem] += 1
        if first is None:
            continue
        starting[problem] += 1
        starts[problem, first] += 1
        graded[problem, first] += correct is not None
        right[problem, first] += correct is True
    keys = {(problem, family) for problem, menu in menus.items() if total[problem] for family in menu} | starts.keys()
    return [
        FamilyRow(
            problem_id=problem,
            family=family,
            offered=family in menus[problem],
            starts=starts[problem, family],
            samples=total[problem],
            access=starts[problem, family] / starting[problem] if starting[problem] else None,
            graded=graded[problem, family],
            correct=right[problem, family],
        )
        for problem, family in sorted(keys)
    ]


def family_grid(checkpoint: str, rows: Sequence[FamilyRow], numbers: Mapping[str, Sequence[int]]) -> FamilyGrid:
    """Gather the rows of one checkpoint by operand and operator; `numbers` holds those of each problem."""
    problems = {row.problem_id for row in rows}
    ranks = {
        problem: {number: rank for rank, number in enumerate(sorted(set(numbers[problem])))} for problem in problems
    }
    shape = (max(map(len, ranks.values()), default=0), len(OPERATORS))
    access, offered = np.zeros(shape), np.zeros(shape)
    starts, graded, right = np.zeros((3, *shape), np.int64)
    for row in rows:
        operand, operator = row.family[:-1], row.family[-1:]
        rank = ranks[row.problem_id].get(int(operand)) if operand.isdecimal() else None
        if rank is None or operator not in OPERATORS:
            continue
        cell = rank, OPERATORS.index(operator)
        access[cell] += row.access or 0.0
        offered[cell] += row.offered
        starts[cell] += row.starts
        graded[cell] += row.graded
        right[cell] += row.correct
    calculating = len({row.problem_id for row in rows if row.access is not None})
    return FamilyGrid(
        checkpoint=checkpoint,
        operands=tuple(f"{rank + 1} (smallest)" if rank == 0 else str(rank + 1) for rank in range(shape[0])),
        operators=OPERATORS,
        access=access / max(1, calculating),
        execution=np.where(graded > 0, right / np.maximum(graded, 1), np.nan),
        starts=starts,
        offered=offered / max(1, len(problems)),
    )
