"""CISPO: importance weights that are cut, so that no token's gradient is."""

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.clipping import log_ratio, ratio_of
from entropy_lab.training.objectives import Objective, Outcome
from entropy_lab.training.tokens import Now, Tokens


class Cispo(Objective):
    """−sg(min(r, cap))·A·logp: the policy gradient with a capped importance weight (MiniMax-M1's CISPO).

    r = exp(logp − old), sg stops gradients: every token keeps a gradient, of weight at most `cap`.
    """

    piece: ClassVar[str] = "cispo"

    cap: Annotated[float, Field(gt=0)] = 5.0
    """Largest weight itself, not its distance from 1."""

    def __call__(self, now: Now, tokens: Tokens, advantage_N: Tensor) -> Outcome:
        """The loss of each token, (N,); counted as clipped (`high_N`) where A > 0 and the weight is capped."""
        ratio_N = ratio_of(log_ratio(now, tokens).detach())
        loss_N = -ratio_N.clamp(max=self.cap) * advantage_N * now.logprob_N
        high_N = (ratio_N > self.cap) & (advantage_N > 0)
        return Outcome(loss_N, torch.zeros_like(high_N), high_N)
