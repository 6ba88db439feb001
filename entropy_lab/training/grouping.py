"""Statistics of the groups that share a baseline: which rows belong together is told by ids, never by position.

Shape letters: R rows, G groups.
"""

from typing import NamedTuple

import torch
from torch import Tensor

RESIDUE = 1e-6
"""Rewards of a group that differ by this part of the largest, or of 1, are equal but for rounding (ours)."""


class Grouped(NamedTuple):
    """Of each row, (R,): its reward minus its group's mean, the group's standard deviation (ddof 1) and size."""

    centred_R: Tensor
    deviation_R: Tensor
    size_R: Tensor


def grouped(reward_R: Tensor, group_R: Tensor) -> Grouped:
    """Rewards within their groups; a group whose rewards are equal up to rounding is centred to exactly 0.

    The deviation of a single row is 0. In float64 and on the CPU, where sums have one order: these are a few numbers,
    and some accelerators have no float64.
    """
    reward_R = reward_R.detach().cpu().double()
    _, index_R, size_G = torch.unique(group_R.cpu(), return_inverse=True, return_counts=True)
    zero_G = reward_R.new_zeros(len(size_G))
    mean_G = zero_G.index_add(0, index_R, reward_R) / size_G
    highest_G = zero_G.scatter_reduce(0, index_R, reward_R, "amax", include_self=False)
    lowest_G = zero_G.scatter_reduce(0, index_R, reward_R, "amin", include_self=False)
    scale_G = torch.maximum(highest_G.abs(), lowest_G.abs()).clamp(min=1)
    flat_G = highest_G - lowest_G <= RESIDUE * scale_G
    centred_R = (reward_R - mean_G[index_R]).masked_fill(flat_G[index_R], 0.0)
    variance_G = zero_G.index_add(0, index_R, centred_R.square()) / (size_G - 1).clamp(min=1)
    return Grouped(centred_R, variance_G.sqrt()[index_R], size_G[index_R])
