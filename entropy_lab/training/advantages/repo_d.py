"""REPO-D: each token's advantage gives way by as much as its update would move the entropy."""

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep, Needs
from entropy_lab.training.columns import needed
from entropy_lab.training.tokens import Tokens


class RepoD(AdvantageStep):
    """A′ = A − β·L, L = logp − E_π[logp] = logp + H, β = −ζ·ΔĤ: REPO-D, held on the side of A.

    ΔĤ = −A·L·π estimates how an update by A on a token of probability π changes the entropy (nats). With
    `granularity = "token"` β is each token's own, so that A′ = A(1 − ζπL²), the factor held at 0 (it would turn
    negative from ζ ≈ 2.5 on); with `"state"` ΔĤ is the mean over the batch and one β serves all. These two readings are
    ours, as is that no token changes sides and one without an advantage gets none. The controller `zeta` sets ζ.
    """

    piece: ClassVar[str] = "repo-d"

    zeta: Annotated[float, Field(ge=0)] = 0.01
    """ζ; the start is ours, the controller's range 1e-3 to 10."""
    granularity: Literal["token", "state"] = "token"

    @property
    def needs(self) -> Needs:
        """See `AdvantageStep`."""
        return "tokens" if self.granularity == "token" else "batch"

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,)."""
        logprob_N = needed(tokens.old_logprob_N, "old_logprob_N").detach()
        if not len(logprob_N):
            return advantage_N
        surplus_N = logprob_N + needed(tokens.old_entropy_N, "old_entropy_N").detach()
        change_N = -advantage_N * surplus_N * logprob_N.exp()
        beta = -self.zeta * (change_N if self.granularity == "token" else change_N.mean())
        moved_N = advantage_N - beta * surplus_N
        return torch.where(moved_N * advantage_N > 0, moved_N, 0.0)
