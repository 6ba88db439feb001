"""Rows of tokens from plain lists, in float64 so that oracles need no tolerance of their own."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from entropy_lab.training.tokens import Tokens, Trees


def rows_of(
    rewards: Sequence[float],
    groups: Sequence[int] | None = None,
    lengths: Sequence[int] | None = None,
    trees: Trees | None = None,
    **columns: Sequence[float],
) -> Tokens:
    """One group, and one token a row, unless told."""
    count = len(rewards)
    reward_R = torch.tensor(rewards, dtype=torch.float64)
    return Tokens(
        length_R=torch.tensor([1] * count if lengths is None else lengths, dtype=torch.int64),
        group_R=torch.tensor([0] * count if groups is None else groups, dtype=torch.int64),
        reward_R=reward_R,
        channel_RC=reward_R[:, None],
        channel_weight_C=torch.ones(1),
        truncated_R=torch.zeros(count, dtype=torch.bool),
        trees=trees,
        **{name: torch.tensor(values, dtype=torch.float64) for name, values in columns.items()},
    )


def trees_of(tree: Sequence[int], state: Sequence[int], values: Sequence[Sequence[float]]) -> Trees:
    """`values` of each tree, root first, as long as the tree has states."""
    longest = max(map(len, values))
    padded = [[*one, *[math.nan] * (longest - len(one))] for one in values]
    return Trees(torch.tensor(tree), torch.tensor(state), torch.tensor(padded, dtype=torch.float64))


def zeros(tokens: Tokens, dtype: torch.dtype = torch.float64) -> Tensor:
    """What a recipe's first step is given."""
    return torch.zeros(int(tokens.length_R.sum()), dtype=dtype)
