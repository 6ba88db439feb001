"""What a batch's loss is divided by, against the three definitions."""

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab.training.reductions import Reduction, reduction_weights

REDUCTIONS: tuple[Reduction, ...] = get_args(Reduction)
each_reduction = pytest.mark.parametrize("reduction", REDUCTIONS)
lengths = st.lists(st.integers(1, 12), min_size=1, max_size=8)


def by_definition(reduction: str, losses: list[list[float]], longest: int) -> float:
    if reduction == "token-mean":
        return sum(map(sum, losses)) / sum(map(len, losses))
    if reduction == "sequence-mean":
        return sum(sum(row) / len(row) for row in losses) / len(losses)
    return sum(map(sum, losses)) / (len(losses) * longest)


@each_reduction
@given(length=lengths, longest=st.integers(12, 40))
@settings(max_examples=40, deadline=None)
def test_equals_the_definition(reduction: Reduction, length: list[int], longest: int) -> None:
    generator = torch.Generator().manual_seed(sum(length))
    losses = [torch.randn(count, generator=generator).tolist() for count in length]
    weight_N = reduction_weights(reduction, torch.tensor(length), longest)
    found = (weight_N.double() * torch.tensor([loss for row in losses for loss in row]).double()).sum()
    assert found.item() == pytest.approx(by_definition(reduction, losses, longest), rel=1e-5, abs=1e-6)


@each_reduction
def test_three_rows_by_hand(reduction: Reduction) -> None:
    """Rows of 1, 2 and 3 tokens, at most 4."""
    expected = {
        "token-mean": [1 / 6] * 6,
        "sequence-mean": [1 / 3, 1 / 6, 1 / 6, 1 / 9, 1 / 9, 1 / 9],
        "length-constant": [1 / 12] * 6,
    }
    found = reduction_weights(reduction, torch.tensor([1, 2, 3]), 4)
    assert found.tolist() == pytest.approx(expected[reduction])


@each_reduction
@given(length=lengths, data=st.data())
@settings(max_examples=40, deadline=None)
def test_a_row_weighs_the_same_wherever_it_stands(reduction: Reduction, length: list[int], data: st.DataObject) -> None:
    """T2: weights depend on the lengths of the update, not on order; micro-batches take them as they are."""
    order = data.draw(st.permutations(range(len(length))))
    before = reduction_weights(reduction, torch.tensor(length), 12).split(length)
    dealt = [length[row] for row in order]
    after = reduction_weights(reduction, torch.tensor(dealt), 12).split(dealt)
    for place, row in enumerate(order):
        assert torch.equal(after[place], before[row])


@each_reduction
def test_no_rows_give_no_weights(reduction: Reduction) -> None:
    """T3: an empty update has nothing to divide."""
    found = reduction_weights(reduction, torch.zeros(0, dtype=torch.int64), 40)
    assert (found.shape, found.dtype) == ((0,), torch.float32)
