"""How sure the policy was of what it wrote, as a reward that needs no verifier."""

from collections.abc import Sequence
from typing import ClassVar

from entropy_lab.errors import InputError
from entropy_lab.training.rewards import Reward
from entropy_lab.training.rollout import Rollout


class SelfCertainty(Reward):
    """The mean over tokens of KL(U‖p) = −(1/V)·Σ log(V·p), in nats: self-certainty (Kang et al. 2025).

    p is the policy's distribution over its V tokens at the sampling temperature, before any truncation; U is uniform.
    Tokens that were given do not count. V = 2 and p = (.9, .1) give .51083.
    """

    piece: ClassVar[str] = "self-certainty"
    needs_certainty: ClassVar[bool] = True

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        """The reward of each rollout, at least 0."""
        return [self._of(one) for one in rollouts]

    def _of(self, one: Rollout) -> float:
        column = one.trajectory.certainty
        if column is None:
            raise InputError(
                f"reward self-certainty: problem {one.trajectory.problem_id}, sample {one.sample_index}, came without "
                "the column `certainty`; the engine that sampled it cannot give it."
            )
        return float(column.mean(dtype=float))
