"""Steps of a text as its tokens cut it, and where their uncertainty falls most."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.training.entropy_drop import entropy_drop, step_of_tokens


@pytest.mark.parametrize(
    ("pieces", "steps"),
    [
        (["1 + 2", " = 3", "\n", "3 * 4", "\n", "12"], [0, 0, 0, 1, 1, 2]),
        (["a", "\n\n", "b", "\nc", "\n \n", "d"], [0, 0, 1, 1, 1, 2]),  # blank lines, where there are any
        (["one", " line", "\n"], [0, 0, 0]),
        (["\n\n", "a", "\nb"], [0, 0, 0]),  # a token that begins in one step and ends in the next counts to the first
        (["\n", "a", "\n\n", "  ", "\n"], [0, 0, 0, 0, 0]),
        ([], []),
    ],
)
def test_steps(pieces, steps):
    assert step_of_tokens(pieces).tolist() == steps


def test_a_separator_of_one_s_own():
    assert step_of_tokens(["1+2", "=3", ",", "3*4=12", ",,", "\n", "x"], ",").tolist() == [0, 0, 0, 1, 1, 2, 2]


@given(st.lists(st.sampled_from(["a", "\n", "\n\n", " ", "b\n", ""]), max_size=30))
def test_steps_never_go_back_and_none_is_white_space_alone(pieces):
    steps = step_of_tokens(pieces)
    assert (np.diff(steps) >= 0).all()
    text = "".join(pieces)
    starts = np.cumsum([0, *map(len, pieces)])[:-1]
    for step in set(steps.tolist()) - {0}:
        assert text[int(starts[steps == step][0]) :].strip()


def test_the_cut_is_before_the_largest_drop():
    steps = np.array([0, 0, 1, 1, 2, 3])
    entropies = np.array([0.2, 0.4, 0.9, 0.7, 0.1, 0.3])
    assert entropy_drop(steps, entropies) == (4, pytest.approx(0.7))


def test_the_first_of_equal_drops_and_rising_entropies():
    assert entropy_drop(np.array([0, 1, 2]), np.array([0.5, 0.25, 0.0])) == (1, 0.25)
    assert entropy_drop(np.array([0, 1, 2]), np.array([0.0, 0.25, 1.0])) == (1, -0.25)
    assert entropy_drop(np.array([0, 0]), np.array([0.0, 0.25])) is None


@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0, 3)), min_size=1, max_size=20))
def test_against_brute_force(rows):
    steps = np.cumsum([jump for jump, _ in rows])
    entropies = np.array([value for _, value in rows])
    found = entropy_drop(steps, entropies)
    names = sorted(set(steps.tolist()))
    if len(names) < 2:
        assert found is None
        return
    means = [np.mean(entropies[steps == name]) for name in names]
    drops = [first - second for first, second in pairwise(means)]
    kept, drop = found
    assert drop == pytest.approx(max(drops))
    assert 0 < kept < len(rows)
    assert steps[kept - 1] < steps[kept]
