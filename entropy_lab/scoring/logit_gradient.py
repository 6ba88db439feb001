"""Gradient of the token statistics with respect to the logits, tile by tile, with what float32 loses of it.

Shape letters: N tokens, n tokens of a block, v ids of a tile. Nothing of size [tokens, vocabulary] is kept.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from entropy_lab.scoring.moments import LOG_2, UNDERFLOW
from entropy_lab.scoring.tiles import HeadTiles


class Columns(NamedTuple):
    """What the way back needs of each token, shape (N,): the forward's numbers and the incoming gradients."""

    targets: Tensor
    largest: Tensor
    log2_sum: Tensor
    logprob: Tensor
    entropy: Tensor
    varentropy: Tensor
    by_logprob: Tensor
    by_entropy: Tensor
    by_varentropy: Tensor

    def rows(self, first: int, last: int) -> "Columns":
        """The tokens first … last, each column of shape (n, 1)."""
        return Columns(*(column[first:last].unsqueeze(1) for column in self))


class TopTargets:
    """Gradients of the targets with p > 1/2, as minus the sum of the other ids'; gathered while the tiles pass.

    A row's gradients by its logits sum to 0. With 1 − p about 1e-7 the target's own, 1 − p for the log-prob, is 0 or a
    multiple of 6e-8 in float32, while the other ids' gradients −p hold seven digits. Minus their sum is −expm1(log p),
    as if 1 − p had been computed exactly; alike for entropy and varentropy. Less likely targets lose no digits.
    """

    def __init__(self, tokens: Columns) -> None:
        self._top = tokens.logprob > -LOG_2
        self._others = torch.zeros_like(tokens.by_logprob, dtype=torch.float64)
        self._slope = torch.ones_like(tokens.by_logprob)

    def take_from(self, gradient_nv: Tensor, slope: Tensor | float, place_n1: Tensor, inside_n1: Tensor) -> None:
        """Leave 0 for these targets in one tile; `place_n1` is the target's column where `inside_n1`."""
        own_n1 = gradient_nv.gather(1, place_n1).masked_fill_(self._top & inside_n1, 0.0)
        self._others += gradient_nv.scatter_(1, place_n1, own_n1).sum(1, keepdim=True)
        found_n1 = slope if isinstance(slope, float) else slope.gather(1, place_n1)
        self._slope = torch.where(inside_n1, found_n1, self._slope)

    def gradient(self) -> Tensor:
        """Of each target by scale·hidden·weight + bias, (n, 1); 0 where it was left in its tile."""
        return torch.where(self._top, -self._others.to(self._slope.dtype) * self._slope, 0.0)


def logit_gradient(tiles: HeadTiles, start: int, stop: int, tokens: Columns, top: TopTargets | None = None) -> Tensor:
    """Gradient with respect to scale·hidden·weight + bias at ids start … stop of the open block, shape (n, v).

    With a = log p + H: ∂logp/∂z = 1[target] − p, ∂H/∂z = −p·a, ∂varentropy/∂z = p·(a² + 2a − varentropy).
    With `top` the targets that it gathers are left out.
    """
    z = tiles.tile(start, stop)
    slope = tiles.slope(z)
    log2_p = z.sub_(tokens.largest).sub_(tokens.log2_sum).clamp_(min=UNDERFLOW)
    p = torch.exp2(log2_p, out=tiles.scratch[: z.numel()].view_as(z))
    a = log2_p.mul_(LOG_2).add_(tokens.entropy)
    # p·(g_V·a² + (2·g_V − g_H)·a − g_V·varentropy − g_logp), in Horner's form.
    gradient = (a * tokens.by_varentropy).add_(2 * tokens.by_varentropy - tokens.by_entropy).mul_(a)
    gradient.sub_(tokens.by_varentropy * tokens.varentropy + tokens.by_logprob).mul_(p)
    local = tokens.targets - start
    inside = (local >= 0) & (local < stop - start)
    local.clamp_(0, stop - start - 1)
    gradient.scatter_add_(1, local, tokens.by_logprob * inside)
    if top is not None:
        top.take_from(gradient, slope, local, inside)
    return gradient.mul_(slope)
