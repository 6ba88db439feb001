"""pass@k and its relatives against published values and enumeration of all subsets."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import diagnostics as oracle

from entropy_lab.diagnostics.crossing import crossing
from entropy_lab.diagnostics.pass_at_k import (
    covered,
    default_ks,
    g_pass_at_k,
    mg_pass_at_k,
    pass_at_k,
    refuse_greedy,
    success_rate,
)
from entropy_lab.errors import InputError

COUNTS = st.integers(1, 10).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))


@pytest.mark.parametrize(
    ("n", "c", "k", "value"),
    [
        (10, 3, 2, 0.533333),
        (5, 2, 3, 0.9),
        (320, 1, 64, 0.2),
        (4, 0, 4, 0),
        (4, 1, 4, 1),
        (10, 3, 5, 0.916667),
    ],
)
def test_published_values(n, c, k, value):
    assert pass_at_k([c], [n], [k])[0, 0] == pytest.approx(value, abs=5e-7)


@given(COUNTS)
@settings(max_examples=60, deadline=None)
def test_equals_enumeration_of_subsets(counts):
    n, c, k = counts
    flags = [1] * c + [0] * (n - c)
    assert pass_at_k([c], [n], [k])[0, 0] == pytest.approx(oracle.subsets_at_k(flags, k), abs=1e-12)
    thresholds = (0.25, 0.5, 0.75, 1.0)
    expected = [oracle.subsets_at_k(flags, k, max(1, math.ceil(t * k))) for t in thresholds]
    assert g_pass_at_k([c], [n], k, thresholds)[0] == pytest.approx(expected, abs=1e-9)
    tail = sum(oracle.subsets_at_k(flags, k, i) for i in range(math.ceil(k / 2) + 1, k + 1))
    assert mg_pass_at_k([c], [n], k)[0] == pytest.approx(2 / k * tail, abs=1e-9)


@given(st.integers(1, 3000), st.data())
@settings(deadline=None)
def test_never_falls_as_k_grows(n, data):
    c = data.draw(st.integers(0, n))
    curve = pass_at_k([c], [n], range(1, min(n, 300) + 1))[0]
    assert (np.diff(curve) >= 0).all()
    assert (curve >= 0).all()
    assert (curve <= 1).all()
    assert curve[0] == pytest.approx(c / n)


def test_g_pass_published_values():
    values = g_pass_at_k([8], [16], 4, (0.25, 0.5, 0.75, 1))[0]
    assert values == pytest.approx([0.961538, 0.715385, 0.284615, 0.038462], abs=5e-7)
    assert mg_pass_at_k([8], [16], 4)[0] == pytest.approx(0.161538, abs=5e-7)


def test_g_pass_threshold_is_not_rounded_up_by_floating_point():
    """0.28 · 25 is 7.000000000000001 in floating point and must ask for 7, not 8."""
    assert g_pass_at_k([7], [25], 25, (0.28,))[0, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("function", [lambda c, n, k: pass_at_k(c, n, [k]), lambda c, n, k: mg_pass_at_k(c, n, k)])
def test_more_than_n_is_refused_with_the_reason(function):
    """S6: k > n is never capped."""
    with pytest.raises(InputError, match=r"pass@8 needs 8 .* problem 1 has 4: ask for k ≤ 4"):
        function([1, 1], [8, 4], 8)


def test_problems_cannot_stand_in_for_samples():
    """S6: 500 problems with one sample each have n = 1, not n = 500."""
    with pytest.raises(InputError, match="cannot stand in for samples"):
        pass_at_k(np.ones(500), np.ones(500), [8])


def test_greedy_samples_are_refused():
    """S6."""
    with pytest.raises(InputError, match="temperature 0"):
        refuse_greedy(0.0, np.array([4, 4]))
    refuse_greedy(0.0, np.array([1, 1]))
    refuse_greedy(1.0, np.array([4, 4]))
    refuse_greedy(None, np.array([4, 4]))


def test_different_n_can_be_left_out_explicitly():
    values = pass_at_k([2, 1, 0], [8, 4, 0], [1, 4, 8], short="nan")
    assert np.isnan(values).tolist() == [[False] * 3, [False, False, True], [True] * 3]
    assert np.isnan(g_pass_at_k([2, 1], [8, 4], 8, (0.5,), short="nan"))[:, 0].tolist() == [False, True]


@pytest.mark.parametrize(("correct", "samples"), [([5], [4]), ([-1], [4]), ([0.5], [4]), ([np.nan], [4])])
def test_counts_must_be_counts(correct, samples):
    with pytest.raises(InputError, match="Problem 0"):
        pass_at_k(correct, samples, [1])
    with pytest.raises(InputError, match="k ≥ 1"):
        pass_at_k([1], [4], [0])


def test_cover_counts_rates_at_the_threshold():
    assert covered([1, 2, 3, 0], [4, 4, 4, 0], 0.5)[:3].tolist() == [0, 1, 1]
    assert np.isnan(covered([0], [0], 0.5)[0])
    assert covered([3], [30], 0.1)[0] == 1
    assert success_rate([3, 0], [4, 0]) == pytest.approx([0.75, np.nan], nan_ok=True)


def test_default_ks_are_powers_of_two():
    assert default_ks(0) == ()
    assert default_ks(1) == (1,)
    assert default_ks(63) == (1, 2, 4, 8, 16, 32)
    assert default_ks(64) == (1, 2, 4, 8, 16, 32, 64)


def test_no_problems_and_no_ks():
    """G6."""
    assert pass_at_k([], [], [1, 2]).shape == (0, 2)
    assert pass_at_k([1], [2], []).shape == (1, 0)
    assert g_pass_at_k([], [], 4, (0.5,)).shape == (0, 1)


def test_crossing_of_a_sharp_and_a_broad_policy():
    """The sharp one solves half the problems always, the broad one solves all of them 1 time in 4."""
    n = 16
    sharp = np.array([n, 0] * 40)
    broad = np.full(80, n // 4)
    result = crossing(sharp, np.full(80, n), broad, np.full(80, n), seed=1)
    curve = [oracle_pass(n, n // 4, k) - 0.5 for k in range(1, n + 1)]
    k = next(i for i in range(n) if curve[i] > 0)
    assert result.k == pytest.approx(k + 1 - curve[k] / (curve[k] - curve[k - 1]))
    assert result.low <= result.k <= result.high
    assert result.first_leads is True
    assert (result.n, result.up_to) == (80, n)
    swapped = crossing(broad, np.full(80, n), sharp, np.full(80, n), seed=1)
    assert swapped.first_leads is False
    assert (swapped.k, swapped.low, swapped.high) == pytest.approx((result.k, result.low, result.high))


def oracle_pass(n, c, k):
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def test_curves_that_do_not_cross_say_none():
    n = np.full(30, 8)
    better = crossing(np.full(30, 6), n, np.full(30, 2), n)
    assert np.isnan(better.k)
    assert better.note.startswith("none up to n = 8")
    same = crossing(np.full(30, 2), n, np.full(30, 2), n)
    assert "none up to n = 8" in same.note
    assert same.first_leads is None
    nobody = crossing([], [], [], [])
    assert np.isnan(nobody.k)
    assert nobody.n == 0
    with pytest.raises(InputError, match="same problems"):
        crossing([1], [2], [1, 1], [2, 2])


def test_an_uncertain_crossing_has_an_open_end():
    """Resamples without a crossing lie beyond n and must not be dropped."""
    rng = np.random.default_rng(0)
    n = np.full(20, 4)
    result = crossing(rng.binomial(4, 0.5, 20), n, rng.binomial(4, 0.5, 20), n)
    assert 0 < result.resampled < 1
    if np.isfinite(result.k):
        assert not np.isfinite(result.high)
        assert "beyond n = 4" in result.note
