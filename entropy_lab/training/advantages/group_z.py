"""Rewards as z-scores within their group."""

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep
from entropy_lab.training.grouping import grouped
from entropy_lab.training.tokens import Tokens


class GroupZ(AdvantageStep):
    """A = (r − mean)/(std + epsilon) within the group: the baseline of GRPO.

    r is a row's reward, the same at all its tokens; std has ddof 1 (Shao et al. 2024). A group whose rewards are equal
    up to rounding gives exactly 0, however small epsilon is. Rewards 1, 0, 0, 0 give 1.4997, −.4999, −.4999, −.4999.
    """

    piece: ClassVar[str] = "group-z"

    epsilon: Annotated[float, Field(gt=0)] = 1e-4
    """Added to the standard deviation, in units of reward."""

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,), without a unit; what came before is not used."""
        centred_R, deviation_R, _ = grouped(tokens.reward_R, tokens.group_R)
        return tokens.spread((centred_R / (deviation_R + self.epsilon)).to(advantage_N))
