"""GDPO: every reward channel gets a baseline of its own before the channels are added."""

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep
from entropy_lab.training.grouping import grouped
from entropy_lab.training.tokens import Tokens


class Gdpo(AdvantageStep):
    """A = z_batch(Σ_c weight_c · z_group(r_c)): GDPO, a baseline for several rewards.

    z_group = (r − mean)/(std + epsilon) within the group, ddof 1, is taken of each channel alone, so that one which
    varies little, or two that cancel, still count; a channel that is flat within a group adds 0 there. The sum is
    standardised over the rows of the batch (rows, not tokens: ours; ddof 1). Two channels, one or both right: adding
    first gives ±.707 either way, GDPO ±.707 and ±1.414 before the last step.
    """

    piece: ClassVar[str] = "gdpo"

    epsilon: Annotated[float, Field(gt=0)] = 1e-4
    """Added to both standard deviations."""

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,), without a unit; what came before is not used."""
        summed_R = self.summed(tokens)
        if len(summed_R) < 2:
            return torch.zeros_like(advantage_N)
        standard_R = (summed_R - summed_R.mean()) / (summed_R.std() + self.epsilon)
        return tokens.spread(standard_R.to(advantage_N))

    def summed(self, tokens: Tokens) -> Tensor:
        """Σ_c weight_c · z_group(r_c) of each row, (R,), in float64 on the CPU."""
        total_R = torch.zeros(len(tokens.length_R), dtype=torch.float64)
        for channel_R, weight in zip(tokens.channel_RC.T, tokens.channel_weight_C.tolist(), strict=True):
            centred_R, deviation_R, _ = grouped(channel_R, tokens.group_R)
            total_R += weight * centred_R / (deviation_R + self.epsilon)
        return total_R
