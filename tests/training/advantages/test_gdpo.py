"""GDPO: channels keep their own scale."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from packed_rows import rows_of, zeros

from entropy_lab.training.advantages.gdpo import Gdpo


def tokens_of(channels, groups, weights=(1.0, 1.0), lengths=None):
    channel_RC = torch.tensor(channels, dtype=torch.float64)
    weight_C = torch.tensor(weights, dtype=torch.float64)
    made = rows_of((channel_RC @ weight_C).tolist(), groups=groups, lengths=lengths)
    return replace(made, channel_RC=channel_RC, channel_weight_C=weight_C)


def test_one_or_both_channels_right():
    """Adding first cannot tell (0, 1) of two rows from (0, 2); GDPO can."""
    one, both = [[0, 0], [0, 1]], [[0, 0], [1, 1]]
    found = Gdpo(epsilon=1e-12).summed(tokens_of([*one, *both], [0, 0, 1, 1]))
    assert found.tolist() == pytest.approx([-0.7071, 0.7071, -1.4142, 1.4142], abs=1e-4)


def test_the_batch_is_standardised_over_rows_and_spread_over_tokens():
    tokens = tokens_of([[0, 0], [0, 1], [0, 0], [1, 1]], [0, 0, 1, 1], lengths=[1, 3, 2, 1])
    found = Gdpo()(tokens, zeros(tokens))
    rows = np.array([-0.70711, 0.70711, -1.41421, 1.41421])
    expected = np.repeat(rows / rows.std(ddof=1), [1, 3, 2, 1])
    assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-3)


def test_weights_count_and_flat_channels_do_not():
    heavy = Gdpo(epsilon=1e-12).summed(tokens_of([[0, 5], [1, 5]], [0, 0], weights=(3.0, 1.0)))
    assert heavy.tolist() == pytest.approx([-3 * 0.70711, 3 * 0.70711], abs=1e-4)


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 1.0])), min_size=2, max_size=12))
def test_against_numpy(rows):
    groups = [index % 2 for index in range(len(rows))]
    summed = np.zeros(len(rows))
    for channel in np.array(rows).T:
        for group in set(groups):
            own = np.flatnonzero(np.array(groups) == group)
            part = channel[own]
            if len(own) > 1 and np.ptp(part) > 0:
                summed[own] += (part - part.mean()) / (part.std(ddof=1) + 1e-4)
    expected = (summed - summed.mean()) / (summed.std(ddof=1) + 1e-4)
    tokens = tokens_of(rows, groups)
    assert Gdpo()(tokens, zeros(tokens)).tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_a_batch_without_differences_or_of_one_row_trains_nothing():
    for rows in ([[1, 1], [1, 1]], [[1, 0]]):
        tokens = tokens_of(rows, [0] * len(rows))
        assert not Gdpo()(tokens, zeros(tokens)).any()
    assert Gdpo().needs == "rewards"
