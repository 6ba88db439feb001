"""What a batch's token losses are divided by: weights that depend on lengths alone, so micro-batches add up exactly.

Shape letters: R rows, N tokens of all rows.
"""

from typing import Literal

import torch
from torch import Tensor

Reduction = Literal["token-mean", "sequence-mean", "length-constant"]
"""`token-mean`: every token of the update counts alike (DAPO). `sequence-mean`: mean over rows of their token means
(GRPO). `length-constant`: sum over tokens / (rows × the longest completion allowed) (Dr.GRPO)."""


def reduction_weights(reduction: Reduction, length_R: Tensor, longest: int) -> Tensor:
    """Weight of each token's loss, (N,), over all R rows of an update; `longest` is the length limit of sampling.

    No rows give no weights. Rows have at least one token, so nothing is ever divided by 0.
    """
    rows, tokens = len(length_R), int(length_R.sum())
    if reduction == "token-mean":
        return torch.full((tokens,), 1 / max(1, tokens), device=length_R.device)
    if reduction == "length-constant":
        return torch.full((tokens,), 1 / max(1, rows * longest), device=length_R.device)
    return torch.repeat_interleave(1 / (max(1, rows) * length_R.float()), length_R)
