"""Anchors of FR3E: against brute force, at the edges, and what is said where a column is missing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.errors import InputError
from entropy_lab.training.anchors import anchors

LEVELS = st.sampled_from([0.0, 0.25, 0.5, 1.5])  # few, so that ties are common


def column(values):
    return np.array(values, np.float32)


@given(st.lists(LEVELS, min_size=1, max_size=12), st.integers(1, 6))
def test_entropy_and_low_logprob_take_the_least_sure_positions(values, count):
    """Brute force: by value, then by position; 0 never; ascending. Surprisal and entropy rank alike."""
    ranked = sorted(range(1, len(values)), key=lambda t: (-values[t], t))[:count]
    assert anchors("entropy", count, column(values), None) == tuple(sorted(ranked))
    assert anchors("low-logprob", count, None, -column(values)) == tuple(sorted(ranked))


def test_the_two_rankings_are_different_columns():
    entropy, logprob = column([0, 0.1, 2.0, 0.1]), column([0, -3.0, -0.1, -0.2])
    assert anchors("entropy", 1, entropy, logprob) == (2,)
    assert anchors("low-logprob", 1, entropy, logprob) == (1,)


def test_the_last_token_may_be_an_anchor_and_the_first_never_is():
    assert anchors("entropy", 1, column([9, 0, 0, 1]), None) == (3,)
    assert anchors("entropy", 3, column([9.0]), None) == ()
    assert anchors("blocks", 3, column([9.0]), None) == ()
    assert anchors("entropy", 3, column([9, 1]), None) == (1,)


def test_blocks_are_left_at_their_first_token():
    """21 tokens: the .8 quantile picks 0, 5, 7 (one block), 13 and 19; the block at 0 is the root's."""
    entropy = np.full(21, 0.01)
    entropy[[0, 5, 7, 13, 19]] = 2.0, 1.0, 1.5, 1.2, 1.1
    assert anchors("blocks", 5, entropy, None) == (5, 13, 19)
    assert anchors("blocks", 1, entropy, None) == (5,)  # by the peak at 7
    assert anchors("blocks", 2, entropy, None) == (5, 13)
    assert anchors("blocks", 5, np.ones(20), None) == ()


@pytest.mark.parametrize("kind", ["entropy", "blocks"])
def test_without_entropies_low_logprob_is_offered(kind):
    with pytest.raises(InputError, match=r'set exploration\.anchor = "low-logprob"'):
        anchors(kind, 3, None, column([0, -1]))


def test_without_log_probs_there_is_nothing_to_rank():
    with pytest.raises(InputError, match="needs the log-probs of sampled tokens"):
        anchors("low-logprob", 3, column([0, 1]), None)
