"""Rewards minus the mean of the other rows of their group."""

from typing import ClassVar

from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep
from entropy_lab.training.grouping import grouped
from entropy_lab.training.tokens import Tokens


class LeaveOneOut(AdvantageStep):
    """A = r − mean of the group's other rows: the baseline of RLOO and LOOP.

    r is a row's reward, the same at all its tokens (Ahmadian et al. 2024). A row that is alone in its group has nothing
    to be compared with and gives 0. Rewards 1, 0, 0, 0 give 1, −1/3, −1/3, −1/3.
    """

    piece: ClassVar[str] = "leave-one-out"

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,), in units of reward; what came before is not used."""
        centred_R, _, size_R = grouped(tokens.reward_R, tokens.group_R)
        return tokens.spread((centred_R * size_R / (size_R - 1).clamp(min=1)).to(advantage_N))
