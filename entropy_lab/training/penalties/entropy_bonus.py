"""Paying the policy for its entropy."""

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from entropy_lab.training.penalties import Penalty
from entropy_lab.training.tokens import Now, Tokens


class EntropyBonus(Penalty):
    """−coefficient · H: an entropy bonus with the exact gradient over the whole vocabulary.

    H is the entropy of the distribution that each token was drawn from, in nats; ∂H/∂z = −p(log p + H) at the logits z.
    The controller `adaptive-entropy` can set the coefficient.
    """

    piece: ClassVar[str] = "entropy-bonus"

    coefficient: Annotated[float, Field(ge=0)] = 0.001
    """Loss taken off for each nat (ours)."""

    def __call__(self, now: Now, tokens: Tokens) -> Tensor:
        """−coefficient times the entropy at each token, (N,)."""
        return -self.coefficient * now.entropy_N
