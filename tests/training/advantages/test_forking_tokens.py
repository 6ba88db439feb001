"""Which tokens stay: counted over the whole batch, ties included."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_rows import rows_of, zeros
from pydantic import ValidationError

from entropy_lab.errors import InputError
from entropy_lab.training.advantages.forking_tokens import ForkingTokens


def kept(entropies: list[float], share: float) -> list[bool]:
    tokens = rows_of([0], lengths=[len(entropies)], old_entropy_N=entropies)
    return (ForkingTokens(share=share)(tokens, torch.ones(len(entropies))) != 0).tolist()


def test_the_fifth_with_the_highest_entropy() -> None:
    assert kept([0.1, 0.9, 0.0, 0.3, 0.2, 0.8, 0.4, 0.5, 0.6, 0.7], 0.2) == [
        False, True, False, False, False, True, False, False, False, False,
    ]  # fmt: skip


@given(
    entropies=st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0]), min_size=1, max_size=40),
    hundredths=st.integers(1, 100),
)
@settings(max_examples=100, deadline=None)
def test_a_token_stays_when_fewer_than_k_lie_above_it(entropies: list[float], hundredths: int) -> None:
    k = max(1, math.ceil(Fraction(hundredths, 100) * len(entropies)))
    expected = [sum(other > one for other in entropies) < k for one in entropies]
    found = kept(entropies, hundredths / 100)
    assert found == expected
    assert sum(found) >= k


@pytest.mark.parametrize(
    ("count", "share", "expected"), [(100, 0.07, 7), (25, 0.1, 3), (20, 0.1, 2), (1, 0.1, 1), (10, 1e-9, 1)]
)
def test_how_many_stay(count: int, share: float, expected: int) -> None:
    """7 of 100 at .07, though .07 · 100 is more than 7 in floating point."""
    assert sum(kept([float(one) for one in range(count)], share)) == expected


def test_ties_at_the_threshold_stay_and_a_flat_batch_stays_whole() -> None:
    assert kept([0.5, 1.0, 0.5, 0.5, 0.1], 0.4) == [True, True, True, True, False]
    assert all(kept([0.0] * 6, 0.2))


def test_the_batch_is_one_whole_and_what_stays_is_unchanged() -> None:
    """A row of low entropies may lose all its tokens; signs and sizes of the others stay."""
    tokens = rows_of([0, 0], lengths=[2, 3], old_entropy_N=[0.1, 0.2, 0.9, 0.3, 0.8])
    before = torch.tensor([1.0, -2.0, -3.0, 4.0, 5.0])
    assert ForkingTokens(share=0.4)(tokens, before).tolist() == [0, 0, -3, 0, 5]
    assert before.tolist() == [1, -2, -3, 4, 5]


def test_what_it_asks_for() -> None:
    assert ForkingTokens().needs == "batch"
    assert ForkingTokens().share == 0.2
    tokens = rows_of([1.0])
    with pytest.raises(InputError, match="old_entropy_N"):
        ForkingTokens()(tokens, zeros(tokens))
    for share in (0, 1.1):
        with pytest.raises(ValidationError):
            ForkingTokens(share=share)


def test_no_tokens() -> None:
    tokens = rows_of([], old_entropy_N=[])
    assert ForkingTokens()(tokens, zeros(tokens)).shape == (0,)
