"""Groups: what is asked, what trains, and dynamic sampling with bounded tries (pitfalls T4, T5)."""

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.engines.protocol import Sampling
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.tasks.countdown.task import Countdown
from entropy_lab.training.exploration.groups import Groups
from entropy_lab.training.piece import pieces_of
from entropy_lab.training.rewards import Reward
from entropy_lab.training.world import TrainingWorld
from tests.training.exploration.scripted_world import ScriptedWorld


class RightAnswer(Reward):
    def __call__(self, rollouts):
        return [float(one.grade.correct) for one in rollouts]


def sizes(rollouts):
    return Counter(one.group for one in rollouts)


def names(rollouts):
    return [(one.trajectory.problem_id, one.sample_index) for one in rollouts]


def test_every_problem_gets_one_group_and_all_of_them_train():
    world = ScriptedWorld(lambda problem, sample: problem % 2 == 0)
    explored = Groups(prompts=5, samples=3)(world, 10)
    assert [request.problem_id for request in world.asked] == ["p10", "p11", "p12", "p13", "p14"]
    assert {request.stream for request in world.asked} == {"7 g0"}
    assert list(sizes(explored.rollouts).values()) == [3] * 5
    assert explored.position == 15
    assert explored.others == ()
    assert explored.notes == ()
    assert explored.metrics == {"exploration.tries": 1, "exploration.dropped": 0}


def test_degenerate_groups_are_refilled_with_new_problems():
    """Only every third problem is answered both ways: batches of 4 give 2, 1, 1 and then the tries are over."""
    world = ScriptedWorld(lambda problem, sample: problem % 3 == 0 and sample % 2 == 0)
    explored = Groups(prompts=4, samples=2, drop_degenerate=True, max_tries=5)(world, 0)
    assert [group.split()[0] for group in sizes(explored.rollouts)] == ["p0", "p3", "p6", "p9"]
    assert explored.position == 12
    assert [request.stream for request in world.asked] == ["7 g0"] * 4 + ["7 g1"] * 4 + ["7 g2"] * 4
    assert explored.metrics == {"exploration.tries": 3, "exploration.dropped": 8}
    assert len(explored.others) == 16
    assert explored.notes == ()


@pytest.mark.parametrize("differing", [0, 1])
def test_tries_are_bounded_and_the_partial_batch_is_told(differing):
    world = ScriptedWorld(lambda problem, sample: problem < differing and sample == 0)
    explored = Groups(prompts=4, samples=2, drop_degenerate=True)(world, 0)
    assert len(world.asked) == 12
    assert len(explored.rollouts) == 2 * differing
    assert explored.position == 12
    (note,) = explored.notes
    assert f"Only {differing} of 4 groups" in note
    assert "exploration.max_tries" in note


def test_groups_beyond_the_batch_do_not_train():
    world = ScriptedWorld(lambda problem, sample: problem > 2 and sample == 0)
    explored = Groups(prompts=4, samples=2, drop_degenerate=True)(world, 0)
    assert list(sizes(explored.rollouts)) == ["p3 0", "p4 0", "p5 0", "p6 0"]
    assert explored.metrics == {"exploration.tries": 2, "exploration.dropped": 3}
    assert list(sizes(explored.others)) == ["p0 0", "p1 0", "p2 0", "p7 0"]


def test_rewards_that_differ_by_rounding_alone_are_equal():
    """0.1 + 0.2 − 0.3 is a residue, 1e-3 is a difference."""
    for spread, kept in ((0.1 + 0.2 - 0.3, 0), (1e-3, 2)):
        world = ScriptedWorld(lambda problem, sample: True, reward=lambda one, s=spread: s * one.sample_index)
        explored = Groups(prompts=1, samples=2, drop_degenerate=True, max_tries=1)(world, 0)
        assert len(explored.rollouts) == kept


def test_a_problem_that_comes_again_shares_neither_group_nor_draws():
    """Three problems, refilled from the same three: names in the table stay unique (T4)."""
    world = ScriptedWorld(lambda problem, sample: problem == 0 and sample % 2 == 0, size=3)
    explored = Groups(prompts=5, samples=2, drop_degenerate=True, max_tries=2)(world, 0)
    rows = explored.rollouts + explored.others
    assert len(rows) == 20
    assert len(set(names(rows))) == 20
    assert len({one.trajectory.seed for one in rows}) == 20
    assert set(sizes(rows).values()) == {2}


@given(st.integers(0, 2**32 - 1))
def test_groups_are_by_name_and_not_by_position(seed):
    """T4: rollouts that come back in any order make the same groups, adjacent."""

    def shuffled(rollouts):
        return random.Random(seed).sample(rollouts, len(rollouts))

    def right(problem, sample):
        return (problem * 7 + sample) % 3 == 0

    piece = Groups(prompts=6, samples=3, drop_degenerate=True, max_tries=1)
    plain = piece(ScriptedWorld(right), 0)
    mixed = piece(ScriptedWorld(right, shuffle=shuffled), 0)
    assert sorted(names(mixed.rollouts)) == sorted(names(plain.rollouts))
    groups = [one.group for one in mixed.rollouts]
    assert len([1 for one, after in pairwise(groups) if one != after]) == len(set(groups)) - 1


def test_answers_the_grader_failed_on_leave_the_rest_of_their_group():
    world = ScriptedWorld(lambda problem, sample: None if problem == 1 or sample == 1 else sample == 0)
    explored = Groups(prompts=2, samples=3, drop_degenerate=True, max_tries=1)(world, 0)
    assert names(explored.rollouts) == [("p0", 0), ("p0", 2)]


def test_a_group_of_one_cannot_differ():
    with pytest.raises(ValidationError, match="samples ≥ 2"):
        Groups(samples=1, drop_degenerate=True)
    assert pieces_of("exploration")["groups"] is Groups
    assert Groups().table() == {
        "piece": "groups",
        "prompts": 24,
        "samples": 8,
        "drop_degenerate": False,
        "max_tries": 3,
    }


def test_the_ladder_fills_a_batch_and_repeats_itself():
    """With the real policy: every group that trains holds right and wrong answers, the same on every run."""
    checkpoint = load_checkpoint("builtin:sft", device="cpu")
    task = Countdown.embedded("countdown-train")
    piece = Groups(prompts=6, samples=4, drop_degenerate=True)

    def explore():
        engine = TransformersEngine(checkpoint)
        world = TrainingWorld(
            checkpoint,
            engine,
            task,
            task.problems()[:100],
            Sampling(max_new_tokens=40),
            [RightAnswer()],
            "auto",
            seed=0,
        )
        return piece(world, 0)

    first, second = explore(), explore()
    groups = sizes(first.rollouts)
    assert set(groups.values()) == {4}
    assert 1 <= len(groups) <= 6
    for group in groups:
        assert len({one.grade.correct for one in first.rollouts if one.group == group}) == 2
    assert [one.text for one in first.rollouts] == [one.text for one in second.rollouts]
    assert first.position == 6 * first.metrics["exploration.tries"]
