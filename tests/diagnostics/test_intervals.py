"""Intervals against scipy's bootstrap and binomial intervals, and their edges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from entropy_lab.diagnostics import intervals as module
from entropy_lab.diagnostics.intervals import bootstrap_means, bootstrap_ratios, resample_weights, wilson


def test_wilson_of_no_success_in_64():
    low, high = wilson(0, 64)
    assert low == 0
    assert high == pytest.approx(0.057, abs=5e-4)


@given(st.integers(1, 500), st.data())
@settings(deadline=None)
def test_wilson_is_scipys_and_stays_within_0_and_1(n, data):
    successes = data.draw(st.integers(0, n))
    low, high = (float(end) for end in wilson(successes, n))
    assert 0 <= low <= successes / n <= high <= 1
    peer = stats.binomtest(successes, n).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((peer.low, peer.high), abs=1e-12)


def test_wilson_of_nothing_is_undefined():
    assert np.isnan(wilson(0, 0)).all()


def scipy_bca(samples, statistic, resamples, seed):
    result = stats.bootstrap(
        samples, statistic, n_resamples=resamples, paired=True, method="BCa", rng=np.random.default_rng(seed)
    )
    return result.confidence_interval


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_means_equal_scipys_bca_draw_for_draw(seed):
    """The same stream of resamples, so the bounds agree to rounding and not only in distribution."""
    table = np.random.default_rng(seed).gamma(0.7, size=(37, 3))
    result = bootstrap_means(table, resamples=999, seed=seed)
    for m in range(3):
        peer = scipy_bca((table[:, m],), lambda x, axis=-1: x.mean(axis=axis), 999, seed)
        assert (result.low[m], result.high[m]) == pytest.approx((peer.low, peer.high), abs=1e-12)
    assert result.value == pytest.approx(table.mean(axis=0))
    assert result.n.tolist() == [37] * 3
    assert result.notes == ("",) * 3


def test_ties_with_the_estimate_count_half_as_in_scipy():
    """Eighths over 16 problems: every resampled mean is exact, so many equal the estimate."""
    values = np.random.default_rng(0).integers(0, 3, 16) / 8
    result = bootstrap_means(values, resamples=999, seed=4)
    peer = scipy_bca((values,), lambda x, axis=-1: x.mean(axis=axis), 999, 4)
    assert (result.low[0], result.high[0]) == pytest.approx((peer.low, peer.high), abs=1e-12)


def test_ratios_equal_scipys_bca_draw_for_draw():
    rng = np.random.default_rng(5)
    entropy, tokens = rng.gamma(2, size=30), rng.integers(1, 20, 30).astype(float)
    result = bootstrap_ratios(entropy, tokens, resamples=999, seed=9)
    peer = scipy_bca((entropy, tokens), lambda a, b, axis=-1: a.sum(axis=axis) / b.sum(axis=axis), 999, 9)
    assert result.value[0] == pytest.approx(entropy.sum() / tokens.sum())
    assert (result.low[0], result.high[0]) == pytest.approx((peer.low, peer.high), abs=1e-12)


def test_ratio_is_not_moved_by_problems_without_tokens():
    rng = np.random.default_rng(5)
    entropy, tokens = rng.gamma(2, size=30), rng.integers(1, 20, 30).astype(float)
    entropy[:4] = tokens[:4] = 0
    result = bootstrap_ratios(entropy, tokens)
    assert result.n[0] == 26
    assert result.value[0] == pytest.approx(entropy.sum() / tokens.sum())


def test_missing_values_leave_their_own_column_only():
    table = np.random.default_rng(1).normal(size=(60, 2))
    table[::3, 1] = np.nan
    both, alone = bootstrap_means(table), bootstrap_means(table[:, 0])
    assert both.low[0] == pytest.approx(alone.low[0], abs=1e-14)
    kept = table[~np.isnan(table[:, 1]), 1]
    assert both.value[1] == pytest.approx(kept.mean())
    assert both.n.tolist() == [60, 40]
    peer = bootstrap_means(kept)
    width = peer.high[0] - peer.low[0]
    assert (both.low[1], both.high[1]) == pytest.approx((peer.low[0], peer.high[0]), abs=0.15 * width)


def test_blocks_of_memory_change_nothing(monkeypatch):
    table = np.random.default_rng(2).normal(size=(23, 5))
    whole = bootstrap_means(table, resamples=500)
    monkeypatch.setattr(module, "_CELLS", 1000)
    parts = bootstrap_means(table, resamples=500)
    assert parts.low == pytest.approx(whole.low, abs=1e-14)
    assert parts.high == pytest.approx(whole.high, abs=1e-14)


def test_weights_are_multinomial():
    weights = np.concatenate(list(resample_weights(7, 4000, seed=0)))
    assert weights.shape == (4000, 7)
    assert (weights.sum(axis=1) == 7).all()
    assert weights.mean(axis=0) == pytest.approx(np.ones(7), abs=0.06)
    assert weights.var(axis=0) == pytest.approx(np.full(7, 6 / 7), abs=0.08)


@pytest.mark.parametrize("value", [0.0, 0.1, 0.3, 1.0, 1e9])
def test_constant_data_fall_back_and_say_so(value):
    """G4: 0.3 summed seven times is not 7 · 0.3, which must not look like spread."""
    result = bootstrap_means(np.full(7, value))
    assert (result.low[0], result.high[0]) == (result.value[0], result.value[0])
    assert "percentile" in result.notes[0]
    assert "equal" in result.notes[0]


@pytest.mark.parametrize(("rows", "n", "word"), [([np.nan, np.nan], 0, "no problem"), ([np.nan, 2.0], 1, "one")])
def test_too_few_values_have_no_interval(rows, n, word):
    """G6."""
    result = bootstrap_means(np.array(rows))
    assert result.n[0] == n
    assert np.isnan([result.low[0], result.high[0]]).all()
    assert word in result.notes[0]


def test_empty_tables():
    """G6."""
    assert len(bootstrap_means(np.zeros((5, 0))).value) == 0
    nobody = bootstrap_means(np.zeros((0, 2)))
    assert np.isnan(nobody.value).all()
    assert nobody.n.tolist() == [0, 0]


def test_interval_covers_the_mean_about_as_often_as_it_says():
    rng = np.random.default_rng(0)
    table = rng.exponential(size=(40, 400))
    result = bootstrap_means(table, resamples=1000)
    covered = np.mean((result.low <= 1) & (result.high >= 1))
    assert 0.89 <= covered <= 0.98
