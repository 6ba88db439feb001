"""Paired differences against scipy's sign-flip test, and their edges."""

import numpy as np
import pytest
from scipy import stats

from entropy_lab.diagnostics.paired import paired_difference, paired_differences
from entropy_lab.errors import InputError


def test_small_samples_equal_scipys_exact_permutation_test():
    rng = np.random.default_rng(0)
    first, second = rng.normal(0.5, size=9), rng.normal(size=9)
    peer = stats.permutation_test(
        (first, second), lambda a, b, axis=-1: (a - b).mean(axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    result = paired_difference(first, second)
    assert result.p == pytest.approx(peer.pvalue)
    assert result.value == pytest.approx((first - second).mean())
    assert result.n == 9


def test_ties_of_a_discrete_metric_count_as_reached():
    """Differences 0.1, 0.1, −0.1 …: sums that differ by rounding are equal."""
    first = np.array([0.1, 0.2, 0.3, 0.4, 0.7, 0.9])
    second = first - np.array([0.1, 0.1, 0.1, -0.1, 0.1, 0.1])
    assert paired_difference(first, second).p == pytest.approx(14 / 64)


def test_larger_samples_are_near_scipys():
    rng = np.random.default_rng(1)
    first = rng.normal(0.25, size=60)
    peer = stats.permutation_test(
        (first, np.zeros(60)),
        lambda a, b, axis=-1: (a - b).mean(axis=axis),
        permutation_type="samples",
        n_resamples=9999,
        rng=np.random.default_rng(3),
    )
    assert paired_difference(first, np.zeros(60)).p == pytest.approx(peer.pvalue, abs=0.02)


def test_pairing_sees_what_unpaired_spread_hides():
    """G3: problems differ far more than the checkpoints do."""
    difficulty = np.linspace(0, 10, 40)
    result = paired_difference(difficulty + 0.1 + 0.02 * np.sin(np.arange(40)), difficulty)
    assert result.p < 0.001
    assert 0 < result.low < 0.1 < result.high < 0.12


def test_identical_sides_differ_by_nothing():
    """G3, G4: an A/A comparison gives p = 1 and an interval that is exactly 0."""
    values = np.random.default_rng(0).random(30)
    result = paired_difference(values, values)
    assert (result.value, result.low, result.high, result.p) == (0, 0, 0, 1)
    assert "equal" in result.note


def test_missing_on_either_side_leaves_the_problem_out():
    first = np.array([1.0, np.nan, 3.0, 4.0])
    second = np.array([0.0, 1.0, np.nan, 1.0])
    result = paired_difference(first, second)
    assert result.n == 2
    assert result.value == pytest.approx(2.0)
    assert result.p == pytest.approx(0.5)


def test_nothing_in_common_is_no_number():
    """G6."""
    result = paired_difference([np.nan, 1.0], [1.0, np.nan])
    assert result.n == 0
    assert np.isnan([result.value, result.low, result.high, result.p]).all()


def test_false_alarms_keep_their_level():
    """G3: 200 A/A comparisons at 5 %."""
    rng = np.random.default_rng(4)
    results = paired_differences(rng.gamma(1, size=(25, 200)), rng.gamma(1, size=(25, 200)), resamples=200)
    assert np.mean([result.p < 0.05 for result in results]) < 0.10


def test_other_shapes_are_refused():
    with pytest.raises(InputError, match="align"):
        paired_difference([1.0, 2.0], [1.0])
