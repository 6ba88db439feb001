"""A teacher's columns are its own log-probs, of the policy's tokens; another vocabulary is refused."""

import pytest
import torch

from entropy_lab import load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.training.batch import batch_of
from entropy_lab.training.policy import TrainedPolicy
from entropy_lab.training.recipe import Teacher
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.training.teacher import load_teacher
from entropy_lab.training.update import Method, Updater
from entropy_lab.workflows.train import train
from tests.training.made import made_rollout

SMALL = ["steps=1", "exploration.prompts=3", "exploration.samples=3", "evaluation.every=0", "save.trackers=[]",
         "start.device=cpu", "teacher.device=cpu"]  # fmt: skip


@pytest.fixture
def sft():
    return load_checkpoint("builtin:sft", device="cpu", dtype="float32")


def test_the_same_checkpoint_is_no_distance_away(tmp_path):
    recipe = load_recipe("saf", [*SMALL, "teacher.checkpoint=builtin:sft"])
    assert train(recipe, tmp_path).metrics["kl.teacher"] == pytest.approx(0, abs=1e-9)


def test_another_checkpoint_is(tmp_path):
    assert train(load_recipe("saf", SMALL), tmp_path).metrics["kl.teacher"] > 1e-3


def test_teacher_columns_are_a_teacher_forced_pass(sft):
    teacher = load_checkpoint("builtin:grpo", device="cpu", dtype="float32")
    rows = [made_rollout([5, 9, 7], [11, 3, 30], group="a", reward=1.0), made_rollout([5, 9], [8], group="b")]
    batch = batch_of(rows, torch.device("cpu"))
    seen = []

    class Watching(type(load_recipe("saf").advantage[1])):
        def __call__(self, tokens, advantage_N):
            seen.append(tokens.teacher_logprob_N)
            return advantage_N

    recipe = load_recipe("saf", SMALL)
    policy = TrainedPolicy(sft.model)
    optimizer = torch.optim.SGD(sft.model.parameters(), 0.0)
    updater = Updater(policy, optimizer, recipe, teacher=TrainedPolicy(teacher.model))
    updater(batch, Method((recipe.advantage[0], Watching()), recipe.objective, ()))
    expected = []
    for row in rows:
        ids = torch.tensor([[*row.trajectory.prompt_ids, *row.trajectory.token_ids.tolist()]])
        with torch.no_grad():
            logprob_TV = teacher.model(ids).logits[0].log_softmax(-1)
        start = len(row.trajectory.prompt_ids)
        expected += [float(logprob_TV[place - 1, ids[0, place]]) for place in range(start, ids.shape[1])]
    found = torch.cat(seen)
    assert sorted(found.tolist()) == pytest.approx(sorted(expected), abs=1e-5)


def test_another_vocabulary_is_refused(sft, tiny_checkpoint_folder):
    with pytest.raises(InputError, match=r"teacher\.checkpoint.*tokens differ"):
        load_teacher(Teacher(checkpoint=str(tiny_checkpoint_folder), device="cpu"), sft)


def test_a_step_that_needs_a_teacher_says_so(tmp_path):
    text = tmp_path / "own.toml"
    text.write_text(
        'name = "own"\nsteps = 1\nexploration = { piece = "groups" }\nrewards = [{ piece = "correctness" }]\n'
        'advantage = [{ piece = "group-z" }, { piece = "saf" }]\nobjective = { piece = "clipped" }\n'
    )
    with pytest.raises(InputError, match="saf needs a teacher"):
        load_recipe(text)
