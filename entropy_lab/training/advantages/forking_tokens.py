"""Training on the tokens where the policy hesitates, alone."""

import math
from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep, Needs
from entropy_lab.training.columns import needed
from entropy_lab.training.tokens import Tokens


class ForkingTokens(AdvantageStep):
    """A′ = A on the batch's share of tokens with the highest entropy, 0 elsewhere: forking tokens.

    The threshold is the k-th highest entropy of the policy before the update, over the N tokens of all rows, with
    k = max(1, ⌈share·N⌉); tokens that tie with it are kept (Wang et al. 2025; rounding up is ours). What the loss is
    divided by does not change.
    """

    piece: ClassVar[str] = "forking-tokens"

    share: Annotated[float, Field(gt=0, le=1)] = 0.2
    """Part of the tokens that is kept."""

    @property
    def needs(self) -> Needs:
        """See `AdvantageStep`."""
        return "batch"

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,), 0 below the threshold."""
        entropy_N = needed(tokens.old_entropy_N, "old_entropy_N").detach()
        if not len(entropy_N):
            return advantage_N
        # Rounded first, so that a product such as .07 · 100 = 7.000…01 does not count as 8.
        kept = max(1, math.ceil(round(self.share * len(entropy_N), 6)))
        threshold = entropy_N.sort(descending=True).values[kept - 1]
        return advantage_N.masked_fill(entropy_N < threshold, 0.0)
