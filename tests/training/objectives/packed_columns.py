"""Columns for objectives from plain lists, in float64 so that oracles need no tolerance of their own."""

from collections.abc import Sequence

import torch
from torch import Tensor

from entropy_lab.training.tokens import Now, Tokens


def column(values: Sequence[float] | Tensor) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float64)


def now_of(logprob: Sequence[float] | Tensor, **columns: Sequence[float] | Tensor) -> Now:
    """Columns that take gradients; entropies are 0."""
    logprob_N = column(logprob).clone().requires_grad_()
    others = {name: column(values).clone().requires_grad_() for name, values in columns.items()}
    return Now(logprob_N, torch.zeros_like(logprob_N), **others)


def tokens_of(
    lengths: Sequence[int],
    groups: Sequence[int] = (),
    rewards: Sequence[float] = (),
    **columns: Sequence[float] | Tensor,
) -> Tokens:
    """Rows of these lengths; each in a group of its own with reward 0 unless told."""
    rows = len(lengths)
    return Tokens(
        length_R=torch.tensor(lengths, dtype=torch.int64),
        group_R=torch.tensor(groups or range(rows), dtype=torch.int64),
        reward_R=column(rewards or [0.0] * rows),
        channel_RC=torch.zeros(rows, 0),
        channel_weight_C=torch.zeros(0),
        truncated_R=torch.zeros(rows, dtype=torch.bool),
        **{name: column(values) for name, values in columns.items()},
    )
