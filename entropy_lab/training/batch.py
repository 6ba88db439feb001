"""From an iteration's rollouts to a batch: contexts shared by their rows, completion tokens packed, micro-batches.

A context is a prompt with what was given after it. Knows token ids and lengths; no model, no loss.
Shape letters: R rows, C contexts, N completion tokens.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from entropy_lab.training.rollout import Rollout
from entropy_lab.training.tokens import Tokens, Trees

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """R rows: row r continues `contexts[context_R[r]]` with `completions[r]`; `tokens` holds the same rows' columns.

    `twins` are the second draws of each row's positions, where every row has them.
    """

    contexts: tuple[Ids, ...]
    context_R: Ids
    completions: tuple[Ids, ...]
    tokens: Tokens
    twins: tuple[Ids, ...] | None = None

    def __len__(self) -> int:
        return len(self.completions)


def batch_of(rollouts: Sequence[Rollout], device: torch.device) -> Batch:
    """Pack rollouts, which have at least one token each; rows keep their order."""
    index: dict[tuple[int, ...], int] = {}
    context_R = [index.setdefault(one.trajectory.prompt_ids + one.prefix_ids, len(index)) for one in rollouts]
    completions = tuple(np.asarray(one.trajectory.token_ids, np.int64) for one in rollouts)
    groups: dict[str, int] = {}
    sampled = [one.trajectory.logprobs for one in rollouts]
    logprobs = [column for column in sampled if column is not None]
    weights = next((one.reward_weights for one in rollouts), ())

    def column(values: Sequence[object], dtype: torch.dtype) -> torch.Tensor:
        return torch.tensor(values, dtype=dtype, device=device)

    tokens = Tokens(
        length_R=column([len(ids) for ids in completions], torch.int64),
        group_R=column([groups.setdefault(one.group, len(groups)) for one in rollouts], torch.int64),
        reward_R=column([one.reward for one in rollouts], torch.float32),
        channel_RC=column([one.rewards for one in rollouts], torch.float32).reshape(len(rollouts), len(weights)),
        channel_weight_C=column(weights, torch.float32),
        truncated_R=column([one.trajectory.finish_reason != "stop" for one in rollouts], torch.bool),
        sampler_logprob_N=(
            torch.from_numpy(np.concatenate(logprobs)).to(device)
            if rollouts and len(logprobs) == len(rollouts)
            else None
        ),
        trees=_trees(rollouts, device),
    )
    drawn = [one.trajectory.twin_ids for one in rollouts]
    twins = tuple(np.asarray(ids, np.int64) for ids in drawn if ids is not None)
    return Batch(
        tuple(np.array(ids, np.int64) for ids in index),
        np.array(context_R, np.int64),
        completions,
        tokens,
        twins if rollouts and len(twins) == len(rollouts) else None,
    )


def _trees(rollouts: Sequence[Rollout], device: torch.device) -> Trees | None:
    """None unless every row is a branch of a tree."""
    states = [one.state for one in rollouts if one.state is not None]
    if not rollouts or len(states) < len(rollouts):
        return None
    trees = {state.tree: state.values for state in states}
    names = {name: place for place, name in enumerate(trees)}
    value_TS = np.full((len(trees), max(map(len, trees.values()))), np.nan, np.float32)
    for place, values in enumerate(trees.values()):
        value_TS[place, : len(values)] = values
    return Trees(
        torch.tensor([names[state.tree] for state in states], device=device),
        torch.tensor([state.index for state in states], device=device),
        torch.from_numpy(value_TS).to(device),
    )


def minibatches(batch: Batch, count: int) -> list[Ids]:
    """Cut the rows into at most `count` updates of nearly equal numbers of groups; a group stays whole."""
    group_R = batch.tokens.group_R.cpu().numpy()
    groups = np.unique(group_R)
    parts = np.array_split(groups, min(count, max(1, len(groups))))
    return [np.flatnonzero(np.isin(group_R, part)) for part in parts if len(part)]


def micro_batches(batch: Batch, rows: Ids, budget: int, whole_groups: bool) -> list[Ids]:
    """Cut `rows` so that each part has at most `budget` context and completion tokens; a single unit may exceed it.

    Rows of one context stay next to each other, so that its tokens are computed once or as seldom as the budget lets
    them; contexts that continue one another are neighbours too. With `whole_groups` the unit is a group.
    """
    group_R = batch.tokens.group_R.cpu().numpy()
    unit_R = group_R if whole_groups else np.arange(len(batch))
    order = sorted(rows.tolist(), key=lambda row: (batch.contexts[batch.context_R[row]].tolist(), unit_R[row], row))
    if whole_groups:
        first = {unit: place for place, unit in reversed(list(enumerate(unit_R[order].tolist())))}
        order.sort(key=lambda row: first[unit_R[row]])
    parts: list[list[int]] = []
    held: set[int] = set()
    used, start = 0, 0
    while start < len(order):
        stop = start + 1
        while stop < len(order) and unit_R[order[stop]] == unit_R[order[start]]:
            stop += 1
        unit = order[start:stop]
        contexts = {int(batch.context_R[row]) for row in unit}
        own = sum(len(batch.completions[row]) for row in unit)
        cost = own + sum(len(batch.contexts[one]) for one in contexts - held)
        if not parts or used + cost > budget:
            parts.append([])
            held, used = set(), 0
            cost = own + sum(len(batch.contexts[one]) for one in contexts)
        parts[-1].extend(unit)
        held |= contexts
        used += cost
        start = stop
    return [np.array(part, np.int64) for part in parts]
