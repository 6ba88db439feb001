"""The table of families and its grid, against counting by hand and by brute force."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.families import OPERATORS, family_grid, family_rows

NUMBERS = {"p": (3, 5), "q": (8, 8, 2), "r": (1, 2)}
MENUS = {"p": frozenset({"3+", "5+"}), "q": frozenset({"8-", "2*"}), "r": frozenset({"1+"})}
SAMPLES = [
    ("p", True, "3+"),
    ("p", False, "3+"),
    ("p", None, "5+"),
    ("p", False, "off-input"),
    ("q", True, "8-"),
    ("q", False, "8/"),
    ("q", False, None),
    ("r", False, None),
    ("without a menu", True, "1+"),
]


def test_rows_by_hand():
    rows = {(row.problem_id, row.family): row for row in family_rows(SAMPLES, MENUS)}
    assert list(rows) == sorted(rows)
    assert set(rows) == {
        *(("p", family) for family in ("3+", "5+", "off-input")),
        *(("q", family) for family in ("8-", "8/", "2*")),
        ("r", "1+"),
    }
    first = rows["p", "3+"]
    assert (first.offered, first.starts, first.samples, first.access, first.graded, first.correct) == (
        True, 2, 4, 0.5, 2, 1,
    )  # fmt: skip
    ungraded = rows["p", "5+"]
    assert (ungraded.starts, ungraded.graded, ungraded.correct) == (1, 0, 0)
    assert not rows["p", "off-input"].offered
    assert not rows["q", "8/"].offered
    never = rows["q", "2*"]
    assert (never.starts, never.samples, never.access) == (0, 3, 0.0)
    assert rows["r", "1+"].access is None, "a share of no calculations is unknown, not 0"


def test_grid_by_hand():
    grid = family_grid("a", family_rows(SAMPLES, MENUS), NUMBERS)
    assert grid.checkpoint == "a"
    assert grid.operands == ("1 (smallest)", "2")
    assert grid.operators == OPERATORS
    plus, minus, times, over = range(4)
    # p and q have first calculations, r has none; `off-input` has no cell.
    assert grid.access[0, plus] == (2 / 4 + 0) / 2
    assert grid.access[1, plus] == (1 / 4 + 0) / 2
    assert grid.access[1, minus] == grid.access[1, over] == (0 + 1 / 2) / 2
    assert grid.access.sum() == (3 / 4 + 1) / 2
    assert grid.starts[0].tolist() == [2, 0, 0, 0]
    assert grid.execution[0, plus] == 1 / 2
    assert grid.execution[1, minus] == 1
    assert np.isnan(grid.execution[1, plus]), "its only sample has no verdict"
    assert np.isnan(grid.execution[0, times])
    assert grid.offered[0, plus] == 2 / 3
    assert grid.offered[0, times] == 1 / 3
    assert grid.offered[1, over] == 0


def test_equal_numbers_share_a_rank_and_empty_input_an_empty_grid():
    grid = family_grid("a", family_rows([("q", True, "8-")], MENUS), NUMBERS)
    assert grid.operands == ("1 (smallest)", "2")
    assert grid.starts[1].tolist() == [0, 1, 0, 0]
    empty = family_grid("a", [], {})
    assert empty.access.shape == (0, 4)


families = st.sampled_from(["3+", "3-", "5+", "5*", "8-", "8/", "2*", "9+", "off-input", None])
samples = st.lists(st.tuples(st.sampled_from(["p", "q", "r"]), st.sampled_from([True, False, None]), families))


@given(samples)
def test_grid_is_the_brute_force_over_samples(drawn):
    grid = family_grid("a", family_rows(drawn, MENUS), NUMBERS)
    calculating = {problem for problem, _, first in drawn if first is not None}
    for rank, label in enumerate(grid.operands):
        assert label.startswith(str(rank + 1))
        for column, operator in enumerate(OPERATORS):
            shares, verdicts, starts = [], [], 0
            for problem in calculating:
                numbers = sorted(set(NUMBERS[problem]))
                family = f"{numbers[rank]}{operator}" if rank < len(numbers) else "absent"
                of_problem = [(right, first) for name, right, first in drawn if name == problem and first is not None]
                there = [right for right, first in of_problem if first == family]
                shares.append(len(there) / len(of_problem))
                starts += len(there)
                verdicts += [right for right in there if right is not None]
            assert np.isclose(grid.access[rank, column], np.mean(shares or [0.0]))
            assert grid.starts[rank, column] == starts
            if verdicts:
                assert np.isclose(grid.execution[rank, column], np.mean(verdicts))
            else:
                assert np.isnan(grid.execution[rank, column])
