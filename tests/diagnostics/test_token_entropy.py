"""Token-entropy aggregates against loops, and invariance to how a run is cut into batches."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import diagnostics as oracle

from entropy_lab.diagnostics import token_entropy, trajectories
from entropy_lab.diagnostics.entropy_curves import entropy_by_decile, entropy_by_position
from entropy_lab.diagnostics.entropy_distribution import entropy_distribution
from entropy_lab.errors import InputError
from entropy_lab.ragged import Ragged

ENTROPY = st.floats(0, 5, width=32)
ROWS = st.lists(st.tuples(st.integers(0, 3), st.lists(ENTROPY, max_size=40)), min_size=1, max_size=12).filter(
    lambda rows: any(row for _, row in rows)
)

MEASURES = {
    "trajectory": (token_entropy.trajectory_entropy, oracle.mean),
    "early": (token_entropy.early_entropy, lambda row: oracle.head(row, first=8)),
    "early tenth": (token_entropy.early_share_entropy, lambda row: oracle.head(row, share=0.1)),
    "lowest tenth": (token_entropy.lowest_share_entropy, lambda row: oracle.lowest(row, 0.1)),
    "share above": (lambda r: token_entropy.share_above(r, 1.0), lambda row: sum(h > 1 for h in row) / len(row)),
}


def split(rows):
    return np.array([problem for problem, _ in rows]), Ragged.of([row for _, row in rows], np.float32)


def measured(name, rows):
    problem_N, entropies = split(rows)
    return trajectories.problem_means(MEASURES[name][0](entropies), problem_N, 4)


@pytest.mark.parametrize("name", MEASURES)
@given(rows=ROWS)
@settings(max_examples=40, deadline=None)
def test_problem_means_equal_loops(name, rows):
    problem_N, entropies = split(rows)
    expected = oracle.problem_mean(entropies, problem_N, MEASURES[name][1])
    assert np.nanmean(measured(name, rows)) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("name", MEASURES)
@given(rows=ROWS, random=st.randoms())
@settings(max_examples=25, deadline=None)
def test_order_of_trajectories_changes_nothing(name, rows, random):
    """L6."""
    shuffled = random.sample(rows, len(rows))
    assert measured(name, shuffled) == pytest.approx(measured(name, rows), abs=1e-12, nan_ok=True)


@given(rows=ROWS, cut=st.integers(0, 12))
@settings(max_examples=40, deadline=None)
def test_batches_of_trajectories_measure_the_same(rows, cut):
    """L6: a trajectory's numbers do not depend on what it is batched with."""
    for function, _ in MEASURES.values():
        whole = function(split(rows)[1])
        parts = [function(split(part)[1]) for part in (rows[:cut], rows[cut:])]
        assert np.concatenate(parts) == pytest.approx(whole, abs=1e-12, nan_ok=True)


def test_token_mean_weighs_tokens_and_problem_mean_weighs_problems():
    entropies = Ragged.of([[1.0] * 9, [2.0], [4.0] * 10])
    problem_N = np.array([0, 0, 1])
    mean = token_entropy.token_mean(entropies, problem_N, 2)
    assert mean.value[0] == pytest.approx((9 + 2 + 40) / 20)
    assert mean.n[0] == 2
    per_problem = trajectories.problem_means(token_entropy.trajectory_entropy(entropies), problem_N, 2)
    assert per_problem == pytest.approx([1.5, 4.0])


def test_tokens_the_policy_did_not_write_never_count():
    """L3."""
    entropies = Ragged.of([[1.0, 9.0, 9.0, 3.0], [9.0], [5.0]])
    kept = trajectories.policy_tokens(entropies, np.array([1, 0, 0, 1, 0, 1], bool))
    assert [row.tolist() for row in kept] == [[1.0, 3.0], [], [5.0]]
    assert np.isnan(token_entropy.trajectory_entropy(kept)[1])
    with pytest.raises(InputError, match="6"):
        trajectories.policy_tokens(entropies, np.ones(5, bool))


@pytest.mark.parametrize(("value", "row", "position"), [(np.nan, 1, 0), (np.inf, 1, 0), (-0.5, 1, 0)])
def test_impossible_entropies_name_their_place(value, row, position):
    """L1."""
    entropies = Ragged.of([[1.0, 2.0], [], [value, 1.0]])
    with pytest.raises(InputError, match=r"trajectory 2 at position 0"):
        trajectories.checked(entropies, "The entropy", np.zeros(3))


@given(rows=ROWS)
@settings(max_examples=40, deadline=None)
def test_rows_are_sorted_each_on_its_own(rows):
    entropies = split(rows)[1]
    assert [row.tolist() for row in trajectories.sorted_rows(entropies)] == [sorted(row.tolist()) for row in entropies]


def test_rows_are_sorted_in_blocks_too(monkeypatch):
    monkeypatch.setattr(trajectories, "_CELLS", 8)
    rows = [np.random.default_rng(n).random(n % 7) for n in range(30)]
    assert [row.tolist() for row in trajectories.sorted_rows(Ragged.of(rows))] == [sorted(row) for row in rows]


def test_share_of_a_length_is_not_rounded_up_by_floating_point():
    """0.07 · 100 is 7.000000000000001 in floating point."""
    assert trajectories.share_counts(Ragged.of([[0.0] * 100]), 0.07).tolist() == [7]
    assert trajectories.share_counts(Ragged.of([[0.0] * n for n in (1, 10, 11, 30, 70)]), 0.1).tolist() == [
        1,
        1,
        2,
        3,
        7,
    ]


def test_effective_branching_of_uniform_choices():
    assert token_entropy.effective_branching(np.log([1, 2, 7.0])) == pytest.approx([1, 2, 7])


def test_cumulative_entropy_is_the_area_under_the_curve():
    assert token_entropy.cumulative_entropy([0, 10, 30], [1.0, 0.5, 0.5]).tolist() == [0, 7.5, 17.5]
    assert token_entropy.cumulative_entropy([], []).size == 0


@pytest.mark.parametrize(
    ("steps", "values", "word"), [([0, 2, 2], [1, 1, 1], "position 2"), ([0, 1], [1, np.nan], "step 1"), ([0], [], "1")]
)
def test_cumulative_entropy_refuses_broken_logs(steps, values, word):
    with pytest.raises(InputError, match=word):
        token_entropy.cumulative_entropy(steps, values)


def test_positions_are_trimmed_where_few_trajectories_remain():
    rows = [[1.0, 2.0, 3.0]] * 5 + [[3.0, 4.0]] * 4 + [[9.0] * 50]
    band = entropy_by_position(Ragged.of(rows), np.array([0] * 5 + [1] * 5), 2, min_trajectories=5)
    assert band.x.tolist() == [0, 1, 2]
    assert band.value == pytest.approx([np.mean([1, (12 + 9) / 5]), np.mean([2, (16 + 9) / 5]), np.mean([3, 9])])
    assert band.n.tolist() == [2, 2, 2]
    assert (band.low <= band.value).all()
    assert (band.value <= band.high).all()


def test_long_responses_are_pooled_into_a_bounded_number_of_points():
    ramp = np.arange(1200) / 100
    band = entropy_by_position(Ragged.of([ramp, ramp]), np.array([0, 1]), 2, min_trajectories=2)
    assert len(band.x) == 400
    assert band.x[:2].tolist() == [1, 4]
    assert band.value == pytest.approx(band.x / 100)


def test_deciles_average_trajectories_before_problems():
    rows = [list(range(20)), [5.0] * 10, [7.0]]
    band = entropy_by_decile(Ragged.of(rows, np.float32), np.array([0, 0, 1]), 2)
    assert band.x.tolist() == list(range(1, 11))
    assert band.value[0] == pytest.approx(((0.5 + 5) / 2 + 7) / 2)
    assert band.value[9] == pytest.approx((18.5 + 5) / 2)
    assert band.n.tolist() == [2] + [1] * 9


@given(rows=ROWS)
@settings(max_examples=40, deadline=None)
def test_distribution_is_numpys(rows):
    problem_N, entropies = split(rows)
    result = entropy_distribution(entropies, problem_N, 4)
    values = entropies.values.astype(np.float64)
    assert result.quantile == pytest.approx(np.quantile(values, result.levels), abs=1e-6)
    assert result.counts.sum() == len(values)
    assert (np.diff(result.edges) > 0).all()
    assert result.edges[-1] >= values.max() - 1e-6
    if result.n > 1:
        assert (result.low <= result.quantile + 1e-9).all()
        assert (result.quantile <= result.high + 1e-9).all()
    np.testing.assert_array_equal(result.counts, np.histogram(entropies.values, result.edges.astype(np.float32))[0])


def test_quantile_interval_is_near_the_one_from_resampling_whole_problems():
    rng = np.random.default_rng(0)
    rows = [rng.gamma(rng.uniform(0.3, 2), size=50) for _ in range(80)]
    result = entropy_distribution(Ragged.of(rows), np.arange(80), 80, levels=(0.5, 0.9))
    resampled = [
        np.quantile(np.concatenate([rows[p] for p in rng.integers(0, 80, 80)]), (0.5, 0.9)) for _ in range(1000)
    ]
    low, high = np.quantile(resampled, (0.025, 0.975), axis=0)
    assert (np.abs(result.low - low) < 0.25 * (high - low)).all()
    assert (np.abs(result.high - high) < 0.25 * (high - low)).all()


def test_empty_selection_is_an_explicit_empty_result():
    """G6."""
    nothing, nobody = Ragged.of([]), np.zeros(0, np.int64)
    for entropies, problem_N, problems in ((nothing, nobody, 0), (Ragged.of([[], []]), np.array([0, 1]), 2)):
        assert len(entropy_by_position(entropies, problem_N, problems).x) == 0
        assert len(entropy_by_decile(entropies, problem_N, problems).x) == 0
        distribution = entropy_distribution(entropies, problem_N, problems)
        assert np.isnan(distribution.quantile).all()
        assert distribution.n == len(distribution.counts) == 0
        for function, _ in MEASURES.values():
            assert np.isnan(function(entropies)).all()
        assert np.isnan(token_entropy.token_mean(entropies, problem_N, problems).value[0])
