"""PPO with a value head: the clipped surrogate and a clipped value loss."""

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.clipping import Dual, High, Low, clipped_surrogate, log_ratio, ratio_of
from entropy_lab.training.columns import needed
from entropy_lab.training.objectives import Objective, Outcome
from entropy_lab.training.tokens import Now, Tokens


class Ppo(Objective):
    """−min(r·A, clip(r)·A) plus a clipped value loss: PPO with a value head (Schulman et al. 2017).

    r = exp(logp − old), held within [1 − low, 1 + high]. The value v of each token (in units of reward) is drawn to the
    return R = A + v_old, GAE's at λ = 1, by ½·max((v − R)², (clip(v, v_old ± value_clip) − R)²), times `value_weight`.
    """

    piece: ClassVar[str] = "ppo"
    needs_value: ClassVar[bool] = True

    low: Low = 0.2
    high: High = 0.2
    dual: Dual = 0.0
    """Dual clip c > 1: the loss of a token with A < 0 is at most −c·A. 0: off."""
    value_clip: Annotated[float, Field(gt=0)] = 0.2
    """How far an update may gain by moving a value."""
    value_weight: Annotated[float, Field(ge=0)] = 0.1
    """Factor of the value loss beside the policy's (ours)."""

    def __call__(self, now: Now, tokens: Tokens, advantage_N: Tensor) -> Outcome:
        """The loss of each token, (N,), and the tokens whose policy gradient is cut off."""
        policy = clipped_surrogate(
            ratio_of(log_ratio(now, tokens)), advantage_N, 1 - self.low, 1 + self.high, self.dual
        )
        value_N, old_N = needed(now.value_N, "value_N"), needed(tokens.old_value_N, "old_value_N")
        return_N = advantage_N + old_N
        near_N = value_N.clamp(old_N - self.value_clip, old_N + self.value_clip)
        value_loss_N = torch.maximum((value_N - return_N).square(), (near_N - return_N).square()) / 2
        return policy._replace(loss_N=policy.loss_N + self.value_weight * value_loss_N)
