"""SAF: a teacher's opinion of each token beside the reward's, of the few tokens where the two models differ most."""

import math
from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep, Needs
from entropy_lab.training.columns import needed
from entropy_lab.training.tokens import Tokens


class Saf(AdvantageStep):
    """A′ = A + coefficient · factor · c·tanh(d), d = log π_teacher − log π_old on the top tokens: SAF.

    On-policy distillation in four stages: (1) of each row's n tokens the max(1, ⌊share·n⌋) with the largest |d| keep
    it, the first ones where values tie, others get 0 (rounding down is ours); (2) d becomes c·tanh(d), c = `scale`;
    (3) and (4), a warm-up and an annealing, live in `factor`, which the controller `saf-schedule` sets. d = (−3, .1,
    .5, −.2, 2, 0, .05, −.4, 1, −.01) keeps two: −.09951 and +.0964.
    """

    piece: ClassVar[str] = "saf"
    needs_teacher: ClassVar[bool] = True

    share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Part of a row's tokens that is kept; 1 keeps all (stage 1 off)."""
    scale: Annotated[float, Field(ge=0)] = 0.1
    """c; 0 leaves d as it is (stage 2 off)."""
    coefficient: Annotated[float, Field(ge=0)] = 1.0
    factor: Annotated[float, Field(ge=0, le=1)] = 1.0

    @property
    def needs(self) -> Needs:
        """See `AdvantageStep`."""
        return "tokens"

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,)."""
        teacher_N = needed(tokens.teacher_logprob_N, "teacher_logprob_N")
        return advantage_N + self.coefficient * self.factor * self.opinion(
            teacher_N - needed(tokens.old_logprob_N, "old_logprob_N").detach(), tokens
        )

    def opinion(self, difference_N: Tensor, tokens: Tokens) -> Tensor:
        """Stages 1 and 2, (N,)."""
        kept_N = torch.zeros_like(difference_N)
        for place_n in torch.arange(len(difference_N), device=difference_N.device).split(tokens.length_R.tolist()):
            # Rounded first, so that a product such as .29 · 100 = 28.999… counts as 29.
            count = max(1, math.floor(round(self.share * len(place_n), 6)))
            top_n = place_n[difference_N[place_n].abs().argsort(descending=True, stable=True)[:count]]
            kept_N[top_n] = difference_N[top_n]
        return self.scale * torch.tanh(kept_N) if self.scale else kept_N
