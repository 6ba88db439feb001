import numpy as np
import pytest

from entropy_lab.diagnostics.coverage import COLUMNS, coverage_columns, gini
from entropy_lab.tasks.protocol import Space

SPACE = Space(frozenset({"3+5", "a", "b", "c"}), frozenset({"3+", "5+", "3*", "5*"}))


def values(rows, spaces=None, problems=("p",)):
    columns = coverage_columns(problems, spaces or {"p": SPACE}, rows)
    return {column.name: column.values_P for column in columns}


def test_only_correct_samples_within_the_menu_count_as_covered():
    found = values(
        [
            ("p", True, "3+5", "3+", "3+"),
            ("p", True, "3+5", "5+", "5+"),
            ("p", False, "a", "3*", "3*"),
            ("p", True, "not-in-space", "9/", "9/"),
            ("p", None, "b", "5*", None),
        ]
    )
    assert found["coverage.solution"][0] == 1 / 4
    assert found["coverage.family"][0] == 2 / 4
    assert found["access.support_mass"][0] == 3 / 4
    assert found["access.top1"][0] == pytest.approx(1 / 3)
    assert found["access.entropy"][0] == pytest.approx(np.log(3))


def test_unsolvable_and_unenumerated_problems_have_no_value():
    rows = [("p", False, None, None, None), ("q", False, None, None, None), ("r", True, "a", "3+", "3+")]
    spaces = {"p": Space(frozenset(), frozenset()), "r": SPACE}
    found = values(rows, spaces, ("p", "q", "r"))
    for name, _, _ in COLUMNS:
        assert np.isnan(found[name][:2]).all()
    assert found["coverage.solution"][2] == 0.25


def test_no_start_within_the_menu():
    found = values([("p", False, None, None, "off-input"), ("p", False, None, None, "9+")])
    assert found["access.support_mass"][0] == 0
    assert np.isnan(found["access.top1"][0])
    assert np.isnan(values([("p", False, None, None, None)])["access.support_mass"][0])


def test_gini_is_zero_when_even_and_largest_when_one_has_all():
    assert gini(np.full(5, 0.2)) == pytest.approx(0)
    assert gini(np.array([0, 0, 0, 1.0])) == pytest.approx(3 / 4)
    shares = np.random.default_rng(0).dirichlet(np.ones(7))
    pairs = np.abs(shares[:, None] - shares).sum() / (2 * 7**2 * shares.mean())
    assert gini(shares) == pytest.approx(pairs)
