"""Advantage steps: each takes the tokens and the advantage so far, and gives the advantage on."""

from abc import abstractmethod
from typing import ClassVar, Literal

from torch import Tensor

from entropy_lab.training.piece import Piece
from entropy_lab.training.tokens import Tokens

Needs = Literal["rewards", "tokens", "batch"]


class AdvantageStep(Piece):
    """One step. The first of a recipe is a baseline, which ignores the zeros it is given.

    `needs` says what must be known: `rewards`, the grouped rewards alone; `tokens`, the old columns of the rows at
    hand, which the first update's own forward pass gives, so the step sees one micro-batch of whole rows at a time;
    `batch`, the old columns of all rows together, for which the loop makes a pass of its own.
    `needs_value` asks for a value head, and with it `old_value_N`; `needs_teacher` for `teacher_logprob_N`.
    """

    needs_value: ClassVar[bool] = False
    needs_teacher: ClassVar[bool] = False

    @property
    def needs(self) -> Needs:
        """What must be known, with these options."""
        return "rewards"

    @abstractmethod
    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,), float32, detached; `tokens` and `advantage_N` are left unchanged."""
