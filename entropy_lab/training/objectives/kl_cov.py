"""KL-Cov: no clip; the tokens that would cost most entropy are held where they were."""

import math
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.clipping import log_ratio, ratio_of
from entropy_lab.training.columns import needed
from entropy_lab.training.covariance import covariance
from entropy_lab.training.objectives import Objective, Outcome
from entropy_lab.training.tokens import Now, Tokens


class KlCov(Objective):
    """−A·r, plus β·|logp − old| on the tokens of highest covariance of A and logp: KL-Cov.

    r = exp(logp − old), unclipped. The k = max(1, ⌊share·N⌋) tokens of highest (A − mean A)(logp − mean logp), over the
    batch before its first update, are held (Cui et al. 2025; choosing once an iteration, and the first ones where
    values tie, is ours). Published shares: 2e-4 for large models, 2e-3 for small ones, 2e-2 for rewards without a
    verifier.
    """

    piece: ClassVar[str] = "kl-cov"
    needs_batch: ClassVar[bool] = True

    share: Annotated[float, Field(gt=0, le=1)] = 2e-3
    beta: Annotated[float, Field(ge=0)] = 1.0

    def mark(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """1 at the tokens that are held, (N,)."""
        covariance_N = covariance(advantage_N, needed(tokens.old_logprob_N, "old_logprob_N"))
        held_N = torch.zeros_like(covariance_N)
        count = max(1, math.floor(round(self.share * len(covariance_N), 6)))
        held_N[covariance_N.argsort(descending=True, stable=True)[:count]] = 1
        return held_N

    def __call__(self, now: Now, tokens: Tokens, advantage_N: Tensor) -> Outcome:
        """The loss of each token, (N,); nothing is clipped."""
        log_ratio_N = log_ratio(now, tokens)
        held_N = needed(tokens.mark_N, "mark_N")
        return Outcome(-advantage_N * ratio_of(log_ratio_N) + self.beta * held_N * log_ratio_N.abs())
