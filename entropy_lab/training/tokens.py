"""What a batch of trajectories is to advantages and losses: completion tokens of all rows packed end to end.

Only what the policy wrote stands here: no prompts, no padding. Knows nothing of text, models or engines.
Shape letters: R rows (trajectories), N tokens of all rows, C reward channels, T trees, S states of a tree.
"""

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor


@dataclass(frozen=True)
class Trees:
    """Where rows stand in FR3E's trees. Row r continues state `state_R[r]` of tree `tree_R[r]`; state 0 is the root.

    `value_TS` is the mean reward of each state's continuations, NaN beyond a tree's last state.
    """

    tree_R: Tensor
    state_R: Tensor
    value_TS: Tensor


@dataclass(frozen=True)
class Tokens:
    """Columns of R rows and their N tokens, row after row; a column is None where it was not computed.

    `length_R` (≥ 1) and `group_R` are int64; `reward_R` is Σ channel · weight; rows of one group share a prompt and a
    baseline. `sampler_logprob_N` is the engine's, of the distribution it drew from. The `old` columns belong to the
    policy that is being updated, before this iteration's first step; log-probs and entropies in nats. `mark_N` is what
    the objective settled over the whole batch.
    """

    length_R: Tensor
    group_R: Tensor
    reward_R: Tensor
    channel_RC: Tensor
    channel_weight_C: Tensor
    truncated_R: Tensor
    sampler_logprob_N: Tensor | None = None
    old_logprob_N: Tensor | None = None
    old_entropy_N: Tensor | None = None
    old_value_N: Tensor | None = None
    reference_logprob_N: Tensor | None = None
    teacher_logprob_N: Tensor | None = None
    mark_N: Tensor | None = None
    trees: Trees | None = None

    @property
    def row_N(self) -> Tensor:
        """The row of each token."""
        return torch.repeat_interleave(self.length_R)

    def spread(self, value_R: Tensor) -> Tensor:
        """A row's value at each of its tokens, (N,)."""
        return torch.repeat_interleave(value_R, self.length_R)

    def row_sum(self, value_N: Tensor) -> Tensor:
        """Sum over each row's tokens, (R,)."""
        return value_N.new_zeros(len(self.length_R)).index_add(0, self.row_N, value_N)

    def row_mean(self, value_N: Tensor) -> Tensor:
        """Mean over each row's tokens, (R,)."""
        return self.row_sum(value_N) / self.length_R

    def token_index(self, rows: Tensor) -> Tensor:
        """Where the tokens of `rows` stand, in the order of `rows`."""
        ends_R = self.length_R.cumsum(0)
        length = self.length_R[rows]
        first = torch.repeat_interleave(ends_R[rows] - length - (length.cumsum(0) - length), length)
        return first + torch.arange(len(first), device=first.device)

    def of_rows(self, rows: Tensor) -> "Tokens":
        """The same columns for `rows` alone, in that order."""
        index = self.token_index(rows)
        taken: dict[str, Tensor | Trees] = {}
        for column in fields(self):
            value = getattr(self, column.name)
            if isinstance(value, Trees):
                taken[column.name] = Trees(value.tree_R[rows], value.state_R[rows], value.value_TS)
            elif value is not None and not column.name.endswith("_C"):
                taken[column.name] = value[index if column.name.endswith("_N") else rows]
        return replace(self, **taken)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Now:
    """The policy as it is while it is updated, with gradients, shape (N,): what losses are made of.

    `uniform_logprob_N` is the mean log-probability over the whole vocabulary, `value_N` the value head's estimate in
    front of each token, `twin_gap_N` how far the token's log-prob lies above that of its twin, the second token that
    was drawn there. They are None unless a piece needs them.
    """

    logprob_N: Tensor
    entropy_N: Tensor
    uniform_logprob_N: Tensor | None = None
    value_N: Tensor | None = None
    twin_gap_N: Tensor | None = None
