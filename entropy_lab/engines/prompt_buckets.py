"""Keys and values of prompts of similar length, each held once, and the attention of all their rows over them.

Shape letters: R rows, C contexts (prompts) of a bucket, J row places a context, K key-value heads, G query heads a
key-value head, D head size, P prompt length.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BUCKET_TOKENS = 16384  # prompt tokens, padding included, computed in one forward pass; ours
BUCKET_SPREAD = 1.25  # the longest prompt of a bucket over its shortest, which bounds the padding; ours
ROW_SPREAD = 2  # the most rows of a prompt over the fewest, which bounds empty places on the grid; ours


class Bucket:
    """Contexts of similar length, attended to together, padded on the right to the longest.

    Queries are laid out on a grid [C, J]: `place_R` is each row's place on it, `row_CJ` the row behind each place
    (row 0 behind an empty one, whose result nobody reads). Rows are counted within the bucket.
    """

    def __init__(self, lengths: Sequence[int], device: torch.device) -> None:
        self.lengths_C = torch.tensor(lengths, device=device)
        padding_CP = torch.arange(max(lengths), device=device) >= self.lengths_C[:, None]
        self.padding_CP = padding_CP if min(lengths) < max(lengths) else None
        self.keys: list[Tensor] = []  # a layer: [C, K, P, D]
        self.values: list[Tensor] = []

    def place(self, rows_C: NDArray[np.int64]) -> None:
        """Lay out the grid for `rows_C` rows of each context, in that order."""
        context_R = np.repeat(np.arange(len(rows_C)), rows_C)
        within_R = np.arange(len(context_R)) - np.repeat(np.cumsum(rows_C) - rows_C, rows_C)
        width = int(rows_C.max())
        place_R = context_R * width + within_R
        row_CJ = np.zeros(len(rows_C) * width, np.int64)
        row_CJ[place_R] = np.arange(len(place_R))
        self.rows = len(place_R)
        self.place_R = torch.from_numpy(place_R).to(self.lengths_C.device)
        self.row_CJ = torch.from_numpy(row_CJ).to(self.lengths_C.device)

    def gather(self, held_C: Sequence[Tensor]) -> Tensor:
        """Each context's keys or values, [K, its length or longer, D], cut to that length: one tensor [C, K, P, D]."""
        like = held_C[0]
        gathered = like.new_zeros(len(held_C), like.shape[0], int(self.lengths_C.max()), like.shape[2])
        for row, length, held in zip(gathered, self.lengths_C.tolist(), held_C, strict=True):
            row[:, :length] = held[:, :length]
        return gathered

    def attend(self, layer: int, query_RKGD: Tensor, scaling: float) -> tuple[Tensor, Tensor]:
        """Attention of this bucket's rows over their prompts, [R, K, G, D], and its log-sum-exp [R, K, G]."""
        keys_CKPD, values_CKPD = self.keys[layer], self.values[layer]
        C, K, P, D = keys_CKPD.shape
        G = query_RKGD.shape[2]
        grid = query_RKGD[self.row_CJ].view(C, -1, K, G, D).transpose(1, 2).reshape(C * K, -1, D)
        scores = product(grid, keys_CKPD.view(C * K, P, D).transpose(1, 2)).mul_(scaling)
        if self.padding_CP is not None:
            scores.view(C, -1, P).masked_fill_(self.padding_CP[:, None], -torch.inf)
        mixed = product(scores.softmax(-1), values_CKPD.view(C * K, P, -1))
        mass = scores.logsumexp(-1)
        mixed = mixed.view(C, K, -1, G, mixed.shape[-1]).transpose(1, 2).reshape(-1, K, G, mixed.shape[-1])
        mass = mass.view(C, K, -1, G).transpose(1, 2).reshape(-1, K, G)
        return mixed[self.place_R], mass[self.place_R]


def bucketed(contexts: Sequence[Sequence[int]], counts: Sequence[int]) -> list[tuple[list[Sequence[int]], list[int]]]:
    """Cut the contexts, in their order, into runs of similar length and similar number of rows."""
    runs: list[tuple[list[Sequence[int]], list[int]]] = []
    for context, count in zip(contexts, counts, strict=True):
        if runs:
            lengths = [len(ids) for ids in runs[-1][0]] + [len(context)]
            rows = [*runs[-1][1], count]
            fits = len(lengths) * max(lengths) <= BUCKET_TOKENS
            if fits and max(lengths) <= BUCKET_SPREAD * min(lengths) and max(rows) <= ROW_SPREAD * min(rows):
                runs[-1][0].append(context)
                runs[-1][1].append(count)
                continue
        runs.append(([context], [count]))
    return runs


def leaves(contexts: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """The context, by index, whose forward pass computes each: one that it begins and nothing continues, or itself."""
    ids = [tuple(context) for context in contexts]
    order = sorted(range(len(ids)), key=ids.__getitem__)
    leaf_C = np.arange(len(ids))
    for context, after in zip(order[-2::-1], order[:0:-1], strict=True):  # what continues a context follows it at once
        if ids[after][: len(ids[context])] == ids[context]:
            leaf_C[context] = leaf_C[after]
    return leaf_C


def product(left: Tensor, right: Tensor) -> Tensor:
    """Batched matrix product that keeps float32 sums: rounded scores would be rounded log-probs."""
    if right.dtype in (torch.float16, torch.bfloat16):
        return torch.bmm(left.to(right.dtype), right, out_dtype=torch.float32)
    return torch.bmm(left, right)
