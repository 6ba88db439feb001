"""Rewards without a verifier: agreement and certainty."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.errors import InputError
from entropy_lab.tasks.protocol import Grade
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.training.rewards.cluster_vote import ClusterVote
from entropy_lab.training.rewards.self_certainty import SelfCertainty
from entropy_lab.workflows.train import train
from tests.training.made import made_rollout


def answering(answer, group="g"):
    return replace(made_rollout([1], [2], group=group), grade=Grade(False, "made", answer=answer))


def certain(values):
    one = made_rollout([1], [2] * len(values))
    return replace(one, trajectory=replace(one.trajectory, certainty=np.array(values, np.float32)))


def test_votes_count_within_the_group():
    rollouts = [answering("6"), answering("6"), answering("7"), answering(None), answering("6", "other")]
    assert ClusterVote()(rollouts) == [0.5, 0.5, 0.25, 0.0, 1.0]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["1", "2", "3", None, ""])), max_size=12))
def test_votes_by_definition(rows):
    found = ClusterVote()([answering(answer, group) for group, answer in rows])
    for (group, answer), vote in zip(rows, found, strict=True):
        members = [other for own, other in rows if own == group]
        assert vote == (members.count(answer) / len(members) if answer else 0)


def test_the_verdict_of_the_grader_changes_nothing():
    rollouts = [replace(certain([0.5]), grade=Grade(False, "made", answer=answer)) for answer in ("6", "6", "7")]
    right = [replace(one, grade=replace(one.grade, correct=True)) for one in rollouts]
    for reward in (ClusterVote(), SelfCertainty()):
        assert reward(rollouts) == reward(right)


def test_certainty_is_the_token_mean():
    uniform_to_nine_to_one = -0.5 * (math.log(2 * 0.9) + math.log(2 * 0.1))
    assert uniform_to_nine_to_one == pytest.approx(0.51083, abs=1e-5)
    assert SelfCertainty()([certain([uniform_to_nine_to_one, 0.0])]) == [pytest.approx(0.51083 / 2, abs=1e-5)]


def test_an_engine_without_the_column_is_said():
    with pytest.raises(InputError, match=r"self-certainty.*`certainty`"):
        SelfCertainty()([made_rollout([1], [2])])


def test_rlif_trains(tmp_path):
    sizes = ["steps=2", "exploration.prompts=4", "exploration.samples=4", "evaluation.every=0", "save.trackers=[]"]
    trained = train(load_recipe("rlif", [*sizes, "start.device=cpu"]), tmp_path)
    assert trained.step == 2
    assert trained.metrics["loss"] is not None
    assert trained.metrics["groups.degenerate"] == 0
