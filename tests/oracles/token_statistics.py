"""Token statistics by definition: every logit at once, float64, sums over p as definitions state them."""

from typing import NamedTuple

import torch
from torch import Tensor


class Statistics(NamedTuple):
    logprob: Tensor
    entropy: Tensor
    varentropy: Tensor


def logits_by_definition(
    hidden: Tensor,
    weight: Tensor,
    *,
    temperature: float = 1.0,
    bias: Tensor | None = None,
    soft_cap: float | None = None,
    scale: float = 1.0,
) -> Tensor:
    """All logits at once: scale, then bias, then cap, then temperature."""
    z = scale * (hidden.double() @ weight.double().T)
    if bias is not None:
        z = z + bias.double()
    if soft_cap is not None:
        z = soft_cap * torch.tanh(z / soft_cap)
    return z / temperature


def statistics_by_definition(logits: Tensor, targets: Tensor) -> Statistics:
    """log p(target), −Σ p log p and Σ p (log p + H)², with 0·log 0 = 0; differentiable."""
    logp = torch.log_softmax(logits.double(), -1)
    p = logp.exp()
    finite = torch.where(p > 0, logp, 0.0)
    entropy = -(p * finite).sum(-1)
    varentropy = (p * (finite + entropy.unsqueeze(-1)) ** 2).sum(-1)
    return Statistics(logp.gather(-1, targets.unsqueeze(-1)).squeeze(-1), entropy, varentropy)
