"""Importance ratios and the clipped surrogate that the objectives share, with the dual clip as an option.

Shape letters: N tokens.
"""

from typing import Annotated

import torch
from pydantic import AfterValidator, Field
from torch import Tensor

from entropy_lab.training.columns import needed
from entropy_lab.training.objectives import Outcome
from entropy_lab.training.tokens import Now, Tokens

LARGEST_LOG_RATIO = 20.0
"""Log-ratios (nats) are held within ± this before they are exponentiated: a token 5e8 times as likely as it was, far
beyond any ratio of an update, would otherwise make infinite losses and NaN gradients. Beyond it no gradient flows."""


def _off_or_above_one(dual: float) -> float:
    if dual and dual <= 1:
        raise ValueError("must be 0 (off) or greater than 1, as 3 or 10")
    return dual


Low = Annotated[float, Field(ge=0, lt=1)]
High = Annotated[float, Field(ge=0)]
Dual = Annotated[float, AfterValidator(_off_or_above_one)]


def log_ratio(now: Now, tokens: Tokens) -> Tensor:
    """logp − old, the log-probs of each token now and before this iteration's first step, nats, (N,)."""
    return now.logprob_N - needed(tokens.old_logprob_N, "old_logprob_N")


def ratio_of(log_ratio_N: Tensor) -> Tensor:
    """exp(log-ratio), the log-ratio held within ±`LARGEST_LOG_RATIO`; exactly 1 at equal log-probs."""
    return log_ratio_N.clamp(-LARGEST_LOG_RATIO, LARGEST_LOG_RATIO).exp()


def clipped_surrogate(ratio_N: Tensor, advantage_N: Tensor, lower: float, upper: float, dual: float = 0.0) -> Outcome:
    """PPO's pessimistic loss −min(r·A, clip(r, lower, upper)·A) of each token, (N,), and which tokens it cuts off.

    With `dual` = c > 1 (dual clip) the objective of a token with A < 0 is at least c·A: max(min(r·A, clip(r)·A), c·A).
    """
    # Both are −A·r with r held from one side: A > 0 gains nothing above `upper`; A < 0 nothing below `lower`, and loses
    # no more above c, where its gradient vanishes too.
    gains_N, loses_N = advantage_N > 0, advantage_N < 0
    held_N = torch.where(gains_N, ratio_N.clamp(max=upper), ratio_N.clamp(lower, dual or None))
    loss_N = -advantage_N * held_N
    return Outcome(loss_N, (ratio_N < lower) & loses_N, (ratio_N > upper) & gains_N)
