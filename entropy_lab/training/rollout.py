"""One graded trajectory on its way into training, and its row in the table of rollouts."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from entropy_lab.engines.protocol import Trajectory
from entropy_lab.rollouts import Rollouts
from entropy_lab.tasks.protocol import Grade


@dataclass(frozen=True)
class State:
    """Which state of which tree a branch continues, and what every state of that tree is worth (root first)."""

    tree: str
    index: int
    values: tuple[float, ...]


@dataclass(frozen=True)
class Rollout:
    """A trajectory with its grade and rewards.

    `rewards` are the channels, `reward` is the sum of their products with `reward_weights`.
    `prefix_ids` are completion tokens that were given, not drawn; `text` is of the whole completion. Rows of one
    `group` share prompt, prefix and baseline; group names are unique within an iteration. `sample_index` is unique
    among a problem's rollouts of one iteration; `parent_index` is that of the rollout whose prefix this one continues.
    `prefix_surprise` is the mean −log p, in nats, of prefix tokens that another model wrote, under the policy.
    """

    trajectory: Trajectory
    text: str
    grade: Grade
    group: str
    sample_index: int
    prefix_ids: tuple[int, ...] = ()
    rewards: tuple[float, ...] = ()
    reward_weights: tuple[float, ...] = ()
    reward: float = 0.0
    parent_index: int | None = None
    state: State | None = field(default=None, repr=False)
    prefix_surprise: float | None = None


def rollouts_table(rollouts: Sequence[Rollout], checkpoint: str) -> Rollouts:
    """The rows of one iteration under the name `checkpoint`; trees can be read back from parent, position and value.

    What a row was given stands at the end of its `prompt_ids`, and `branch_position` counts those tokens.
    """
    return Rollouts.from_rows(_row(one, checkpoint) for one in rollouts)


def _row(one: Rollout, checkpoint: str) -> dict[str, Any]:
    sampled, grade = one.trajectory, one.grade
    return {
        "checkpoint": checkpoint,
        "problem_id": sampled.problem_id,
        "sample_index": one.sample_index,
        "group_id": one.group,
        "parent_id": None if one.parent_index is None else f"{sampled.problem_id} {one.parent_index}",
        "branch_position": len(one.prefix_ids) if one.parent_index is not None or one.prefix_ids else None,
        "state_value": None if one.state is None else one.state.values[one.state.index],
        "prefix_surprise": one.prefix_surprise,
        "reward": one.reward,
        "prompt_ids": sampled.prompt_ids + one.prefix_ids,
        "token_ids": sampled.token_ids,
        "logprobs": sampled.logprobs,
        "text": one.text,
        "finish_reason": sampled.finish_reason,
        "seed": sampled.seed,
        "temperature": sampled.temperature,
        "correct": grade.correct,
        "code": grade.code,
        "answer": grade.answer,
        "family": grade.family,
        "first_calculation": grade.first_calculation,
        "logprob": sampled.logprob,
        "entropy": sampled.entropy,
        "varentropy": sampled.varentropy,
    }
