"""Generalised advantage estimation from a value head.

Shape letters: R rows, L tokens of the longest row, N tokens of all rows.
"""

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep, Needs
from entropy_lab.training.columns import needed
from entropy_lab.training.tokens import Tokens


class Gae(AdvantageStep):
    """A_t = Σ_l (γλ)^l δ_{t+l} with δ_t = r_t + γ·V_{t+1} − V_t: generalised advantage estimation, of PPO.

    V_t is the value head's estimate in front of token t, in units of reward (Schulman et al. 2016). r_t is the row's
    reward at its last token and 0 before; behind the last token V is 0, also where a limit cut the row off (ours).
    With γ = λ = 1, the defaults, A_t is the row's reward minus V_t.
    """

    piece: ClassVar[str] = "gae"
    needs_value: ClassVar[bool] = True

    gamma: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Discount γ of each token."""
    lambda_: Annotated[float, Field(ge=0, le=1, alias="lambda")] = 1.0
    """0 trusts the value head alone, 1 the reward alone."""

    @property
    def needs(self) -> Needs:
        """See `AdvantageStep`."""
        return "tokens"

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,), in units of reward; what came before is not used."""
        value_N = needed(tokens.old_value_N, "old_value_N").detach().to(advantage_N)
        length_R, row_N = tokens.length_R, tokens.row_N
        if not len(row_N):
            return advantage_N
        place_N = torch.arange(len(row_N), device=row_N.device) - (length_R.cumsum(0) - length_R)[row_N]
        longest = int(length_R.max())
        value_RL = value_N.new_zeros(len(length_R), longest + 1).index_put((row_N, place_N), value_N)
        delta_RL = self.gamma * value_RL[:, 1:] - value_RL[:, :-1]
        last_R = torch.arange(len(length_R), device=row_N.device), length_R - 1
        delta_RL = delta_RL.index_put(last_R, tokens.reward_R.to(advantage_N), accumulate=True)
        found_RL = torch.empty_like(delta_RL)
        ahead_R = torch.zeros_like(delta_RL[:, 0])  # δ is 0 behind a row's end, so short rows start from 0 as well
        for place in reversed(range(longest)):
            ahead_R = delta_RL[:, place] + self.gamma * self.lambda_ * ahead_R
            found_RL[:, place] = ahead_R
        return found_RL[row_N, place_N]
