"""What an iteration's trajectories are seen by, before any update: reward, accuracy, length, groups without signal."""

from collections import defaultdict

import numpy as np

from entropy_lab.training.exploration import Explored
from entropy_lab.training.rollout import Rollout
from entropy_lab.training.world import TrainingWorld

EQUAL = 1e-6  # rewards closer than this are equal


def sampled_metrics(explored: Explored, world: TrainingWorld) -> dict[str, float]:
    """Means over trajectories drawn from the prompt alone (branches start from chosen states, and would flatter).

    `groups` train; `groups.degenerate` is the share of all sampled groups whose rewards are equal.
    """
    if not world.grades:
        return {}
    drawn = [one for one in (*explored.others, *explored.rollouts) if not one.prefix_ids]
    found = {
        "grader.failed": float(np.mean([grade.correct is None for grade in world.grades])),
        "groups": float(len({one.group for one in explored.rollouts})),
        "groups.degenerate": _degenerate([*explored.others, *explored.rollouts]),
    }
    if drawn:
        found |= {
            "reward.mean": float(np.mean([one.reward for one in drawn])),
            "accuracy": float(np.mean([one.grade.correct is True for one in drawn])),
            "length.mean": float(np.mean([len(one.trajectory.token_ids) for one in drawn])),
            "truncation": float(np.mean([one.trajectory.finish_reason == "length" for one in drawn])),
        }
    return found


def _degenerate(rollouts: list[Rollout]) -> float:
    rewards: dict[str, list[float]] = defaultdict(list)
    for one in rollouts:
        rewards[one.group].append(one.reward)
    return float(np.mean([max(row) - min(row) <= EQUAL for row in rewards.values()])) if rewards else 0.0
