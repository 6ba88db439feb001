import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.first_calculation import first_calculation_columns
from entropy_lab.diagnostics.summary import summarise
from entropy_lab.errors import InputError

ENTROPY = "entropy.first_calculation"
SAMPLES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from([None, "1+2", "2*3", "7-4"]), st.sampled_from([0.0, 1.0, math.nan])),
    min_size=1,
    max_size=40,
)


def columns(labels, problem_N, problems, correct_N=None):
    problem_N = np.array(problem_N)
    correct_N = None if correct_N is None else np.array(correct_N, float)
    return {one.name: one for one in first_calculation_columns(labels, problem_N, problems, correct_N)}


def plain_entropy(labels):
    counts = Counter(labels)
    n = counts.total()
    return -sum(c / n * math.log(c / n) for c in counts.values()) if n else math.nan


def test_the_value_of_the_definitions():
    """Counts 8, 4, 4: 1.03972 plug-in, 1.10222 with Miller–Madow; samples without a calculation change neither."""
    labels = ["48/2"] * 8 + ["48+2"] * 4 + ["2*24"] * 4 + [None] * 4
    found = columns(labels, [0] * 20, 1)
    assert found[ENTROPY].values_P[0] == pytest.approx(1.03972, abs=1e-5)
    assert found[f"{ENTROPY}_mm"].values_P[0] == pytest.approx(1.10222, abs=1e-5)
    assert found["first_calculation.none_rate"].values_P[0] == 0.2
    assert f"{ENTROPY}_correct" not in found


@given(SAMPLES)
def test_every_problem_agrees_with_a_loop(samples):
    problem_N, labels, correct_N = zip(*samples, strict=True)
    found = columns(labels, problem_N, 4, correct_N)
    for problem in range(4):
        mine = [(label, correct) for where, label, correct in samples if where == problem]
        for name, kept in (
            (ENTROPY, [label for label, _ in mine if label is not None]),
            (f"{ENTROPY}_correct", [label for label, correct in mine if label is not None and correct == 1]),
        ):
            expected = plain_entropy(kept)
            corrected = expected + (len(set(kept)) - 1) / (2 * len(kept)) if kept else math.nan
            assert found[name].values_P[problem] == pytest.approx(expected, abs=1e-12, nan_ok=True)
            assert found[f"{name}_mm"].values_P[problem] == pytest.approx(corrected, abs=1e-12, nan_ok=True)
        none = sum(label is None for label, _ in mine) / len(mine) if mine else math.nan
        assert found["first_calculation.none_rate"].values_P[problem] == pytest.approx(none, nan_ok=True)


def test_a_problem_without_a_correct_calculation_is_left_out_and_counted():
    correct = np.array([1.0, 1.0, 0.0, 0.0])
    summary = summarise(
        "c", np.array(["a", "a", "b", "b"]), None, correct_N=correct, first_calculations=["1+2", "2+1", "1+2", None]
    )
    rows = {row.metric: row for row in summary.metrics}
    assert rows[ENTROPY].n == 2
    assert rows[ENTROPY].value == pytest.approx(math.log(2) / 2)
    assert "1 to 2 samples a problem" in rows[ENTROPY].note
    right = rows[f"{ENTROPY}_correct"]
    assert (right.value, right.n) == (pytest.approx(math.log(2)), 1)
    assert "1 of 2 problems left out" in right.note
    assert rows["first_calculation.none_rate"].value == 0.25


def test_labels_that_nothing_was_read_into_say_so():
    rate = columns([None, None], [0, 0], 1)["first_calculation.none_rate"]
    assert rate.values_P[0] == 1
    assert "reads none" in rate.note


def test_one_label_a_trajectory():
    with pytest.raises(InputError, match="first_calculations has 1 entries for 2 trajectories"):
        summarise("c", np.array(["a", "a"]), None, first_calculations=["1+2"])
