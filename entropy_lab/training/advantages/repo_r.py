"""REPO-R: rare right tokens are pushed up harder, rare wrong ones pushed down less."""

from typing import Annotated, ClassVar

import torch
from pydantic import Field
from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep, Needs
from entropy_lab.training.columns import needed
from entropy_lab.training.tokens import Tokens

LOWEST = -20.0
"""Log-probs (nats) count as no lower than this."""


class RepoR(AdvantageStep):
    """A′ = A(1 − ζ·logp) for A > 0, A(1 + ζ·logp) for A < 0: REPO-R, held on the side of A.

    logp is the sampled token's log-prob before the update, clamped at −20 nats; the factor is held at 0, so no token
    changes sides. A positive ζ raises the entropy, a negative one lowers it; the controller `zeta` sets it. REPO in
    general takes β(logp − E_π[logp]) from A, since −E_π[(logp − E_π[logp])∇logp] = ∇H. ζ = .1 and logp = −3 make
    A = 2, −2, 0 to 2.6, −1.4, 0.
    """

    piece: ClassVar[str] = "repo-r"

    zeta: Annotated[float, Field(ge=-1, le=1)] = 1e-3

    @property
    def needs(self) -> Needs:
        """See `AdvantageStep`."""
        return "tokens"

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,)."""
        logprob_N = needed(tokens.old_logprob_N, "old_logprob_N").detach().clamp(min=LOWEST)
        factor_N = 1 - self.zeta * logprob_N * torch.sign(advantage_N)
        return advantage_N * factor_N.clamp(min=0)
