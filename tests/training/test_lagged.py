"""Weights that follow some iterations behind, and what trajectories are seen by."""

from dataclasses import dataclass

import pytest
import torch

from entropy_lab import load_checkpoint
from entropy_lab.tasks.protocol import Grade
from entropy_lab.training.exploration import Explored
from entropy_lab.training.lagged import Lagged
from entropy_lab.training.sampled import sampled_metrics
from tests.training.made import made_rollout


def mark(checkpoint, value):
    with torch.no_grad():
        checkpoint.model.model.norm.weight.fill_(value)


def seen(lagged):
    return lagged.checkpoint.model.model.norm.weight[0].item()


@pytest.mark.parametrize("staleness", [1, 2, 3])
def test_weights_are_those_of_so_many_iterations_ago(staleness):
    checkpoint = load_checkpoint("builtin:sft-early", device="cpu")
    lagged = Lagged(checkpoint, staleness)
    found = []
    for iteration in range(6):
        mark(checkpoint, iteration)
        lagged.advance()
        found.append(seen(lagged))
    assert found == [max(0, iteration - staleness) for iteration in range(6)]


def test_a_restored_queue_goes_on_alike():
    checkpoint = load_checkpoint("builtin:sft-early", device="cpu")
    first = Lagged(checkpoint, 2)
    for iteration in range(3):
        mark(checkpoint, iteration)
        first.advance()
    second = Lagged(checkpoint, 2)
    second.restore(first.tensors())
    for iteration in range(3, 6):
        mark(checkpoint, iteration)
        first.advance()
        second.advance()
        assert seen(first) == seen(second)


@dataclass
class Graded:
    grades: list


def test_branches_do_not_flatter_and_groups_without_signal_are_counted():
    drawn = [made_rollout((1,), (2, 3), group="a", reward=float(index == 0), index=index) for index in range(2)]
    branches = [made_rollout((1,), (3, 3, 3), (2,), group="b", reward=1.0, index=index) for index in range(2, 4)]
    found = sampled_metrics(Explored((*drawn, *branches), 0), Graded([Grade(True, ""), Grade(None, "")]))
    assert found == {
        "grader.failed": 0.5,
        "groups": 2.0,
        "groups.degenerate": 0.5,
        "reward.mean": 0.5,
        "accuracy": 0.5,
        "length.mean": 2.0,
        "truncation": 0.0,
    }


def test_nothing_sampled_is_nothing_said():
    assert sampled_metrics(Explored((), 0), Graded([])) == {}
