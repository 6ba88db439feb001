"""Penalties: losses added to the objective's, token by token, under the same reduction."""

from abc import abstractmethod
from typing import ClassVar

from torch import Tensor

from entropy_lab.training.piece import Piece
from entropy_lab.training.tokens import Now, Tokens


class Penalty(Piece):
    """One penalty. `needs_reference` asks for `reference_logprob_N`, of the checkpoint the run started from;
    `needs_twins` for `now.twin_gap_N`."""

    needs_reference: ClassVar[bool] = False
    needs_twins: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, now: Now, tokens: Tokens) -> Tensor:
        """What is added to each token's loss, (N,), its coefficient included."""
