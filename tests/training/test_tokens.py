"""Packed columns against plain lists of rows."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab.training.tokens import Tokens, Trees

tables = st.lists(st.lists(st.integers(-50, 50), min_size=1, max_size=5), min_size=1, max_size=6)


def packed(table: list[list[int]], trees: Trees | None = None) -> tuple[Tokens, torch.Tensor]:
    """Tokens of these rows, each row in a group of its own, and the column of their numbers."""
    rows = len(table)
    value_N = torch.tensor([value for row in table for value in row], dtype=torch.float64)
    tokens = Tokens(
        length_R=torch.tensor([len(row) for row in table], dtype=torch.int64),
        group_R=torch.arange(rows) * 10,
        reward_R=torch.arange(rows) / 4,
        channel_RC=torch.stack([torch.arange(rows) / 4, -torch.arange(rows) / 4], 1),
        channel_weight_C=torch.tensor([1.0, 2.0]),
        truncated_R=torch.arange(rows) % 2 == 1,
        old_logprob_N=value_N,
        trees=trees,
    )
    return tokens, value_N


@given(table=tables)
@settings(max_examples=50, deadline=None)
def test_rows_sums_and_means(table: list[list[int]]) -> None:
    """L6: a row's mean is over its own tokens."""
    tokens, value_N = packed(table)
    assert tokens.row_N.tolist() == [row for row, values in enumerate(table) for _ in values]
    assert tokens.row_sum(value_N).tolist() == [sum(row) for row in table]
    assert tokens.row_mean(value_N).tolist() == pytest.approx([sum(row) / len(row) for row in table])
    assert tokens.spread(tokens.group_R).tolist() == [10 * row for row, values in enumerate(table) for _ in values]


@given(table=tables, data=st.data())
@settings(max_examples=50, deadline=None)
def test_taking_rows(table: list[list[int]], data: st.DataObject) -> None:
    """In any order and also more than once, every column of a row comes along."""
    rows = data.draw(st.lists(st.integers(0, len(table) - 1), max_size=8))
    tokens, value_N = packed(table)
    index = torch.tensor(rows, dtype=torch.int64)
    expected = [value for row in rows for value in table[row]]
    assert value_N[tokens.token_index(index)].tolist() == expected
    taken = tokens.of_rows(index)
    assert taken.old_logprob_N is not None
    assert taken.old_logprob_N.tolist() == expected
    assert taken.length_R.tolist() == [len(table[row]) for row in rows]
    assert taken.group_R.tolist() == [10 * row for row in rows]
    assert taken.reward_R.tolist() == [row / 4 for row in rows]
    assert taken.channel_RC.tolist() == [[row / 4, -row / 4] for row in rows]
    assert taken.channel_weight_C.tolist() == [1.0, 2.0]
    assert taken.truncated_R.tolist() == [row % 2 == 1 for row in rows]
    assert (taken.old_entropy_N, taken.trees) == (None, None)


@given(table=tables, data=st.data())
@settings(max_examples=30, deadline=None)
def test_parts_cover_the_whole(table: list[list[int]], data: st.DataObject) -> None:
    """However rows are dealt into parts, their token indices are all tokens once."""
    order = data.draw(st.permutations(range(len(table))))
    cut = data.draw(st.integers(0, len(table)))
    tokens, value_N = packed(table)
    parts = [tokens.token_index(torch.tensor(part, dtype=torch.int64)) for part in (order[:cut], order[cut:])]
    assert sorted(torch.cat(parts).tolist()) == list(range(len(value_N)))


def test_trees_stay_whole_when_rows_are_taken() -> None:
    """States are worth what all their continuations say, also those of other parts."""
    trees = Trees(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]), torch.tensor([[0.5, 0.25, 1.0], [0.0, 0.75, 0.5]]))
    tokens, _ = packed([[1], [2, 3], [4]], trees)
    taken = tokens.of_rows(torch.tensor([2, 0])).trees
    assert taken is not None
    assert (taken.tree_R.tolist(), taken.state_R.tolist()) == ([1, 0], [1, 2])
    assert torch.equal(taken.value_TS, trees.value_TS)


def test_gradients_flow_through_sums_and_means() -> None:
    tokens, value_N = packed([[1, 2], [3, 4, 5]])
    value_N.requires_grad_()
    weight_R = torch.tensor([1.0, 6.0], dtype=torch.float64)
    (weight_R * tokens.row_mean(value_N)).sum().backward()
    assert value_N.grad is not None
    assert value_N.grad.tolist() == [0.5, 0.5, 2, 2, 2]
