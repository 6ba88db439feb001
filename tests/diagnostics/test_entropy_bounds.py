"""Entropy intervals from top-k log-probs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab.diagnostics.entropy_bounds import entropy_bounds
from entropy_lab.errors import InputError


def test_published_case():
    bounds = entropy_bounds(np.log([0.5, 0.2, 0.1]), 10)
    assert bounds.low[0] == pytest.approx(1.35924, abs=5e-6)
    assert bounds.high[0] == pytest.approx(1.60979, abs=5e-6)


@given(st.lists(st.floats(0.01, 10), min_size=2, max_size=20), st.data())
@settings(deadline=None)
def test_the_true_entropy_lies_between(weights, data):
    p = np.sort(np.array(weights))[::-1] / sum(weights)
    known = data.draw(st.integers(1, len(p)))
    bounds = entropy_bounds(np.log(p[:known]), len(p))
    truth = -(p * np.log(p)).sum()
    assert bounds.low[0] - 1e-9 <= truth <= bounds.high[0] + 1e-9
    if known == len(p):
        assert bounds.high[0] - bounds.low[0] == pytest.approx(0, abs=1e-9)


def test_both_bounds_are_reached():
    spread = [0.6] + [0.1] * 4
    assert entropy_bounds(np.log(spread[:1]), 5).high[0] == pytest.approx(-np.sum(spread * np.log(spread)))
    packed = [0.4, 0.4, 0.2]
    assert entropy_bounds(np.log(packed[:1]), 9).low[0] == pytest.approx(-np.sum(packed * np.log(packed)))


def test_positions_with_fewer_logprobs_are_padded():
    table = [[np.log(0.5), np.log(0.2), np.log(0.1)], [0.0, -np.inf, -np.inf]]
    bounds = entropy_bounds(table, 10)
    assert bounds.low == pytest.approx([1.35924, 0.0], abs=5e-6)
    assert bounds.high == pytest.approx([1.60979, 0.0], abs=5e-6)


@pytest.mark.parametrize(
    ("logprobs", "vocabulary", "word"),
    [
        ([[-1.0, np.nan]], 10, "rank 1 is nan"),
        ([[0.4, -1.0]], 10, "rank 0 is 0.4"),
        ([[-0.1, -0.1]], 10, "sum of the known"),
        ([[-1.0, -1.1, -2.0]], 2, "vocabulary of 2"),
        ([[-np.inf]], 10, "vocabulary"),
        ([[np.log(0.1)]], 5, "remaining mass"),
    ],
)
def test_impossible_input_names_its_place(logprobs, vocabulary, word):
    """L11: a log-prob above 0, and top-k lists that are not the top."""
    with pytest.raises(InputError, match=word):
        entropy_bounds(logprobs, vocabulary)
