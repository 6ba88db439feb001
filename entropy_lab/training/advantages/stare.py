"""STARE: the most surprising tokens of either sign count for more, or for less, while entropy is low."""

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field
from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep, Needs
from entropy_lab.training.columns import needed
from entropy_lab.training.tokens import Tokens


class Stare(AdvantageStep):
    """A′ = lift·A on the most surprising tokens with A > 0, damp·A on those with A < 0: STARE.

    Surprisal is s = −logp (nats) before the update. Of the batch's N tokens of one sign the k = max(1, ⌈share·N⌉) with
    the highest s are meant, and those that tie with them (ours). `variant = "o1"` lifts the first kind alone, `"c2"`
    damps the second too. Nothing changes unless the batch's mean entropy is below `target`. A positive factor on A is
    that factor on the clipped loss, which is linear in A. To first order an update by A on a token of probability p
    changes the entropy by η·A·{p(s − H) − E_π[p(s − H)]}: surprising right tokens raise it, surprising wrong ones
    lower it. The controller `adaptive-stare` sets `lift` and `damp`.
    """

    piece: ClassVar[str] = "stare"

    variant: Literal["o1", "c2"] = "c2"
    share: Annotated[float, Field(gt=0, le=1)] = 0.1
    lift: Annotated[float, Field(ge=1)] = 1.1
    damp: Annotated[float, Field(gt=0, le=1)] = 0.9
    target: Annotated[float, Field(gt=0)] = 0.3
    """Nats; the mean over the batch's tokens of the entropy before the update."""

    @property
    def needs(self) -> Needs:
        """See `AdvantageStep`."""
        return "batch"

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,)."""
        entropy_N = needed(tokens.old_entropy_N, "old_entropy_N")
        surprisal_N = -needed(tokens.old_logprob_N, "old_logprob_N").detach()
        if not len(entropy_N) or float(entropy_N.mean()) >= self.target:
            return advantage_N
        weighted_N = advantage_N.clone()
        weighted_N[self._most_surprising(surprisal_N, advantage_N > 0)] *= self.lift
        if self.variant == "c2":
            weighted_N[self._most_surprising(surprisal_N, advantage_N < 0)] *= self.damp
        return weighted_N

    def _most_surprising(self, surprisal_N: Tensor, among_N: Tensor) -> Tensor:
        count = int(among_N.sum())
        if not count:
            return among_N
        # Rounded first, so that a product such as .07 · 100 = 7.000…01 does not count as 8.
        taken = max(1, math.ceil(round(self.share * count, 6)))
        threshold = surprisal_N[among_N].sort(descending=True).values[taken - 1]
        return among_N & (surprisal_N >= threshold)
