"""Rewards: graded trajectories in, one number each out. A recipe's rewards are channels; their weighted sum trains."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from entropy_lab.training.piece import Piece
from entropy_lab.training.rollout import Rollout


class Reward(Piece):
    """One channel; `weight` is its factor in the sum. `needs_certainty` asks for that column of the trajectories."""

    needs_certainty: ClassVar[bool] = False

    weight: float = 1.0

    @abstractmethod
    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        """The reward of each of the rollouts, which were sampled together; finite numbers."""
