"""When alarms ring: at their published and stated limits, in either direction, and never on too little."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.entropy_alarms import WINDOW, collapse, early_drop, explosion


@pytest.mark.parametrize(("end", "verdict"), [(0.5, "pass"), (0.499, "fail"), (1.4, "pass")])
def test_early_drop_at_its_limit(end, verdict):
    steps = np.arange(1, 151)
    values = np.interp(steps, [10, 150], [1.0, end])
    found = early_drop(steps, values)
    assert found.verdict == verdict
    assert found.value == pytest.approx(1 - end)


def test_early_drop_between_logged_steps():
    found = early_drop([5, 15, 145, 155], [1.0, 0.8, 0.6, 0.5])
    assert found.value == pytest.approx((0.9 - 0.55) / 0.9)


def test_early_drop_needs_both_steps_unless_it_has_already_fallen():
    assert early_drop([], []).verdict == "not enough"
    assert early_drop([11, 200], [1.0, 0.1]).verdict == "not enough"
    assert early_drop([1, 10], [1.0, 0.9]).verdict == "not enough"
    unfinished = early_drop([1, 10, 100], [1.0, 1.0, 0.8])
    assert (unfinished.verdict, unfinished.value) == ("not enough", pytest.approx(0.2))
    assert early_drop([1, 10, 60], [1.0, 1.0, 0.4]).verdict == "fail"
    assert early_drop([1, 10, 150], [1.0, 0.0, 0.0]).verdict == "fail"


@pytest.mark.parametrize(
    ("end", "collapses", "explodes"),
    [(0.19, True, False), (0.21, False, False), (1.99, False, False), (2.01, False, True)],
)
def test_collapse_and_explosion_at_their_limits(end, collapses, explodes):
    values = [1.0] * WINDOW + [end] * WINDOW
    assert (collapse(values).verdict == "fail") == collapses
    assert (explosion(values).verdict == "fail") == explodes


def test_one_odd_step_rings_nothing():
    values = [1.0] * 20 + [0.0, 9.0] + [1.0] * 3
    assert collapse(values).verdict == explosion(values).verdict == "pass"


@given(st.lists(st.floats(0.01, 5), max_size=2 * WINDOW - 1))
def test_short_logs_are_not_enough(values):
    assert collapse(values).verdict == explosion(values).verdict == "not enough"


@given(st.lists(st.floats(0.01, 5), min_size=2 * WINDOW, max_size=40))
def test_never_both(values):
    assert not (collapse(values).verdict == "fail" and explosion(values).verdict == "fail")
