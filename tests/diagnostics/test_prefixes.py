"""Groups from rows, bins of surprise, and their numbers by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.prefixes import Group, binned, groups_of, rank_correlation, summarised


def test_groups_by_hand():
    rows = [
        ("a", 0.5, True, "1+"),
        ("a", 0.5, True, "2*"),
        ("a", 0.5, False, "3-"),
        ("b", None, True, "1+"),
        ("b", None, True, "1+"),
        ("b", None, None, "9*"),
    ]
    first, second = groups_of(rows)
    assert (first.surprise, first.families, first.differing) == (0.5, 2, 1.0)
    assert first.accuracy == pytest.approx(2 / 3)
    assert np.isnan(second.surprise)
    assert (second.accuracy, second.families, second.differing) == (1.0, 1, 0.0)


@given(st.lists(st.floats(0, 9), max_size=60))
def test_bins_hold_every_group_once_in_order(surprises):
    groups = [Group(one, 0.5, 1) for one in surprises]
    bins = binned([*groups, Group(float("nan"), 0.0, 0)])
    assert [one.surprise for _, own in bins for one in own] == sorted(surprises)
    assert len(bins) == min(4, max(len(surprises) // 5, int(bool(surprises))))
    assert all(len(own) >= 5 for _, own in bins) or len(bins) == 1


def test_means():
    found = summarised([Group(1.0, 0.25, 1), Group(2.0, 0.75, 2), Group(3.0, 1.0, 3)], "prefix", "all")
    assert {name: one.value for name, one in found.items()} == pytest.approx(
        {"accuracy": 2 / 3, "differing": 2 / 3, "families": 2}
    )
    assert found["families"].low < 2 < found["families"].high
    assert summarised([], "prefix", "all")["accuracy"].value is None


def test_rank_correlation():
    rising = [Group(float(index), index / 10, index) for index in range(8)]
    assert rank_correlation(rising, "families", "all").value == pytest.approx(1)
    falling = [Group(-one.surprise, one.accuracy, one.families) for one in rising]
    found = rank_correlation(falling, "accuracy", "all")
    assert found.value == pytest.approx(-1)
    assert found.n == 8
    assert rank_correlation(rising[:3], "families", "all").value is None
    assert rank_correlation([Group(1.0, 0.5, 1)] * 9, "families", "all").value is None
