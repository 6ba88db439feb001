"""The grader's verdict as a reward."""

from collections.abc import Sequence
from typing import ClassVar

from entropy_lab.errors import InputError
from entropy_lab.training.rewards import Reward
from entropy_lab.training.rollout import Rollout


class Correctness(Reward):
    """1 for a correct answer, 0 for a wrong one: the verifiable reward.

    A truncated completion is graded like any other. An unknown grade is no wrong answer and never becomes a number.
    """

    piece: ClassVar[str] = "correctness"

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        """The reward of each rollout, 0 or 1."""
        for one in rollouts:
            if one.grade.correct is None:
                raise InputError(
                    f"reward correctness: the grade of problem {one.trajectory.problem_id}, sample {one.sample_index}, "
                    f"is unknown ({one.grade.code}); leave such rollouts out before rewarding."
                )
        return [float(bool(one.grade.correct)) for one in rollouts]
