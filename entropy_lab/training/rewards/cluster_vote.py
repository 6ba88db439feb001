"""Agreement with the other answers of the group, as a reward that needs no verifier."""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from entropy_lab.training.rewards import Reward
from entropy_lab.training.rollout import Rollout


class ClusterVote(Reward):
    """|C|/G: the share of a group's G rollouts whose final answer equals this one's, itself included.

    Answers are equal where the grader read the same text from them; G counts the rollouts that could be graded. A
    rollout without an answer gets 0 (ours), and counts in G.
    """

    piece: ClassVar[str] = "cluster-vote"

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        """The reward of each rollout, between 0 and 1."""
        size = Counter(one.group for one in rollouts)
        agreeing = Counter((one.group, one.grade.answer) for one in rollouts)
        return [
            agreeing[one.group, one.grade.answer] / size[one.group] if one.grade.answer else 0.0 for one in rollouts
        ]
