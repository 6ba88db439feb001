"""The ceiling law: exact on its own points, least squares elsewhere, honest about intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.ceiling_law import fit_ceiling


def test_published_figures():
    entropy = np.linspace(0.05, 1.0, 12)
    law = fit_ceiling(entropy, -24 * np.exp(entropy) + 62)
    assert (law.a.value, law.b.value, law.ceiling.value) == pytest.approx((24, 62, 38))
    assert law.r2 == pytest.approx(1)
    assert law.ceiling.low == pytest.approx(38)


@given(st.integers(0, 999))
def test_against_polyfit(seed):
    generator = np.random.default_rng(seed)
    entropy, reward = generator.random(20), generator.random(20)
    law = fit_ceiling(entropy, reward)
    slope, intercept = np.polyfit(-np.exp(entropy), reward, 1)
    assert (law.a.value, law.b.value) == pytest.approx((slope, intercept))
    assert law.ceiling.value == pytest.approx(intercept - slope)


@pytest.mark.parametrize(("rho", "least"), [(0.0, 0.92), (0.7, 0.85)])
def test_intervals_hold_the_truth(rho, least):
    """Also where noise follows on itself, as along a run."""
    generator = np.random.default_rng(5)
    entropy = np.linspace(0.8, 0.1, 120)
    held = 0
    for _ in range(400):
        noise = generator.normal(0, 0.5, 120)
        for place in range(1, 120):
            noise[place] += rho * noise[place - 1]
        law = fit_ceiling(entropy, -2 * np.exp(entropy) + 5 + noise)
        held += law.ceiling.low <= 3 <= law.ceiling.high
    assert held / 400 >= least


def test_what_cannot_be_fitted_says_why():
    assert "4 points" in fit_ceiling([1, 2, 3, 4], [1, 2, 3, 4])
    assert "2 points" in fit_ceiling([1, 2, math.nan], [1, 2, 3])
    assert "the same everywhere" in fit_ceiling([0.5] * 9, range(9))


def test_a_constant_reward_has_no_share_of_variance():
    law = fit_ceiling(np.linspace(0, 1, 9), [0.5] * 9)
    assert law.a.value == pytest.approx(0, abs=1e-12)
    assert math.isnan(law.r2)
