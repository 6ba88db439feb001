"""Any exploration with any reward, advantage and objective builds, and takes a step."""

import json
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

from entropy_lab import load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.progress import Silent
from entropy_lab.runs import open_run
from entropy_lab.tasks.loading import load_task
from entropy_lab.training.assembly import assemble, method_of, starting_checkpoint
from entropy_lab.training.batch import batch_of
from entropy_lab.training.piece import pieces_of
from entropy_lab.training.policy import TrainedPolicy
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.training.update import Updater

SIZES = {
    "groups": {"prompts": 4, "samples": 3},
    "fr3e": {"prompts": 8, "continuations": 3, "target_groups": 4, "anchors": 2},
    "outer-prefix": {"prompts": 4, "samples": 3, "probability": 0.5, "separator": ","},
}
REWARDS = {"overlong": {"limit": 40, "cache": 8}}
BASELINES = {"group-z", "centred", "leave-one-out", "gae", "gdpo"}
ONLY_WITH_TREES = "state-modulation"
ADVANTAGES = sorted(pieces_of("advantages"))
OBJECTIVES = sorted(set(pieces_of("objectives")) - {"dpo", "next-token"})
OPTIONS = {
    "repo-d": [{"granularity": "token"}, {"granularity": "state"}],
    "clipped": [{"level": "token", "dual": 3.0}, {"level": "sequence"}],
}
HEAD = {
    "name": "made",
    "steps": 1,
    "start": {"device": "cpu"},
    "teacher": {"checkpoint": "builtin:sft-early", "device": "cpu"},
    "evaluation": {"every": 0},
    "save": {"trackers": []},
    "optimizer": {"learning_rate": 1e-5},
}


def recipe_of(folder, exploration, reward, advantage, objective):
    """Through a file, as a user writes it."""
    import tomli_w

    steps = advantage if advantage[0]["piece"] in BASELINES else [{"piece": "group-z"}, *advantage]
    tables = {
        **HEAD,
        "exploration": {"piece": exploration, **SIZES[exploration]},
        "rewards": [{"piece": reward, **REWARDS.get(reward, {})}],
        "advantage": steps,
        "objective": objective,
    }
    path = folder / "own.toml"
    path.write_text(tomli_w.dumps(tables))
    return load_recipe(path)


def variants(name):
    return [{"piece": name, **options} for options in OPTIONS.get(name, [{}])]


@cache
def checkpoints():
    return {name: load_checkpoint(f"builtin:{name}", device="cpu", dtype="float32") for name in ("sft", "sft-early")}


@pytest.fixture(scope="module")
def own_reward(tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "reward.py"
    path.write_text("def length(rollouts):\n    return [float(len(one.text)) for one in rollouts]\n")
    return f"{path}:length"


@pytest.mark.parametrize(
    "reward",
    [
        pytest.param(name, marks=[] if name == "correctness" else [pytest.mark.slow])
        for name in sorted(pieces_of("rewards"))
    ],
)
@pytest.mark.parametrize("exploration", SIZES)
def test_every_advantage_and_objective(exploration, reward, tmp_path, own_reward):
    REWARDS["function"] = {"source": own_reward}
    first = recipe_of(tmp_path, exploration, reward, [{"piece": "centred"}], {"piece": "clipped"})
    task = load_task("countdown-train")
    with open_run("composition", {}, tmp_path / "run") as run:
        parts = assemble(first, starting_checkpoint(first), task, task.problems(), run, Silent())
        explored = first.exploration(parts.world, 0)
    assert explored.rollouts
    batch = batch_of(explored.rollouts, torch.device("cpu"))
    model, head = parts.checkpoint.model, nn.Linear(parts.checkpoint.model.config.hidden_size, 1)
    teacher = TrainedPolicy(checkpoints()["sft-early"].model)
    policy = TrainedPolicy(model, value_head=head)
    parameters = [*model.parameters(), *head.parameters()]
    for advantage in (step for name in ADVANTAGES for step in variants(name)):
        for objective in (one for name in OBJECTIVES for one in variants(name)):
            recipe = recipe_of(tmp_path, exploration, reward, [advantage], objective)
            updater = Updater(policy, torch.optim.AdamW(parameters, 1e-5), recipe, teacher=teacher)
            what = json.dumps([exploration, reward, advantage, objective])
            if advantage["piece"] == ONLY_WITH_TREES and exploration != "fr3e":
                with pytest.raises(InputError, match="tree"):
                    updater(batch, method_of(recipe))
                continue
            metrics = updater(batch, method_of(recipe))
            assert np.isfinite(list(metrics.values())).all(), what
            assert metrics["gradient_norm"] >= 0, what
    assert all(bool(torch.isfinite(parameter).all()) for parameter in parameters)
