"""Objectives: how log-probs and advantages make a loss for each token, and what a batch divides it by."""

from abc import abstractmethod
from typing import ClassVar, NamedTuple

from torch import Tensor

from entropy_lab.training.piece import Piece
from entropy_lab.training.reductions import Reduction
from entropy_lab.training.tokens import Now, Tokens


class Outcome(NamedTuple):
    """The loss of each token, (N,), and which tokens a clip holds back on either side (None where nothing clips).

    A token counts as clipped where its gradient is cut: low for a ratio below the lower bound with A < 0, high for one
    above the upper bound with A > 0.
    """

    loss_N: Tensor
    low_N: Tensor | None = None
    high_N: Tensor | None = None


class Objective(Piece):
    """One objective. The update's loss is Σ weight_N · loss_N over all its tokens, weights by `reduction`.

    `needs_old` is False for losses without an importance ratio; `needs_batch` asks for the old columns of all rows at
    once, and with it for `mark`; `whole_groups` keeps the rows of a group in one micro-batch; the other flags ask for a
    column.
    """

    needs_old: ClassVar[bool] = True
    needs_batch: ClassVar[bool] = False
    needs_value: ClassVar[bool] = False
    needs_uniform: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = False
    whole_groups: ClassVar[bool] = False

    reduction: Reduction = "token-mean"

    def mark(self, tokens: Tokens, advantage_N: Tensor) -> Tensor | None:
        """What must be settled over all rows before the first update, a value a token; it becomes `tokens.mark_N`.

        Called once an iteration where `needs_batch` is set, with all advantages and old columns.
        """
        return None

    @abstractmethod
    def __call__(self, now: Now, tokens: Tokens, advantage_N: Tensor) -> Outcome:
        """Per-token losses with gradients through `now` only."""
