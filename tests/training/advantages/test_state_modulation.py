"""FR3E's modulation against its definition and the published numbers."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_rows import rows_of, trees_of, zeros

from entropy_lab.errors import InputError
from entropy_lab.training.advantages.centred import Centred
from entropy_lab.training.advantages.state_modulation import StateModulation

value = st.integers(0, 16).map(lambda sixteenths: sixteenths / 16)
advantage = st.integers(-24, 24).map(lambda eighths: eighths / 8)
forests = st.lists(st.lists(value, min_size=1, max_size=5), min_size=1, max_size=3)


def factors(values: list[float], sharpen: bool) -> list[float]:
    delta = [1 - values[0], *(here - before for before, here in pairwise(values))]
    if sharpen:
        total = sum(abs(one) ** 1.5 for one in delta)
        delta = [math.copysign(abs(one) ** 1.5, one) / total if total else 0.0 for one in delta]
    return [math.exp(-one) for one in delta]


@pytest.mark.parametrize(
    ("sharpen", "expected"), [(False, [0.4724, 0.7788, 1.1331, 0.6456]), (True, [0.5565, 0.8933, 1.0407, 0.7702])]
)
def test_four_states(sharpen: bool, expected: list[float]) -> None:
    tokens = rows_of([0] * 4, [0, 1, 2, 3], trees=trees_of([0] * 4, [0, 1, 2, 3], [[0.25, 0.5, 0.375, 0.8125]]))
    found = StateModulation(sharpen=sharpen)(tokens, torch.ones(4, dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=5e-5)


@given(forest=forests, sharpen=st.booleans(), data=st.data())
@settings(max_examples=80, deadline=None)
def test_each_row_takes_the_factor_of_its_state(forest: list[list[float]], sharpen: bool, data: st.DataObject) -> None:
    """Trees of different sizes, rows in any order, several tokens a row."""
    places = [(tree, state) for tree, values in enumerate(forest) for state in range(len(values))]
    rows = data.draw(st.lists(st.sampled_from(places), min_size=1, max_size=8))
    lengths = data.draw(st.lists(st.integers(1, 3), min_size=len(rows), max_size=len(rows)))
    before = torch.tensor(
        data.draw(st.lists(advantage, min_size=sum(lengths), max_size=sum(lengths))), dtype=torch.float64
    )
    trees = trees_of([tree for tree, _ in rows], [state for _, state in rows], forest)
    tokens = rows_of([0] * len(rows), lengths=lengths, trees=trees)
    expected = torch.tensor([factors(forest[tree], sharpen)[state] for tree, state in rows], dtype=torch.float64)
    found = StateModulation(sharpen=sharpen)(tokens, before)
    torch.testing.assert_close(found, before * tokens.spread(expected), rtol=1e-12, atol=0)
    assert torch.equal(found.sign(), before.sign())


@given(forest=forests)
@settings(max_examples=40, deadline=None)
def test_sharpened_steps_sum_to_one(forest: list[list[float]]) -> None:
    """The factors' logarithms are Δ: their sizes sum to 1 within a tree, or are all 0."""
    places = [(tree, state) for tree, values in enumerate(forest) for state in range(len(values))]
    tokens = rows_of(
        [0] * len(places), trees=trees_of([tree for tree, _ in places], [state for _, state in places], forest)
    )
    found = StateModulation(sharpen=True)(tokens, torch.ones(len(places), dtype=torch.float64)).log().abs()
    for tree, values in enumerate(forest):
        total = sum(found[row].item() for row, (its, _) in enumerate(places) if its == tree)
        assert total == pytest.approx(0 if set(values) == {1.0} else 1)


@pytest.mark.parametrize("sharpen", [False, True])
def test_a_tree_that_always_succeeds_is_left_alone(sharpen: bool) -> None:
    tokens = rows_of([1, 1], trees=trees_of([0, 0], [0, 1], [[1.0, 1.0]]))
    before = torch.tensor([0.5, -0.5], dtype=torch.float64)
    assert torch.equal(StateModulation(sharpen=sharpen)(tokens, before), before)


@pytest.mark.parametrize("sharpen", [False, True])
def test_an_unknown_value_never_spreads(sharpen: bool) -> None:
    tokens = rows_of([1] * 4, trees=trees_of([0] * 4, [0, 1, 2, 3], [[0.5, math.nan, 0.5, 0.75]]))
    found = StateModulation(sharpen=sharpen)(tokens, torch.ones(4, dtype=torch.float64))
    assert found[1:3].tolist() == [1, 1]
    assert (found[[0, 3]] < 1).all()


def test_rows_keep_their_factor_in_a_part_of_the_batch() -> None:
    trees = trees_of([0, 0, 1, 1], [0, 1, 0, 2], [[0.25, 0.5], [1.0, 0.0, 0.5]])
    tokens = rows_of([1, 0, 1, 0], [0, 1, 2, 3], [2, 1, 1, 2], trees=trees)
    rows = torch.tensor([3, 0])
    whole = StateModulation()(tokens, torch.ones(6, dtype=torch.float64))
    part = StateModulation()(tokens.of_rows(rows), torch.ones(4, dtype=torch.float64))
    assert torch.equal(part, whole[tokens.token_index(rows)])


def test_after_centring_a_degenerate_state_stays_without_gradient() -> None:
    tokens = rows_of([1, 1, 1, 0], [0, 0, 1, 1], trees=trees_of([0] * 4, [0, 0, 1, 1], [[1.0, 0.5]]))
    found = StateModulation()(tokens, Centred()(tokens, zeros(tokens)))
    torch.testing.assert_close(
        found, torch.tensor([0, 0, 0.5 * math.exp(0.5), -0.5 * math.exp(0.5)], dtype=torch.float64)
    )


def test_rows_without_trees_are_refused() -> None:
    tokens = rows_of([1, 0])
    with pytest.raises(InputError, match=r"state-modulation.*exploration\.piece"):
        StateModulation()(tokens, zeros(tokens))
