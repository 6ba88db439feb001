"""Softmax statistics of logits that arrive in tiles: one pass over the vocabulary, no [tokens, vocabulary] tensor.

Shape letters: N tokens, V vocabulary, n tokens of a block, v ids of a tile. Per token the running state is the largest
logit m and, with x = z − m, the sums s = Σ e^x, t = Σ e^x·x and u = Σ e^x·x². When m grows they are rescaled. Shifting
by m keeps every term small, so that H = log s − t/s loses no digits however large the logits are.

Inside, x counts in powers of two, x/log 2, because torch computes 2^x three times faster than e^x.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from entropy_lab.errors import InputError

LOG_2 = math.log(2)
UNDERFLOW = -1e4
"""A shifted logit below which 2^x is 0 in float64 too; raising -inf to it turns 0·(-inf) into 0."""


class TokenStatistics(NamedTuple):
    """Of the distribution that produced each token, in nats: log-prob of the token, entropy, varentropy; shape (N,)."""

    logprob_N: Tensor
    entropy_N: Tensor
    varentropy_N: Tensor


class NonFiniteLogits(InputError):
    """The logits of token `row` (an index into N) define no distribution: NaN, +inf, or −inf everywhere."""

    def __init__(self, row: int, found: str) -> None:
        super().__init__(
            f"Token row {row}: {found}, so its distribution does not exist. Check the checkpoint's weights for "
            "NaN or overflow, or load it in float32."
        )
        self.row = row
        self.found = found


class Tiles(Protocol):
    """Where logits come from: a block of rows is opened, then its tiles are asked for and may be overwritten.

    A tile holds z/`unit` with z the logits that the softmax sees. `unit` is positive; it is applied after the shift
    by the largest logit, where it rounds small numbers instead of large ones.
    """

    unit: float
    rows: int
    columns: int
    scratch: Tensor

    def open(self, first: int, last: int) -> None:
        """Turn to the token rows first … last (at most `rows`)."""

    def tile(self, start: int, stop: int) -> Tensor:
        """z/unit of the open rows for ids start … stop, shape (n, stop − start), stop − start ≤ `columns`."""


@dataclass(frozen=True)
class Sweep:
    """What one pass over all tiles gives: Σ e^z is 2^(`largest_N`·unit/log 2 + `log2_sum_N`), with the tiles' unit."""

    statistics: TokenStatistics
    unused_mass_N: Tensor
    largest_N: Tensor
    log2_sum_N: Tensor
    alternative_ids_Nm: Tensor
    alternative_logprobs_Nm: Tensor


class _Block:
    """Running state of n tokens, each of shape (n, 1); m and the logits in the tiles' unit, x in powers of two."""

    def __init__(self, targets_n: Tensor, tiles: Tiles, alternatives: int) -> None:
        self.targets = targets_n.unsqueeze(1)
        self.to_powers = tiles.unit / LOG_2
        # The lowest finite number, not −inf: it loses against any logit, and −inf − (−inf) never happens.
        dtype = tiles.scratch.dtype
        self.m = torch.full_like(self.targets, torch.finfo(dtype).min, dtype=dtype)
        self.s, self.t, self.u, self.unused = (torch.zeros_like(self.m) for _ in range(4))
        self.target_logit = torch.full_like(self.m, -torch.inf)
        self.alternatives = alternatives
        self.top_logits = self.m.new_empty(len(targets_n), 0)
        self.top_ids = self.targets.new_empty(len(targets_n), 0)

    def update(self, z_nv: Tensor, scratch_nv: Tensor, start: int, unused: bool) -> None:
        """Take in one tile of ids `start` onwards, overwriting it."""
        local = self.targets - start
        inside = (local >= 0) & (local < z_nv.shape[1])
        found = z_nv.gather(1, local.clamp_(0, z_nv.shape[1] - 1))
        self.target_logit = torch.where(inside, found, self.target_logit)
        if self.alternatives:
            self._keep_top(z_nv, start)

        m = torch.maximum(self.m, z_nv.amax(1, keepdim=True))
        shift = self.shifted(self.m, m)
        shrink = shift.exp2()
        self.u = shrink * (self.u + 2 * shift * self.t + shift * shift * self.s)
        self.t = shrink * (self.t + shift * self.s)
        self.s = shrink * self.s
        self.unused = shrink * self.unused
        self.m = m

        x, weight = self.shifted(z_nv, m, out=z_nv), scratch_nv
        torch.exp2(x, out=weight)
        mass = weight.sum(1, keepdim=True)
        self.s += mass
        if unused:
            self.unused += mass
        self.t += weight.mul_(x).sum(1, keepdim=True)
        self.u += weight.mul_(x).sum(1, keepdim=True)

    def shifted(self, z: Tensor, m: Tensor, out: Tensor | None = None) -> Tensor:
        """x = (z − m) in powers of two, never below where 2^x vanishes."""
        x = torch.sub(z, m, out=out)
        if self.to_powers != 1:
            x.mul_(self.to_powers)
        return x.clamp_(min=UNDERFLOW)

    def _keep_top(self, z_nv: Tensor, start: int) -> None:
        logits, ids = z_nv.topk(min(self.alternatives, z_nv.shape[1]), dim=1)
        logits, ids = torch.cat((self.top_logits, logits), 1), torch.cat((self.top_ids, ids + start), 1)
        self.top_logits, chosen = logits.topk(min(self.alternatives, logits.shape[1]), dim=1)
        self.top_ids = ids.gather(1, chosen)

    def finish(self, first: int) -> tuple[Tensor, ...]:
        """The columns of `Sweep`; `first` is the block's first row, for the error."""
        exists = self.s.squeeze(1) >= 1  # the largest logit alone contributes 1; NaN compares false
        if not bool(exists.all()):
            row = int(exists.int().argmin())
            empty = bool(self.s[row, 0] == 0)
            raise NonFiniteLogits(first + row, "every logit is -inf" if empty else "the logits hold NaN or +inf")
        log2_sum, mean = self.s.log2(), self.t / self.s
        columns = (
            self._logprob(self.target_logit, log2_sum),
            (log2_sum - mean) * LOG_2,
            (self.u / self.s - mean * mean).clamp_(min=0) * LOG_2**2,
            self.unused / self.s,
            self.m,
            log2_sum,
        )
        return (*(column.squeeze(1) for column in columns), self.top_ids, self._logprob(self.top_logits, log2_sum))

    def _logprob(self, logits: Tensor, log2_sum: Tensor) -> Tensor:
        return ((logits - self.m) * self.to_powers - log2_sum) * LOG_2


def sweep(tiles: Tiles, targets_N: Tensor, ids: int, tokenizer_size: int | None = None, alternatives: int = 0) -> Sweep:
    """Statistics of every token over `ids` vocabulary rows; rows from `tokenizer_size` on count as unused mass."""
    used = ids if tokenizer_size is None else min(tokenizer_size, ids)
    bounds = [*column_blocks(0, used, tiles.columns), *column_blocks(used, ids, tiles.columns)]
    blocks = []
    for first in range(0, max(len(targets_N), 1), tiles.rows):
        last = min(first + tiles.rows, len(targets_N))
        tiles.open(first, last)
        block = _Block(targets_N[first:last], tiles, alternatives)
        for start, stop in bounds:
            z_nv = tiles.tile(start, stop)
            block.update(z_nv, tiles.scratch[: z_nv.numel()].view_as(z_nv), start, start >= used)
        blocks.append(block.finish(first))
    logprob, entropy, varentropy, *rest = (torch.cat(column) for column in zip(*blocks, strict=True))
    return Sweep(TokenStatistics(logprob, entropy, varentropy), *rest)


def column_blocks(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
    """Bounds of consecutive tiles of at most `size` ids."""
    return ((a, min(a + size, stop)) for a in range(start, stop, size))
