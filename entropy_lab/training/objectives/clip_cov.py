"""Clip-Cov: a few of the tokens that would cost entropy, drawn at random, are left out of the clipped surrogate."""

import hashlib
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.clipping import Dual, High, Low, clipped_surrogate, log_ratio, ratio_of
from entropy_lab.training.columns import needed
from entropy_lab.training.covariance import covariance
from entropy_lab.training.objectives import Objective, Outcome
from entropy_lab.training.tokens import Now, Tokens


class ClipCov(Objective):
    """The clipped surrogate without some tokens whose A and logp go together: Clip-Cov.

    Of the tokens with lowest < (A − mean A)(logp − mean logp) < highest over the batch, max(1, ⌊share·N⌋) at random
    have no loss (Cui et al. 2025). They are drawn once an iteration, before its first update, when nothing is clipped
    yet (ours); the draw is seeded by the batch's own log-probs, so a repeated iteration draws the same.
    """

    piece: ClassVar[str] = "clip-cov"
    needs_batch: ClassVar[bool] = True

    low: Low = 0.2
    high: High = 0.2
    dual: Dual = 0.0
    """Dual clip, as of `clipped`; 0: off."""
    share: Annotated[float, Field(gt=0, le=1)] = 2e-4
    lowest: float = 1.0
    highest: float = 5.0

    def mark(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """1 at the tokens that have no loss, (N,)."""
        logprob_N = needed(tokens.old_logprob_N, "old_logprob_N")
        covariance_N = covariance(advantage_N, logprob_N)
        candidates = torch.nonzero((covariance_N > self.lowest) & (covariance_N < self.highest))[:, 0].cpu()
        count = max(1, int(round(self.share * len(covariance_N), 6)))
        drawn = torch.randperm(len(candidates), generator=_generator(logprob_N))[:count]
        left_out_N = torch.zeros_like(covariance_N)
        left_out_N[candidates[drawn]] = 1
        return left_out_N

    def __call__(self, now: Now, tokens: Tokens, advantage_N: Tensor) -> Outcome:
        """The loss of each token, (N,), and the tokens that the ratio's bounds cut off."""
        kept_N = 1 - needed(tokens.mark_N, "mark_N")
        ratio_N = ratio_of(log_ratio(now, tokens))
        return clipped_surrogate(ratio_N, advantage_N * kept_N, 1 - self.low, 1 + self.high, self.dual)


def _generator(values_N: Tensor) -> torch.Generator:
    content = values_N.detach().float().cpu().numpy().tobytes()
    return torch.Generator().manual_seed(int.from_bytes(hashlib.blake2b(content, digest_size=7).digest()))
