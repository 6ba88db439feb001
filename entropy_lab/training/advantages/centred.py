"""Rewards minus their group's mean."""

from typing import ClassVar

from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep
from entropy_lab.training.grouping import grouped
from entropy_lab.training.tokens import Tokens


class Centred(AdvantageStep):
    """A = r − mean of the group: the baseline of Dr.GRPO and FR3E.

    r is a row's reward, the same at all its tokens (Liu et al. 2025). Rewards 1, 0, 0, 0 give .75, −.25, −.25, −.25.
    """

    piece: ClassVar[str] = "centred"

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,), in units of reward; what came before is not used."""
        return tokens.spread(grouped(tokens.reward_R, tokens.group_R).centred_R.to(advantage_N))
