"""SAF's first two stages, token by token."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from packed_rows import rows_of

from entropy_lab.errors import InputError
from entropy_lab.training.advantages.saf import Saf

D = [-3, 0.1, 0.5, -0.2, 2, 0, 0.05, -0.4, 1, -0.01]


def applied(step, difference, lengths=None, advantage=0.0):
    zeros = [0.0] * len(difference)
    lengths = lengths or [len(difference)]
    tokens = rows_of(
        [0] * len(lengths), lengths=lengths, old_logprob_N=zeros, teacher_logprob_N=[float(one) for one in difference]
    )
    return step(tokens, torch.full((len(difference),), advantage, dtype=torch.float64)).tolist()


def test_published_figures():
    found = applied(Saf(), D)
    assert found == pytest.approx([-0.09951, 0, 0, 0, 0.0964, 0, 0, 0, 0, 0], abs=1e-5)


def test_each_stage_can_be_off():
    assert applied(Saf(share=1, scale=0), D) == pytest.approx(D)
    assert applied(Saf(share=1), D) == pytest.approx([0.1 * math.tanh(one) for one in D])
    assert applied(Saf(scale=0), D) == [-3, 0, 0, 0, 2, 0, 0, 0, 0, 0]


def test_it_is_added_to_the_reward_s_advantage():
    assert applied(Saf(factor=0), D, advantage=1.5) == [1.5] * 10
    assert applied(Saf(factor=0.5, coefficient=2, scale=0), [2.0], advantage=-1.0) == [1.0]


@given(
    st.lists(st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0]), min_size=1, max_size=12), min_size=1, max_size=4),
    st.sampled_from([0.1, 0.2, 0.29, 0.5, 1.0]),
)
def test_every_row_keeps_its_own_largest(rows, share):
    found = applied(Saf(share=share, scale=0), [one for row in rows for one in row], [len(row) for row in rows])
    for row in rows:
        own, found = found[: len(row)], found[len(row) :]
        count = max(1, math.floor(share * len(row) + 1e-9))
        kept = sorted(range(len(row)), key=lambda place: -abs(row[place]))[:count]
        assert own == [value if place in kept else 0 for place, value in enumerate(row)]


def test_without_a_teacher():
    tokens = rows_of([0.0], old_logprob_N=[0.0])
    with pytest.raises(InputError, match="teacher_logprob_N"):
        Saf()(tokens, torch.zeros(1))
    assert (Saf().needs, Saf.needs_teacher) == ("tokens", True)
