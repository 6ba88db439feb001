"""Answer and text diversity, and majority votes against enumeration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import diagnostics as oracle

from entropy_lab.diagnostics import answers, diversity
from entropy_lab.diagnostics import majority as majority_module
from entropy_lab.diagnostics.majority import majority_at_k
from entropy_lab.errors import InputError


def test_miller_madow_published_value():
    plain, corrected = answers.plug_in_entropy([8, 4, 4])
    assert plain == pytest.approx(1.03972, abs=5e-6)
    assert corrected == pytest.approx(1.10222, abs=5e-6)


def test_labels_without_counts_have_no_entropy():
    """G6."""
    assert np.isnan(answers.plug_in_entropy([])).all()
    assert np.isnan(answers.plug_in_entropy([0, 0])).all()
    assert answers.plug_in_entropy([5]) == (0, 0)


def test_answers_are_counted_within_their_problem():
    problem_N = np.array([0, 1, 0, 1, 0, 0, 2, 2])
    given_answers = ["7", "7", "8", "7", "7", None, None, None]
    counts = answers.count_answers(problem_N, given_answers, 4)
    assert answers.distinct_answers(counts).tolist() == [2, 1, 0, 0]
    entropy = -(2 / 3 * np.log(2 / 3) + 1 / 3 * np.log(1 / 3))
    nan = np.nan
    assert answers.answer_entropy(counts) == pytest.approx([entropy, 0, nan, nan], nan_ok=True)
    assert answers.miller_madow(counts) == pytest.approx([entropy + 1 / 6, 0, nan, nan], nan_ok=True)
    assert answers.normalised_answer_entropy(counts) == pytest.approx([entropy / np.log(3), 0, nan, nan], nan_ok=True)
    assert answers.self_consistency(counts) == pytest.approx([0.5, 1, 0, nan], nan_ok=True)
    assert counts.class_N[[5, 6, 7]].tolist() == [-1, -1, -1]


def test_normalised_entropy_reaches_one_when_all_answers_differ():
    counts = answers.count_answers(np.zeros(5, int), list("abcde"), 1)
    assert answers.normalised_answer_entropy(counts)[0] == pytest.approx(1)


VOTES = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=7)


def votes(sample_answers, problem_N=None, problems=1, **settings_of):
    problem_N = np.zeros(len(sample_answers), int) if problem_N is None else problem_N
    counts = answers.count_answers(problem_N, sample_answers, problems)
    right = {counts.class_N[i] for i, a in enumerate(sample_answers) if a == "a"}
    credit = np.array([c in right for c in range(len(counts.count_C))], float)
    return majority_at_k(counts, credit, **settings_of)


@given(VOTES)
@settings(max_examples=25, deadline=None)
def test_majority_is_near_enumeration_and_exact_at_n(sample_answers):
    n = len(sample_answers)
    correct = [float(answer == "a") for answer in sample_answers]
    values = votes(sample_answers, ks=range(1, n + 1), draws=4000)[0]
    for k in range(1, n + 1):
        expected = oracle.majority_by_subsets(sample_answers, correct, k)
        assert values[k - 1] == pytest.approx(expected, abs=1e-12 if k == n else 0.04)


def test_majority_depends_on_counts_not_on_the_order_of_samples():
    """L6."""
    rng = np.random.default_rng(0)
    sample_answers = np.array(["a", "b", "c", "d"])[rng.integers(0, 4, 60)]
    problem_N = np.repeat([0, 1, 2], 20)
    order = rng.permutation(60)
    straight = votes(sample_answers.tolist(), problem_N, 3, ks=[3, 8])
    shuffled = votes(sample_answers[order].tolist(), problem_N[order], 3, ks=[3, 8])
    np.testing.assert_array_equal(straight, shuffled)


def test_majority_with_different_n_and_in_blocks(monkeypatch):
    sample_answers = ["a", "a", "b", "a", "b", "b", "b", None]
    problem_N = np.array([0, 0, 0, 1, 1, 1, 1, 1])
    whole = votes(sample_answers, problem_N, 3, ks=[5, 3])
    assert whole[0].tolist() == [pytest.approx(np.nan, nan_ok=True), 1.0]
    assert whole[1, 0] == 0
    assert np.isnan(whole[2]).all()
    monkeypatch.setattr(majority_module, "_CELLS", 1)
    parts = votes(sample_answers, problem_N, 3, ks=[5, 3])
    assert parts[:, 0] == pytest.approx(whole[:, 0], nan_ok=True)


def test_no_votes_are_wrong():
    assert votes([None, None, None], ks=[3])[0, 0] == 0
    assert votes([], np.zeros(0, int), 0, ks=[3]).shape == (0, 1)


def test_distinct_n_published_value():
    assert diversity.distinct_n(["a b a b c"], 2) == pytest.approx(0.75)


def test_distinct_n_pools_texts_but_spans_none():
    assert diversity.distinct_n(["a b", "b c", "a b"], 2) == pytest.approx(2 / 3)
    assert diversity.distinct_n(["a a"], 1) == pytest.approx(0.5)
    assert np.isnan(diversity.distinct_n(["word", ""], 2))
    by_problem = diversity.distinct_n_by_problem(["a b", "x y", "a b"], np.array([1, 0, 1]), 3)
    assert by_problem == pytest.approx([1, 0.5, np.nan], nan_ok=True)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Wait, this is wrong. WAIT", 2),
        ("await the waiter", 0),
        ("let me\n check; Let\u2019s verify", 2),
        ("However hmm", 2),
        ("hmmm", 0),
        ("let me double-check", 1),
        ("", 0),
    ],
)
def test_markers_are_whole_words_in_any_case(text, count):
    assert diversity.marker_counts([text]).tolist() == [count]


def test_markers_are_configurable_text_not_patterns():
    assert diversity.marker_counts(["a.b axb A.B"], ["a.b"]).tolist() == [2]
    for bad in ([], [" "]):
        with pytest.raises(InputError, match="markers"):
            diversity.marker_counts(["x"], bad)


def test_reflection_rate_is_per_thousand_words():
    texts = ["wait one two three", "one", ""]
    rate = diversity.reflection_rate(diversity.marker_counts(texts), texts, np.array([0, 0, 1]), 2)
    assert rate == pytest.approx([200, np.nan], nan_ok=True)
