"""Exact KL divergence between two models' next-token distributions, in tiles over the vocabulary.

One pass over both heads side by side; no [tokens, vocabulary] tensor. Shape letters as in `moments`: N tokens, V head
rows, n tokens of a block, v ids of a tile. Per token, with x = z − max z on each side, the running state is both maxima
and s_p = Σ e^x_p, s_q = Σ e^x_q and d = Σ e^x_p·(x_p − x_q); then KL = d/s_p − log s_p + log s_q, which is exactly 0
for equal logits.
"""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from entropy_lab.errors import InputError
from entropy_lab.scoring.moments import LOG_2, UNDERFLOW, NonFiniteLogits, column_blocks
from entropy_lab.scoring.tiles import HeadTiles, LogitMap

_FLOOR = -1e30
"""Stands for a shifted logit of −inf: finite, so that a weight of 0 times it is 0, and below any logit in use."""


@dataclass(frozen=True)
class Side:
    """One model's distributions: last hidden states (N, H), head (V, H), bias (V,) and the map to logits."""

    hidden_NH: Tensor
    weight_VH: Tensor
    bias_V: Tensor | None = None
    logit_map: LogitMap = field(default_factory=lambda: LogitMap(1.0))

    def tiles(self) -> HeadTiles:
        """The logits, tile by tile."""
        return HeadTiles(self.hidden_NH, self.weight_VH, self.bias_V, self.logit_map)


@torch.no_grad()
def divergence(p: Side, q: Side, *, ids: int | None = None) -> Tensor:
    """KL(p‖q) = Σ p (log p − log q) of each token in nats, shape (N,), ≥ 0; float32, or float64 where both sides are.

    `ids` restricts both distributions to the first `ids` head rows, normalised without the rest. An id that neither
    side can give (−inf logits) adds 0; one that q cannot give and p can makes the divergence infinite. What p gives
    with less than any float64 holds counts as 0 (ours), so that a mask of −1e9 equals one of −inf.
    At most twice the memory of `token_statistics` beside the output.

    Raises:
        NonFiniteLogits: NaN or +inf logits, or a row with no finite one, on either side.
        InputError: different numbers of tokens, or heads of different sizes where `ids` does not bring them together.
    """
    sizes = p.weight_VH.shape[0], q.weight_VH.shape[0]
    if p.hidden_NH.shape[0] != q.hidden_NH.shape[0]:
        raise InputError(f"The two sides hold {p.hidden_NH.shape[0]} and {q.hidden_NH.shape[0]} tokens; give the same.")
    if ids is None and sizes[0] != sizes[1]:
        raise InputError(f"The two heads have {sizes[0]} and {sizes[1]} rows; say how many `ids` both share.")
    count = sizes[0] if ids is None else ids
    if not 0 < count <= min(sizes):
        raise InputError(f"ids is {count}; it must be from 1 to {min(sizes)}, the rows that both heads have.")
    tiles_p, tiles_q = p.tiles(), q.tiles()
    rows, columns = min(tiles_p.rows, tiles_q.rows), min(tiles_p.columns, tiles_q.columns)
    found = []
    for first, last in column_blocks(0, max(len(p.hidden_NH), 1), rows):
        tiles_p.open(first, last)
        tiles_q.open(first, last)
        block = _Block(len(tiles_p.hidden_nH), tiles_p, tiles_q)
        for start, stop in column_blocks(0, count, columns):
            block.update(start, stop)
        found.append(block.finish(first))
    return torch.cat(found)


class _Block:
    """Running state of n tokens, each of shape (n, 1); logits and x in powers of two, as the tiles give them."""

    def __init__(self, tokens: int, tiles_p: HeadTiles, tiles_q: HeadTiles) -> None:
        self.tiles_p, self.tiles_q = tiles_p, tiles_q
        new_p, new_q = tiles_p.scratch.new_full, tiles_q.scratch.new_full
        # The lowest finite numbers, not −inf, as in `moments`: −inf − (−inf) never happens.
        self.m_p = new_p((tokens, 1), torch.finfo(tiles_p.dtype).min)
        self.m_q = new_q((tokens, 1), torch.finfo(tiles_q.dtype).min)
        self.s_p, self.s_q, self.d = new_p((tokens, 1), 0), new_q((tokens, 1), 0), new_p((tokens, 1), 0)
        self.lost = self.m_p.clone()
        """Largest logit of p among the ids that q cannot give."""

    def update(self, start: int, stop: int) -> None:
        """Take in the tiles of ids start … stop of both sides."""
        z_p, z_q = self.tiles_p.tile(start, stop), self.tiles_q.tile(start, stop)
        least_q, most_q = z_q.aminmax(dim=1, keepdim=True)
        if bool(least_q.isneginf().any()):
            lost = z_p.masked_fill(~z_q.isneginf(), -torch.inf).amax(1, keepdim=True)
            self.lost = torch.maximum(self.lost, lost)
        m_p, m_q = torch.maximum(self.m_p, z_p.amax(1, keepdim=True)), torch.maximum(self.m_q, most_q)
        shift_p, shift_q = (self.m_p - m_p).clamp_(min=UNDERFLOW), (self.m_q - m_q).clamp_(min=_FLOOR)
        shrink = shift_p.exp2()
        self.s_p, self.s_q = shrink * self.s_p, shift_q.exp2() * self.s_q
        self.d = shrink * self.d + (shift_p - shift_q) * self.s_p
        self.m_p, self.m_q = m_p, m_q

        x_p, x_q = z_p.sub_(m_p).clamp_(min=UNDERFLOW), z_q.sub_(m_q).clamp_(min=_FLOOR)
        self.s_q += torch.exp2(x_q, out=self.tiles_q.scratch[: x_q.numel()].view_as(x_q)).sum(1, keepdim=True)
        weight = torch.exp2(x_p, out=self.tiles_p.scratch[: x_p.numel()].view_as(x_p))
        self.s_p += weight.sum(1, keepdim=True)
        self.d += x_p.sub_(x_q).mul_(weight).sum(1, keepdim=True)

    def finish(self, first: int) -> Tensor:
        """KL in nats, shape (n,); `first` is the block's first row, for the error."""
        for side, s in (("first", self.s_p), ("second", self.s_q)):
            exists = s.squeeze(1) >= 1  # the largest logit alone contributes 1; NaN compares false
            if not bool(exists.all()):
                row = int(exists.int().argmin())
                found = "every logit is -inf" if bool(s[row, 0] == 0) else "the logits hold NaN or +inf"
                raise NonFiniteLogits(first + row, f"{found} on the {side} side")
        # The true value is ≥ 0; what falls below is rounding.
        divergence = ((self.d / self.s_p - self.s_p.log2() + self.s_q.log2()) * LOG_2).clamp_(min=0)
        return divergence.masked_fill_(self.lost - self.m_p > UNDERFLOW, torch.inf).squeeze(1)
