"""Keeping the policy near the checkpoint it started from."""

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.columns import needed
from entropy_lab.training.penalties import Penalty
from entropy_lab.training.tokens import Now, Tokens

LARGEST = 20.0
"""Above this, in nats, ref − logp is held where it is, so that k3 stays finite (ours)."""


class ReferenceKl(Penalty):
    """weight · KL(policy ‖ reference), estimated at each sampled token from its log-probs.

    With logp of the policy and ref of the checkpoint the run started from, in nats: k1 = logp − ref, unbiased;
    k3 = exp(ref − logp) − (ref − logp) − 1, unbiased, never negative and of lower variance (Schulman 2020; GRPO's loss,
    Shao et al. 2024, weight .04). On tokens that the policy itself drew, the gradient of k1 has mean 0: it measures the
    distance but does not pull; k3 does.
    """

    piece: ClassVar[str] = "reference-kl"
    needs_reference: ClassVar[bool] = True

    estimator: Literal["k1", "k3"] = "k3"
    weight: Annotated[float, Field(ge=0)] = 0.04
    """Loss for each nat."""

    def __call__(self, now: Now, tokens: Tokens) -> Tensor:
        """`weight` times the estimate at each token, (N,)."""
        reference_N = needed(tokens.reference_logprob_N, "reference_logprob_N").detach()
        log_ratio_N = (reference_N - now.logprob_N).clamp(max=LARGEST)
        if self.estimator == "k1":
            return -self.weight * log_ratio_N
        return self.weight * (torch.expm1(log_ratio_N) - log_ratio_N)
