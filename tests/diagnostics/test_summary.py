"""The whole summary of a run, its rows, and the comparison of two."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.comparison import compare
from entropy_lab.diagnostics.summary import summarise
from entropy_lab.diagnostics.tabulate import mean_metrics, metric
from entropy_lab.errors import InputError
from entropy_lab.ragged import Ragged


def run(problems=6, samples=8, seed=0, shift=0.0):
    """A small seeded run as keyword arguments of `summarise`."""
    rng = np.random.default_rng(seed)
    size = problems * samples
    rows = [(rng.gamma(0.5, size=rng.integers(1, 40)) + shift).astype(np.float32) for _ in range(size)]
    correct = (rng.random(size) < np.repeat(rng.random(problems), samples)).astype(float)
    return {
        "problem_index_N": np.repeat([f"problem {p:02d}" for p in range(problems)], samples),
        "entropies": Ragged.of(rows),
        "varentropies": Ragged.of(rows),
        "correct_N": correct,
        "answers": ["right" if c else f"wrong {rng.integers(3)}" for c in correct],
        "texts": [f"so {rng.integers(9)} and wait {n % 5}" for n in range(size)],
        "finish_reasons": ["length" if n % 10 == 0 else "stop" for n in range(size)],
        "unused_mass_N": rng.random(size) * 1e-4,
    }


def reordered(inputs, order):
    """The same trajectories in another order."""
    result = {}
    for name, values in inputs.items():
        if isinstance(values, Ragged):
            result[name] = Ragged.of([values[row] for row in order], np.float32)
        elif isinstance(values, np.ndarray):
            result[name] = values[order]
        else:
            result[name] = [values[row] for row in order]
    return result


def rows_of(summary_or_metrics):
    return {row.metric: row for row in getattr(summary_or_metrics, "metrics", summary_or_metrics)}


def test_every_promised_metric_has_value_interval_and_n():
    summary = summarise("checkpoint", **run())
    rows = rows_of(summary)
    assert len(rows) == len(summary.metrics)
    expected = {
        *("entropy.problem_mean", "entropy.token_mean", "entropy.median", "entropy.q10", "entropy.q90"),
        *("entropy.branching", "entropy.early", "entropy.early_tenth", "entropy.worst_tenth", "entropy.share_above"),
        *("varentropy.problem_mean", "response.length", "sampling.truncation_rate", "grading.failure_rate"),
        *("unused_mass", "avg@n", "pass@1", "pass@2", "pass@4", "pass@8", "gpass@4_0.5", "mgpass@4", "cover@0.5"),
        *("maj@4", "maj@8", "answers.distinct", "answers.entropy", "answers.entropy_miller_madow"),
        *("answers.entropy_normalised", "answers.self_consistency", "text.distinct_2"),
        *("reflection.rate", "reflection.share"),
    }
    assert expected <= set(rows)
    for row in summary.metrics:
        assert row.checkpoint == "checkpoint"
        assert row.n == 6
        assert row.low - 1e-9 <= row.value <= row.high + 1e-9
    json.dumps([vars(row) for row in summary.metrics], allow_nan=False)


def test_values_are_those_of_the_definitions():
    inputs = run()
    rows = rows_of(summarise("checkpoint", **inputs))
    tokens = inputs["entropies"]
    assert rows["entropy.token_mean"].value == pytest.approx(tokens.values.mean(), rel=1e-6)
    means = np.array([row.mean() for row in tokens])
    assert rows["entropy.problem_mean"].value == pytest.approx(means.reshape(6, 8).mean(), rel=1e-6)
    assert rows["entropy.branching"].value == pytest.approx(math.exp(rows["entropy.problem_mean"].value))
    assert rows["entropy.branching"].high == pytest.approx(math.exp(rows["entropy.problem_mean"].high))
    assert rows["response.length"].value == pytest.approx(tokens.lengths.mean())
    assert rows["pass@1"].value == pytest.approx(inputs["correct_N"].mean())
    assert rows["avg@n"].value == pytest.approx(rows["pass@1"].value)
    assert rows["pass@8"].value == pytest.approx(inputs["correct_N"].reshape(6, 8).any(axis=1).mean())
    assert rows["sampling.truncation_rate"].value == pytest.approx(5 / 48)
    assert rows["reflection.share"].value == 1


def test_truncation_stands_beside_every_accuracy():
    """S4."""
    summary = summarise("checkpoint", **run())
    accuracies = [row for row in summary.metrics if "@" in row.metric]
    assert len(accuracies) > 10
    assert all("10.4% truncated" in row.note for row in accuracies)
    inputs = run() | {"finish_reasons": None}
    assert "truncation unknown" in rows_of(summarise("checkpoint", **inputs))["pass@1"].note
    differences = compare(summary, summarise("other", **(run() | {"finish_reasons": ["stop"] * 48})))
    assert "10.4% truncated against 0.0% truncated" in rows_of(differences)["difference.pass@1"].note


@given(st.randoms(use_true_random=False))
@settings(max_examples=5, deadline=None)
def test_order_of_trajectories_changes_no_metric(random):
    """L6: sampling order and batches are not part of the result, intervals and seeded draws included."""
    inputs = run()
    order = random.sample(range(48), 48)
    straight, shuffled = summarise("c", **inputs), summarise("c", **reordered(inputs, order))
    for one, other in zip(straight.metrics, shuffled.metrics, strict=True):
        assert one.metric == other.metric
        assert one.note == other.note
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high), abs=1e-9)
    assert straight.entropy_by_position.value == pytest.approx(shuffled.entropy_by_position.value)
    assert straight.entropy_by_decile.low == pytest.approx(shuffled.entropy_by_decile.low)
    np.testing.assert_array_equal(straight.entropy_distribution.counts, shuffled.entropy_distribution.counts)


def test_grader_failures_leave_n_and_are_counted_apart():
    """T6: a failed grade is not a wrong answer."""
    inputs = run()
    inputs["correct_N"] = inputs["correct_N"].copy()
    inputs["correct_N"][:2] = np.nan
    summary = summarise("checkpoint", **inputs)
    rows = rows_of(summary)
    assert summary.graded_P.tolist() == [6] + [8] * 5
    assert rows["grading.failure_rate"].value == pytest.approx(2 / 48)
    assert rows["pass@8"].n == 5
    assert "1 of 6 problems left out: fewer than 8 graded samples" in rows["pass@8"].note
    assert rows["pass@1"].n == 6
    assert np.isnan(summary.per_problem["maj@8"][0])
    kept = inputs["correct_N"][2:8].mean()
    assert summary.per_problem["pass@1"][0] == pytest.approx(kept)


def test_a_failed_grade_casts_no_vote():
    """T6: three ungraded answers do not outvote the graded ones."""
    summary = summarise(
        "c",
        np.zeros(6, int),
        None,
        correct_N=np.array([1, 1, 0, np.nan, np.nan, np.nan]),
        answers=["7", "7", "8", "9", "9", "9"],
        ks=(3,),
    )
    assert summary.per_problem["maj@3"].tolist() == [1.0]


def test_asked_k_above_n_is_refused_and_default_ks_are_not():
    """S6."""
    inputs = run()
    with pytest.raises(InputError, match=r"pass@16 .* more than 8"):
        summarise("checkpoint", ks=(1, 16), **inputs)
    assert summarise("checkpoint", ks=(3, 1), **inputs).pass_at_k.x.tolist() == [1, 3]
    with pytest.raises(InputError, match="temperature 0"):
        summarise("checkpoint", temperature=0.0, **inputs)


def test_pass_curve_repeats_the_rows():
    summary = summarise("checkpoint", **run())
    rows = rows_of(summary)
    assert summary.pass_at_k.x.tolist() == [1, 2, 4, 8]
    assert summary.pass_at_k.value.tolist() == [rows[f"pass@{k}"].value for k in (1, 2, 4, 8)]
    assert summary.pass_at_k.high.tolist() == [rows[f"pass@{k}"].high for k in (1, 2, 4, 8)]


def test_no_trajectories_give_rows_without_numbers():
    """G6, G2."""
    inputs = reordered(run(), np.zeros(0, np.int64))
    summary = summarise("checkpoint", **inputs)
    rows = rows_of(summary)
    assert {"entropy.problem_mean", "entropy.token_mean", "entropy.median", "avg@n"} <= set(rows)
    for row in summary.metrics:
        assert (row.value, row.low, row.high, row.n) == (None, None, None, 0)
        assert row.note
    assert compare(summary, summary) is not None


def test_trajectories_without_tokens_are_a_missing_value():
    """T3, G6: entropy is unknown where nothing was written, not 0."""
    rows = rows_of(summarise("c", np.array([0, 1]), Ragged.of([[], [1.0, 2.0]])))
    assert rows["entropy.problem_mean"].value == pytest.approx(1.5)
    assert rows["entropy.problem_mean"].n == 1
    assert "1 of 2 problems left out: no tokens" in rows["entropy.problem_mean"].note
    assert rows["entropy.problem_mean"].low is None


def test_policy_mask_drops_observations():
    entropies = Ragged.of([[1.0, 9.0, 3.0], [2.0, 2.0, 9.0]])
    mask = np.array([1, 0, 1, 1, 1, 0], bool)
    rows = rows_of(summarise("c", np.array([0, 1]), entropies, policy_mask=mask))
    assert rows["entropy.token_mean"].value == pytest.approx(2.0)
    assert rows["response.length"].value == 2


def test_what_is_not_given_is_not_measured():
    inputs = run()
    summary = summarise("c", inputs["problem_index_N"], None, correct_N=inputs["correct_N"])
    names = {row.metric for row in summary.metrics}
    assert "pass@1" in names
    assert not any(name.startswith(("entropy", "answers", "text", "maj", "response")) for name in names)
    assert len(summary.entropy_by_position.x) == 0


def test_wrong_lengths_and_grades_are_refused():
    inputs = run()
    with pytest.raises(InputError, match="answers has 1 entries for 48"):
        summarise("c", **(inputs | {"answers": ["7"]}))
    with pytest.raises(InputError, match="3 rows"):
        summarise("c", **(inputs | {"entropies": Ragged.of([[1.0]] * 3)}))
    with pytest.raises(InputError, match=r"graded 0\.5"):
        summarise("c", **(inputs | {"correct_N": np.full(48, 0.5)}))


def test_texts_may_be_left_out_one_by_one():
    inputs = run()
    inputs["texts"] = [text if n % 8 < 4 else None for n, text in enumerate(inputs["texts"])]
    assert "4 samples a problem" in rows_of(summarise("c", **inputs))["text.distinct_2"].note


def test_share_that_is_0_or_1_everywhere_gets_wilson():
    """G3: agreement of all problems is no proof of certainty."""
    (row,) = mean_metrics([Column("pass@1", "share", np.zeros(64))], "c")
    assert (row.value, row.low) == (0, 0)
    assert row.high == pytest.approx(0.057, abs=5e-4)
    assert "Wilson" in row.note
    (flat,) = mean_metrics([Column("entropy", "nats", np.ones(64))], "c")
    assert (flat.low, flat.high) == (1, 1)
    assert "percentile" in flat.note


def test_undefined_rows_must_say_why():
    """G2."""
    row = metric("x", math.nan, math.nan, math.inf, "nats", 0, note="nothing to measure")
    assert (row.value, row.low, row.high) == (None, None, None)
    with pytest.raises(ValueError, match="note"):
        metric("x", math.nan, math.nan, math.nan, "nats", 0)


def test_comparison_is_paired_over_shared_problems():
    first, second = summarise("a", **run(problems=8, shift=0.5)), summarise("b", **run(problems=6))
    rows = rows_of(compare(first, second))
    row = rows["difference.entropy.problem_mean"]
    shared = first.per_problem["entropy.problem_mean"][:6] - second.per_problem["entropy.problem_mean"]
    assert row.value == pytest.approx(shared.mean())
    assert row.n == 6
    assert row.checkpoint == "a - b"
    assert "p = 0.031" in row.note
    assert "crossing.pass@k" in rows
    assert not any(name.startswith("difference.entropy.token_mean") for name in rows)


def test_comparison_aligns_problems_by_label():
    inputs = run()
    part = reordered(inputs, np.arange(16, 48))
    rows = rows_of(compare(summarise("a", **inputs), summarise("b", **part)))
    assert rows["difference.entropy.problem_mean"].n == 4
    assert rows["difference.entropy.problem_mean"].value == pytest.approx(0, abs=1e-12)
    assert rows["difference.pass@1"].value == 0


def test_a_checkpoint_does_not_differ_from_itself():
    """G3: an A/A comparison is exactly nothing."""
    summary = summarise("a", **run())
    for row in compare(summary, summary):
        if row.metric.startswith("difference"):
            assert (row.value, row.low, row.high) == (0, 0, 0)
            assert "p = 1 " in row.note
        else:
            assert row.value is None
            assert "none up to n = 8" in row.note


def test_comparison_without_shared_problems_has_no_numbers():
    """G6, G2."""
    first = summarise("a", **run())
    second = summarise("b", **(run() | {"problem_index_N": np.repeat([f"other {p}" for p in range(6)], 8)}))
    for row in compare(first, second):
        assert (row.value, row.n) == (None, 0)
        assert row.note


def test_comparison_states_different_numbers_of_samples():
    first, second = summarise("a", **run(samples=8)), summarise("b", **run(samples=4))
    note = rows_of(compare(first, second))["difference.answers.distinct"].note
    assert "8 samples a problem against 4 samples a problem" in note


def test_numeric_core_needs_no_torch():
    import subprocess
    import sys

    code = (
        "import sys, entropy_lab.diagnostics.comparison, entropy_lab.diagnostics.decision_points\n"
        "assert not {'torch', 'transformers', 'pandas', 'matplotlib'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
