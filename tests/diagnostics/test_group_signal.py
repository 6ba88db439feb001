"""What groups can teach: published figures, brute force over binomials, unbiased estimates."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.group_signal import (
    critical_rate,
    degenerate_estimate,
    degenerate_share,
    group_variance,
    variance_estimate,
)


def test_published_figures():
    assert float(group_variance(0.02, 8)) == pytest.approx(0.01715)
    assert [critical_rate(g) for g in (4, 8, 16)] == pytest.approx([0.1591, 0.0830, 0.0424], abs=5e-5)
    for g in (4, 8, 16):
        assert (1 - critical_rate(g)) ** g == pytest.approx(0.5)


@given(st.floats(0, 1), st.integers(2, 9))
def test_against_the_binomial(p, g):
    chances = [comb(g, k) * p**k * (1 - p) ** (g - k) for k in range(g + 1)]
    variances = [k / g * (1 - k / g) for k in range(g + 1)]
    assert float(group_variance(p, g)) == pytest.approx(np.dot(chances, variances), abs=1e-12)
    assert float(degenerate_share(p, g)) == pytest.approx(chances[0] + chances[-1], abs=1e-12)


@given(st.integers(2, 8), st.integers(0, 8), st.integers(2, 4))
def test_estimates_are_means_over_all_groups_of_the_samples(n, right, g):
    right = min(right, n)
    if g > n:
        assert np.isnan(degenerate_estimate([right], [n], g)[0])
        return
    groups = [sum(group) for group in combinations([1] * right + [0] * (n - right), g)]
    flat = np.mean([count in (0, g) for count in groups])
    variance = np.mean([count / g * (1 - count / g) for count in groups])
    assert degenerate_estimate([right], [n], g)[0] == pytest.approx(flat, abs=1e-9)
    assert variance_estimate([right], [n], g)[0] == pytest.approx(variance, abs=1e-12)


@pytest.mark.parametrize(("p", "n", "g"), [(0.3, 10, 4), (0.05, 16, 8)])
def test_estimates_are_unbiased(p, n, g):
    chances = np.array([comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)])
    counts, graded = np.arange(n + 1), np.full(n + 1, n)
    assert chances @ degenerate_estimate(counts, graded, g) == pytest.approx(float(degenerate_share(p, g)))
    assert chances @ variance_estimate(counts, graded, g) == pytest.approx(float(group_variance(p, g)))


def test_too_few_samples_have_no_estimate():
    assert np.isnan(variance_estimate([1, 0], [1, 0], 4)).all()
    assert np.isnan(degenerate_estimate([3], [7], 8)).all()
