"""SAPO: a soft gate in the place of a clip."""

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.clipping import log_ratio, ratio_of
from entropy_lab.training.objectives import Objective, Outcome
from entropy_lab.training.tokens import Now, Tokens

Temperature = Annotated[float, Field(gt=0)]


class Sapo(Objective):
    """−A·σ(τ(r − 1))·4/τ: a gate that fades smoothly as the ratio leaves 1 (SAPO, Gao et al. 2025).

    r = exp(logp − old). The derivative with respect to r is −A at r = 1 for every τ and falls off on both sides.
    The published reduction is `sequence-mean`.
    """

    piece: ClassVar[str] = "sapo"

    tau_positive: Temperature = 1.0
    """τ where A > 0."""
    tau_negative: Temperature = 1.05
    """τ elsewhere: tokens that lost fade sooner."""

    def __call__(self, now: Now, tokens: Tokens, advantage_N: Tensor) -> Outcome:
        """The loss of each token, (N,)."""
        tau_N = torch.where(advantage_N > 0, self.tau_positive, self.tau_negative)
        gate_N = torch.sigmoid(tau_N * (ratio_of(log_ratio(now, tokens)) - 1)) * 4 / tau_N
        return Outcome(-advantage_N * gate_N)
