"""Areas under curves, and agreement in rank of a handful of runs."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.rank_agreement import mean_height, rank_agreement


def test_area_by_hand():
    assert mean_height([0, 1, 3], [1.0, 3.0, 3.0]) == pytest.approx((2 + 6) / 3)
    assert mean_height([0, 1, 2, 3], [1.0, 3.0, math.nan, 3.0]) == pytest.approx((2 + 6) / 3)
    for x, y in (([], []), ([1], [2.0]), ([1, 1], [2.0, 3.0]), ([0, 1], [math.nan, 1.0])):
        assert math.isnan(mean_height(x, y))


@given(st.floats(-5, 5), st.floats(0.1, 5))
def test_a_constant_is_its_own_mean(value, width):
    assert mean_height([0, width / 2, width], [value] * 3) == pytest.approx(value, abs=1e-9)


def test_full_agreement_of_four_is_one_order_in_twenty_four():
    tau, rho = rank_agreement("a", [1.0, 2, 3, 4], [0.1, 0.2, 0.3, 0.9])
    assert (tau.value, rho.value) == (1.0, 1.0)
    assert "p = 0.0833" in tau.note  # two of the 24 orders are as extreme
    assert "p = 0.0833" in rho.note
    assert tau.low is None


def test_disagreement_and_ties():
    tau, rho = rank_agreement("a", [1.0, 2, 3], [3.0, 2, 1])
    assert (tau.value, rho.value) == (-1.0, -1.0)
    tau, _ = rank_agreement("a", [1.0, 2, 3, 4], [1.0, 1, 2, 3])
    assert 0 < tau.value < 1


def test_too_few_or_constant_have_no_value_and_say_why():
    for x, y, why in (([1.0, 2], [1.0, 2], "2 pairs"), ([1.0, 1, 1], [1.0, 2, 3], "the same everywhere")):
        for one in rank_agreement("a", x, y):
            assert one.value is None
            assert why in one.note
    assert rank_agreement("a", [1.0, 2, math.nan, 3], [1.0, 2, 3, math.nan])[0].n == 2
