"""One token a row out of [rows, vocabulary] logits, and the exact statistics of the distribution it came from.

The exponentials are computed once, in tiles of rows that stay in the processor's cache, and serve both the
statistics and the draw. The draw inverts the cumulative distribution at a uniform number that the caller brings.

Shape letters: R rows, V vocabulary, B blocks of `BLOCK` ids.
"""

from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 256  # ids a block: the cumulative sum runs over V / BLOCK numbers, then over BLOCK numbers
CACHE_BYTES = 6 * 2**20  # of logits worked on at a time on a processor with caches; ours
DEVICE_BYTES = 2**28  # of logits worked on at a time on an accelerator; ours
FLOOR = -1e30  # stands for a shifted logit of −inf: its exponential is 0, and 0 · FLOOR is 0 where 0 · −inf is NaN


class Draws(NamedTuple):
    """One drawn token a row and its statistics, all shape (R,); nats; float64 where the logits are, else float32.

    `logprobs_R` is the log-probability under the distribution that was drawn from (after top-k and top-p; 0 for a
    greedy choice). `logprob_R`, `entropy_R` and `varentropy_R` belong to the full vocabulary at the temperature, or
    at temperature 1 for a greedy choice. NaN or +inf logits give a NaN entropy. `certainty_R` is KL(U‖p) over the ids
    whose logit is not −inf; `twin_R` an independent second draw. Both are None unless asked for.
    """

    token_R: Tensor
    logprobs_R: Tensor
    logprob_R: Tensor
    entropy_R: Tensor
    varentropy_R: Tensor
    certainty_R: Tensor | None = None
    twin_R: Tensor | None = None


def draw(
    logits_RV: Tensor,
    uniform_R: Tensor,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    *,
    certainty: bool = False,
    twin_uniform_R: Tensor | None = None,
) -> Draws:
    """Draw token `F⁻¹(u)` of softmax(logits / temperature) for each row's own uniform number u in [0, 1).

    `logits_RV` is float32 or float64, `uniform_R` float64 on the same device. Temperature 0 takes the first of the
    largest logits. `top_k` > 0 keeps the k likeliest tokens, `top_p` < 1 then the fewest tokens that hold at least
    this share of what is left (ties go to the smaller id). Statistics in the shifted form: with m = max z,
    d = (z − m) / T, s = Σ e^d, t = Σ e^d d and u = Σ e^d d², H = log s − t / s and varentropy = u / s − (t / s)².
    `certainty` asks for KL(U‖p) = log s − log V − Σ d / V, `twin_uniform_R` is the uniform number of a second draw.
    """
    budget = CACHE_BYTES if logits_RV.device.type == "cpu" else DEVICE_BYTES
    tile = max(1, budget // (logits_RV.shape[1] * logits_RV.element_size()))
    width = -(-logits_RV.shape[1] // BLOCK) * BLOCK
    shifted, weight, moment = logits_RV.new_zeros(3, min(tile, len(logits_RV)), width)
    twin_u_R = uniform_R if twin_uniform_R is None else twin_uniform_R
    tiles = [
        _draw_tile(
            z,
            u,
            twin_u if twin_uniform_R is not None else None,
            temperature,
            top_k,
            top_p,
            certainty,
            (shifted[: len(z)], weight[: len(z)], moment[: len(z)]),
        )
        for z, u, twin_u in zip(logits_RV.split(tile), uniform_R.split(tile), twin_u_R.split(tile), strict=True)
    ]
    if len(tiles) == 1:
        return tiles[0]
    columns = (None if column[0] is None else torch.cat(column) for column in zip(*tiles, strict=True))
    return Draws(*columns)  # type: ignore[arg-type]  # a column is None in all tiles or in none


def _draw_tile(
    logits_RV: Tensor,
    uniform_R: Tensor,
    twin_uniform_R: Tensor | None,
    temperature: float,
    top_k: int,
    top_p: float,
    certainty: bool,
    buffers: tuple[Tensor, Tensor, Tensor],
) -> Draws:
    """Draw for one tile; the three buffers [R, V rounded up to blocks] hold zeros past V, and keep them."""
    shifted, weight, moment = buffers
    V = logits_RV.shape[1]
    d_RV, e_RV = shifted[:, :V], weight[:, :V]
    maximum_R1 = logits_RV.amax(1, keepdim=True)
    torch.sub(logits_RV, maximum_R1, out=d_RV)
    if temperature not in (0.0, 1.0):
        d_RV.div_(temperature)
    torch.exp(d_RV, out=e_RV)
    sums_RB = _block_sums(weight)
    s_R = sums_RB.sum(1)
    t_R = _block_sums(torch.mul(weight, shifted, out=moment)).sum(1)
    if not bool(torch.isfinite(t_R).all()):
        d_RV.clamp_(min=FLOOR)  # masked rows of the head: rare enough for a second pass
        t_R = _block_sums(torch.mul(weight, shifted, out=moment)).sum(1)
    u_R = _block_sums(moment.mul_(shifted)).sum(1)

    mean_R = t_R / s_R
    log_s_R = s_R.log()
    entropy_R = (log_s_R - mean_R).clamp_(min=0.0)
    varentropy_R = (u_R / s_R - mean_R.square()).clamp_(min=0.0)

    certainty_R = _certainty(d_RV, log_s_R) if certainty else None
    log_kept_R = log_s_R
    twin_R = None
    if temperature == 0:
        token_R = logits_RV.argmax(1)
        twin_R = token_R if twin_uniform_R is not None else None
    else:
        if top_k > 0 or top_p < 1:
            _truncate(e_RV, top_k, top_p)
            sums_RB = _block_sums(weight)
            log_kept_R = sums_RB.sum(1).log()
        token_R = _invert(weight, sums_RB, uniform_R).clamp_(max=V - 1)  # a NaN row would point past the end
        if twin_uniform_R is not None:
            twin_R = _invert(weight, sums_RB, twin_uniform_R).clamp_(max=V - 1)
    d_R = d_RV.gather(1, token_R[:, None])[:, 0].double()
    logprob_R = (d_R - log_s_R).clamp_(max=0.0)
    logprobs_R = torch.zeros_like(logprob_R) if temperature == 0 else (d_R - log_kept_R).clamp_(max=0.0)
    dtype = logits_RV.dtype
    return Draws(
        token_R,
        logprobs_R.to(dtype),
        logprob_R.to(dtype),
        entropy_R.to(dtype),
        varentropy_R.to(dtype),
        None if certainty_R is None else certainty_R.to(dtype),
        twin_R,
    )


def _certainty(d_RV: Tensor, log_s_R: Tensor) -> Tensor:
    """KL(U‖p) = −mean log p − log V, over the ids that have a probability at all."""
    possible_RV = d_RV > FLOOR / 2
    count_R = possible_RV.sum(1).double()
    total_R = torch.where(possible_RV, d_RV, 0.0).sum(1, dtype=torch.float64)
    return (log_s_R - total_R / count_R - count_R.log()).clamp_(min=0.0)


def _block_sums(values: Tensor) -> Tensor:
    """Sums over blocks of ids, float64, shape (R, B)."""
    return values.view(len(values), -1, BLOCK).sum(2).double()


def _truncate(weight_RV: Tensor, top_k: int, top_p: float) -> None:
    """Set the weights outside the top-k, then outside the top-p, to 0."""
    ranked_RV, id_RV = weight_RV.sort(dim=1, descending=True, stable=True)
    if 0 < top_k < ranked_RV.shape[1]:
        ranked_RV[:, top_k:] = 0
    if top_p < 1:
        cumulative_RV = ranked_RV.double().cumsum(1)
        before_RV = cumulative_RV - ranked_RV
        ranked_RV[before_RV >= top_p * cumulative_RV[:, -1:]] = 0
    weight_RV.scatter_(1, id_RV, ranked_RV)


def _invert(weight: Tensor, sums_RB: Tensor, uniform_R: Tensor) -> Tensor:
    """The token whose stretch of the cumulative weights holds u: the block first, then the id within it."""
    cumulative_RB = sums_RB.cumsum(1)
    block_R1, rest_R1 = _locate(cumulative_RB, uniform_R[:, None] * cumulative_RB[:, -1:])
    sum_R1 = sums_RB.gather(1, block_R1)
    inner = weight.view(*sums_RB.shape, BLOCK).gather(1, block_R1[:, :, None].expand(-1, -1, BLOCK))[:, 0].double()
    inner = inner.cumsum(1)
    id_R1, _ = _locate(inner, rest_R1 / sum_R1 * inner[:, -1:])
    return (block_R1 * BLOCK + id_R1)[:, 0]


def _locate(cumulative: Tensor, target_R1: Tensor) -> tuple[Tensor, Tensor]:
    """First column whose cumulative weight exceeds the target, and how far into that column the target lies."""
    total_R1 = cumulative[:, -1:]
    target_R1 = torch.minimum(target_R1.clamp(min=0), torch.nextafter(total_R1, torch.zeros_like(total_R1)))
    column_R1 = torch.searchsorted(cumulative, target_R1, right=True).clamp_(max=cumulative.shape[1] - 1)
    before_R1 = cumulative.gather(1, (column_R1 - 1).clamp_(min=0)) * (column_R1 > 0)
    return column_R1, target_R1 - before_R1
