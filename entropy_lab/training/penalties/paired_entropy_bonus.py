"""Paying the policy for its entropy by two draws a position, without a pass over the vocabulary."""

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from entropy_lab.training.columns import needed
from entropy_lab.training.penalties import Penalty
from entropy_lab.training.tokens import Now, Tokens


class PairedEntropyBonus(Penalty):
    """coefficient/4 · (log p_a − log p_b)²: an entropy bonus from two tokens a, b drawn independently at each position.

    ∇H = −½·E[(log p_a − log p_b)·∇(log p_a − log p_b)] over pairs from the policy itself, so in expectation the
    gradient is −coefficient·∇H, that of `entropy-bonus`; the difference of two log-probs is that of their logits, which
    needs no sum over the vocabulary. Pairs are those of the rollouts: after an iteration's first step they belong to an
    older policy, and are not corrected for it (ours). Under top-k or top-p the pairs, and so H, are of the truncated
    distribution (ours). The controller `adaptive-entropy` can set the coefficient.
    """

    piece: ClassVar[str] = "paired-entropy-bonus"
    needs_twins: ClassVar[bool] = True

    coefficient: Annotated[float, Field(ge=0)] = 0.001
    """Loss taken off for each nat (ours)."""

    def __call__(self, now: Now, tokens: Tokens) -> Tensor:
        """What is added to each token's loss, (N,)."""
        return self.coefficient / 4 * needed(now.twin_gap_N, "twin_gap_N").square()
