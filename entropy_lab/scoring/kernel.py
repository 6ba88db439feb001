"""Exact token statistics from hidden states and the head's weight, forward and backward, in tiles that stay in cache.

Knows nothing about models or text: tensors and token ids only. CPU or accelerator, no compiler needed.
Shape letters: N tokens, H hidden size, V head rows, n tokens of a block, v ids of a tile, m alternatives.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from entropy_lab.errors import InputError
from entropy_lab.scoring.logit_gradient import Columns, TopTargets, logit_gradient
from entropy_lab.scoring.moments import TokenStatistics, column_blocks, sweep
from entropy_lab.scoring.tiles import HeadTiles, LogitMap, LogitTiles


class _TokenStatistics(torch.autograd.Function):
    """Saves five numbers a token and computes the tiles again on the way back."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden_NH: Tensor,
        weight_VH: Tensor,
        bias_V: Tensor | None,
        targets_N: Tensor,
        logit_map: LogitMap,
        softmax_fix: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        found = sweep(HeadTiles(hidden_NH, weight_VH, bias_V, logit_map), targets_N, weight_VH.shape[0])
        logprob_N, entropy_N, varentropy_N = found.statistics
        saved = (targets_N, found.largest_N, found.log2_sum_N, logprob_N, entropy_N, varentropy_N)
        ctx.save_for_backward(hidden_NH, weight_VH, bias_V, *saved)
        ctx.map, ctx.softmax_fix = logit_map, softmax_fix
        return logprob_N, entropy_N, varentropy_N

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients_N: Tensor) -> tuple[Tensor | None, ...]:
        hidden_NH, weight_VH, bias_V, *saved = ctx.saved_tensors
        columns = Columns(*saved, *gradients_N)
        targets_N = columns.targets
        tiles = HeadTiles(hidden_NH, weight_VH, bias_V, ctx.map)
        wants_hidden, wants_weight, wants_bias, *_ = ctx.needs_input_grad
        hidden_grad = torch.empty_like(hidden_NH) if wants_hidden else None
        # Sums over token blocks stay in the product's type until they are complete.
        weight_grad = torch.zeros_like(weight_VH, dtype=tiles.dtype) if wants_weight else None
        bias_grad = torch.zeros_like(bias_V, dtype=tiles.dtype) if wants_bias else None
        for first, last in column_blocks(0, len(hidden_NH), tiles.rows):
            tiles.open(first, last)
            tokens = columns.rows(first, last)
            top = TopTargets(tokens) if ctx.softmax_fix else None
            block_grad_nH = torch.zeros_like(tiles.hidden_nH) if wants_hidden else None
            for start, stop in column_blocks(0, len(weight_VH), tiles.columns):
                gradient_nv = logit_gradient(tiles, start, stop, tokens, top)
                if block_grad_nH is not None:
                    block_grad_nH.addmm_(gradient_nv, tiles.weight_rows(start, stop))
                if weight_grad is not None:
                    weight_grad[start:stop].addmm_(gradient_nv.T, tiles.hidden_nH)
                if bias_grad is not None:
                    bias_grad[start:stop] += gradient_nv.sum(0)
            if top is not None:
                ids_n, top_n1 = targets_N[first:last], top.gradient()
                if block_grad_nH is not None:
                    block_grad_nH.addcmul_(top_n1, weight_VH[ids_n].to(tiles.dtype))
                if weight_grad is not None:
                    weight_grad.index_add_(0, ids_n, top_n1 * tiles.hidden_nH)
                if bias_grad is not None:
                    bias_grad.index_add_(0, ids_n, top_n1.squeeze(1))
            if hidden_grad is not None and block_grad_nH is not None:
                hidden_grad[first:last] = block_grad_nH.mul_(ctx.map.scale)
        return (
            hidden_grad,
            None if weight_grad is None else weight_grad.mul_(1 / tiles.inner).to(weight_VH.dtype),
            None if bias_grad is None else bias_grad.to(bias_V.dtype),
            None,
            None,
            None,
        )


class FullStatistics(NamedTuple):
    """Token statistics with what a report adds; the m alternatives are sorted by falling probability."""

    logprob_N: Tensor
    entropy_N: Tensor
    varentropy_N: Tensor
    unused_mass_N: Tensor
    alternative_ids_Nm: Tensor
    alternative_probabilities_Nm: Tensor


def token_statistics(
    hidden_NH: Tensor,
    weight_VH: Tensor,
    targets_N: Tensor,
    *,
    temperature: float = 1.0,
    bias: Tensor | None = None,
    soft_cap: float | None = None,
    scale: float = 1.0,
    softmax_fix: bool = False,
) -> TokenStatistics:
    """Log-prob of each target and entropy and varentropy of its distribution, over all V head rows, in nats.

    `hidden_NH` (N, H) the last hidden states, `weight_VH` (V, H) the head, `targets_N` (N,) token ids. The logits are,
    in this order, z = scale·(hidden @ weightᵀ); z = z + bias, (V,); z = soft_cap·tanh(z/soft_cap); z = z/temperature.
    As in transformers: `scale` is Cohere's logit_scale or 1/logits_scaling of Granite, `soft_cap` is Gemma 2's
    final_logit_softcapping. With p = softmax(z): logprob = log p(target), H = −Σ p log p,
    varentropy = Σ p (log p + H)².

    Half-precision inputs are multiplied, accumulated and kept in float32, and give float32; any float64 input gives
    float64 throughout. At most 64 MiB beside the outputs on a CPU (256 MiB on an accelerator), whatever N and V.
    Gradients with respect to hidden, weight and bias are exact for all three outputs; the way back needs a float32
    gradient of the weight besides, where one is wanted, and gives no second derivatives.

    `softmax_fix` repairs what float32 loses where the target is nearly certain: with 1 − p about 1e-7 or less its own
    gradient 1 − p comes out as 0 while the other ids' gradients still sum to −(1 − p). With the fix the gradient by the
    logit of a target with p > 1/2 is minus the sum of the others', −expm1(log p) for the log-prob, so that the row's
    gradients sum to 0. It costs about a hundredth of the way back of a large head.

    A −inf logit (a masked id: bias −inf, no soft cap) has probability 0 and all values stay finite, except the log-prob
    of a target that is itself masked, which is −inf. Masking by −inf in the weight works forward only.

    Raises `NonFiniteLogits`, naming the row, for NaN or +inf logits or a row with no finite one; `InputError` for
    shapes that do not fit, targets outside V, or a temperature, soft cap or scale that is not a usable number.
    """
    logit_map = LogitMap(temperature, soft_cap, scale)
    _check_shapes(hidden_NH, weight_VH, bias)
    _check_targets(targets_N, hidden_NH.shape[0], weight_VH.shape[0])
    return TokenStatistics(
        *_TokenStatistics.apply(hidden_NH, weight_VH, bias, targets_N.long(), logit_map, softmax_fix)
    )


@torch.no_grad()
def full_statistics(
    hidden_NH: Tensor,
    weight_VH: Tensor,
    targets_N: Tensor,
    *,
    temperature: float = 1.0,
    bias: Tensor | None = None,
    soft_cap: float | None = None,
    scale: float = 1.0,
    tokenizer_size: int | None = None,
    mask_unused: bool = False,
    alternatives: int = 0,
) -> FullStatistics:
    """`token_statistics` without gradients, with the mass of unused head rows and the most probable alternatives.

    `unused_mass_N` is the probability of ids from `tokenizer_size` on (0 without one). `mask_unused` drops those
    rows, so that the rest is normalised without them; a target among them then has log-prob −inf.
    `alternatives` is m, the number of most probable ids to return, at most V.
    """
    logit_map = LogitMap(temperature, soft_cap, scale)
    _check_shapes(hidden_NH, weight_VH, bias)
    vocabulary = weight_VH.shape[0]
    _check_targets(targets_N, hidden_NH.shape[0], vocabulary)
    used = vocabulary if tokenizer_size is None else min(tokenizer_size, vocabulary)
    tiles = HeadTiles(hidden_NH, weight_VH, bias, logit_map)
    found = sweep(tiles, targets_N.long(), used if mask_unused else vocabulary, used, alternatives)
    return FullStatistics(
        *found.statistics, found.unused_mass_N, found.alternative_ids_Nm, found.alternative_logprobs_Nm.exp()
    )


def statistics_from_logits(logits_NV: Tensor, targets_N: Tensor, temperature: float = 1.0) -> TokenStatistics:
    """Token statistics of logits that a decode step has computed anyway, already soft-capped and scaled.

    `logits_NV` (N, V) of any floating type, kept unchanged; `targets_N` (N,) the sampled ids. The statistics are of
    softmax(logits/temperature) over all V ids, float32 (float64 for float64 logits). −inf logits have probability 0;
    a target among them has log-prob −inf. No gradients: `token_statistics` gives those.

    Raises `NonFiniteLogits` for a row with NaN, +inf or only −inf; `InputError` for targets outside V, a temperature
    that is not positive, or logits that require gradients.
    """
    if torch.is_grad_enabled() and logits_NV.requires_grad:
        raise InputError("statistics_from_logits gives no gradients; use token_statistics, or call it under no_grad.")
    _check_targets(targets_N, logits_NV.shape[0], logits_NV.shape[1])
    tiles = LogitTiles(logits_NV, LogitMap(temperature))
    return sweep(tiles, targets_N.long(), logits_NV.shape[1]).statistics


def _check_shapes(hidden_NH: Tensor, weight_VH: Tensor, bias_V: Tensor | None) -> None:
    if hidden_NH.ndim != 2 or weight_VH.ndim != 2 or hidden_NH.shape[1] != weight_VH.shape[1] or not len(weight_VH):
        raise InputError(
            f"hidden must have shape (N, H) and weight (V, H) with V > 0, not {tuple(hidden_NH.shape)} and "
            f"{tuple(weight_VH.shape)}; flatten batch and position into N first."
        )
    if not (hidden_NH.is_floating_point() and weight_VH.is_floating_point()):
        raise InputError(f"hidden and weight must be floating point, not {hidden_NH.dtype} and {weight_VH.dtype}.")
    if bias_V is not None and bias_V.shape != weight_VH.shape[:1]:
        raise InputError(f"bias must have shape ({weight_VH.shape[0]},), not {tuple(bias_V.shape)}.")


def _check_targets(targets_N: Tensor, tokens: int, vocabulary: int) -> None:
    """Raise `InputError` unless `targets_N` holds one vocabulary id for each of `tokens` rows."""
    if targets_N.shape != (tokens,) or targets_N.is_floating_point() or targets_N.dtype == torch.bool:
        raise InputError(
            f"targets must be {tokens} token ids in one dimension, one a row, not {targets_N.dtype} of shape "
            f"{tuple(targets_N.shape)}."
        )
    outside = (targets_N < 0) | (targets_N >= vocabulary)
    if bool(outside.any()):
        row = int(outside.int().argmax())
        raise InputError(
            f"targets[{row}] is {int(targets_N[row])}, outside the head's {vocabulary} rows; "
            "score with the checkpoint whose tokenizer made the ids."
        )
