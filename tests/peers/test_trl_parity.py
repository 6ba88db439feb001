"""Loss and gradient of shipped recipes equal those of TRL's GRPOTrainer, which computes its own side, on a real batch.

Both get the same weights, token ids, rewards and old log-probs.
"""

import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.engines.protocol import Request, Sampling, Trajectory
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.prompts import encode_prompt
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Problem, Task
from entropy_lab.texts import completion_text
from entropy_lab.training.batch import Batch, batch_of
from entropy_lab.training.objectives import Outcome
from entropy_lab.training.objectives.cispo import Cispo
from entropy_lab.training.objectives.clipped import Clipped
from entropy_lab.training.objectives.sapo import Sapo
from entropy_lab.training.policy import TrainedPolicy
from entropy_lab.training.recipe import Recipe
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.training.reductions import reduction_weights
from entropy_lab.training.rollout import Rollout

# TRL and the libraries it imports warn of things of their own.
pytestmark = pytest.mark.filterwarnings("ignore")
trl = pytest.importorskip("trl")

PROBLEMS, SAMPLES = 12, 8
LIMIT = 1e-5


@dataclass(frozen=True)
class Method:
    """A shipped recipe, with fields changed as by `--set`, and what TRL calls its loss."""

    recipe: str
    theirs: dict[str, Any]
    changes: tuple[str, ...] = ()

    def load(self) -> Recipe:
        return load_recipe(self.recipe, self.changes)


METHODS = {
    "grpo": Method("grpo", {"loss_type": "grpo"}),
    "grpo, dual clip": Method("grpo", {"loss_type": "grpo"}, ("objective.dual=1.5",)),
    "dr-grpo": Method("dr-grpo", {"loss_type": "dr_grpo", "scale_rewards": "none"}),
    "dapo": Method("dapo", {"loss_type": "dapo"}),
    "gspo": Method("gspo", {"loss_type": "grpo", "importance_sampling_level": "sequence"}),
    "cispo": Method("cispo", {"loss_type": "cispo"}),
    "cispo, low cap": Method("cispo", {"loss_type": "cispo"}, ("objective.cap=1.2",)),
    "sapo": Method("sapo", {"loss_type": "sapo"}),
}


@dataclass(frozen=True)
class Case:
    """A batch that `builtin:sft` sampled, with its old log-probs, and the policy after some updates."""

    checkpoint: Checkpoint
    batch: Batch
    updates: int


@pytest.fixture(scope="module")
def sampled() -> tuple[Checkpoint, Batch]:
    """Real trajectories, graded, with the old log-probs of the policy that drew them.

    The ladder's solutions are all nearly as long as each other, so groups continue 0, 4, 8 or 12 tokens of a first
    one: rows of very different lengths, as the reductions need to be told apart.
    """
    checkpoint = load_checkpoint("builtin:sft", device="cpu")
    task = load_task("countdown-train")
    problems = {problem.id: problem for problem in task.problems()[:PROBLEMS]}
    order = list(problems)
    engine = TransformersEngine(checkpoint)
    sampling = Sampling(max_new_tokens=40)
    whole = [Request(name, encode_prompt(checkpoint, task.messages(one)), 1) for name, one in problems.items()]
    given = {
        one.problem_id: tuple(one.token_ids[: order.index(one.problem_id) % 4 * 4].tolist())
        for one in engine.sample(whole, sampling)
    }
    branches = [replace(one, count=SAMPLES, prefix_ids=given[one.problem_id]) for one in whole]
    found = sorted(engine.sample(branches, sampling), key=lambda one: (order.index(one.problem_id), one.sample_index))
    rollouts = [graded(checkpoint, task, problems[one.problem_id], one, given[one.problem_id]) for one in found]
    batch = batch_of(rollouts, torch.device("cpu"))
    with torch.no_grad():
        old = TrainedPolicy(checkpoint.model)(batch, np.arange(len(batch)))
    return checkpoint, replace(batch, tokens=replace(batch.tokens, old_logprob_N=old.logprob_N))


def graded(
    checkpoint: Checkpoint, task: Task, problem: Problem, sampled: Trajectory, prefix_ids: tuple[int, ...]
) -> Rollout:
    text = completion_text(checkpoint.tokenizer, [*prefix_ids, *sampled.token_ids.tolist()], checkpoint.end_ids)
    grade = task.grade(problem, text)
    reward = float(bool(grade.correct))
    return Rollout(sampled, text, grade, problem.id, sampled.sample_index, prefix_ids, (reward,), (1.0,), reward)


@pytest.fixture(scope="module", params=[0, 3], ids=["same weights", "three updates later"])
def case(request: pytest.FixtureRequest, sampled: tuple[Checkpoint, Batch]) -> Case:
    checkpoint, batch = sampled
    model = copy.deepcopy(checkpoint.model)
    policy = TrainedPolicy(model)
    optimizer = torch.optim.AdamW(model.parameters(), 5e-4)
    for _ in range(request.param):
        optimizer.zero_grad()
        our_loss(policy, batch, METHODS["grpo"].load()).backward()
        optimizer.step()
    return Case(replace(checkpoint, model=model), batch, request.param)


def outcome_of(policy: TrainedPolicy, batch: Batch, recipe: Recipe) -> Outcome:
    advantage_N = torch.zeros(int(batch.tokens.length_R.sum()))
    for step in recipe.advantage:
        advantage_N = step(batch.tokens, advantage_N)
    return recipe.objective(policy(batch, np.arange(len(batch))), batch.tokens, advantage_N)


def our_loss(policy: TrainedPolicy, batch: Batch, recipe: Recipe) -> Tensor:
    longest = recipe.sampling.max_new_tokens
    weight_N = reduction_weights(recipe.objective.reduction, batch.tokens.length_R, longest)
    return (weight_N * outcome_of(policy, batch, recipe).loss_N).sum()


def trl_loss(case: Case, method: Method, folder: Path) -> tuple[Tensor, torch.nn.Module]:
    """TRL's loss, and the copy of the model that its gradient will stand in."""
    from datasets import Dataset

    model, recipe = copy.deepcopy(case.checkpoint.model), method.load()
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=trl.GRPOConfig(
            output_dir=str(folder),
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            report_to="none",
            per_device_train_batch_size=len(case.batch),
            num_generations=SAMPLES,
            max_completion_length=recipe.sampling.max_new_tokens,
            **method.theirs,
            **trl_numbers(recipe),
        ),
        train_dataset=Dataset.from_dict({"prompt": ["1"] * PROBLEMS}),
        processing_class=copy.deepcopy(case.checkpoint.tokenizer),
    )
    trainer.current_gradient_accumulation_steps = 1
    model.train()
    return trainer.compute_loss(model, trl_inputs(case.batch, trainer.scale_rewards)), model


def trl_numbers(recipe: Recipe) -> dict[str, float]:
    """The objective's numbers under the names of GRPOConfig."""
    match recipe.objective:
        case Clipped() as clipped:
            bounds = {"epsilon": clipped.low, "epsilon_high": clipped.high}
            return bounds | ({"delta": clipped.dual} if clipped.dual else {})
        case Cispo() as cispo:
            return {"epsilon_high": cispo.cap}
        case Sapo() as sapo:
            return {"sapo_temperature_pos": sapo.tau_positive, "sapo_temperature_neg": sapo.tau_negative}
    raise AssertionError(recipe.objective)


def trl_inputs(batch: Batch, scale_rewards: str) -> dict[str, Tensor]:
    """The batch as TRL hands it to its loss: prompts padded on the left, completions on the right."""
    prompts = [torch.from_numpy(batch.contexts[place]) for place in batch.context_R]
    completions = [torch.from_numpy(ids) for ids in batch.completions]
    old_N = batch.tokens.old_logprob_N
    assert old_N is not None

    def pad(rows: list[Tensor], side: str) -> Tensor:
        return pad_sequence(rows, batch_first=True, padding_side=side)

    return {
        "prompt_ids": pad(prompts, "left"),
        "prompt_mask": pad([torch.ones_like(ids) for ids in prompts], "left"),
        "completion_ids": pad(completions, "right"),
        "completion_mask": pad([torch.ones_like(ids) for ids in completions], "right"),
        "advantages": trl_advantages(batch.tokens.reward_R, scale_rewards),
        "old_per_token_logps": pad(list(old_N.split(batch.tokens.length_R.tolist())), "right"),
        "num_items_in_batch": batch.tokens.length_R.sum(),
    }


def trl_advantages(reward_R: Tensor, scale_rewards: str) -> Tensor:
    """As TRL computes them between sampling and loss, where there is nothing to call."""
    reward_GS = reward_R.view(PROBLEMS, SAMPLES)
    centred_GS = reward_GS - reward_GS.mean(1, keepdim=True)
    scale_G1 = 1.0 if scale_rewards == "none" else reward_GS.std(1, keepdim=True) + 1e-4
    return (centred_GS / scale_G1).flatten()


@pytest.mark.parametrize("name", METHODS)
def test_loss_and_gradient_are_trls(case: Case, name: str, tmp_path: Path) -> None:
    model = copy.deepcopy(case.checkpoint.model)
    loss = our_loss(TrainedPolicy(model), case.batch, METHODS[name].load())
    loss.backward()
    peer_loss, peer = trl_loss(case, METHODS[name], tmp_path)
    peer_loss.backward()
    assert float(loss) == pytest.approx(float(peer_loss), abs=LIMIT, rel=0)
    gradient, peer_gradient = flat_gradient(model), flat_gradient(peer)
    assert float(peer_gradient.norm()) > 1e-3
    assert float((gradient - peer_gradient).norm() / peer_gradient.norm()) < LIMIT


def flat_gradient(model: torch.nn.Module) -> Tensor:
    """All gradients end to end, in the order of the parameters' names."""
    named = sorted((name, parameter.grad) for name, parameter in model.named_parameters())
    return torch.cat([gradient.flatten().double() for _, gradient in named if gradient is not None])


def test_the_batch_tells_the_methods_apart(case: Case) -> None:
    """Groups that differ, rows of many lengths, and after some updates tokens that each clip holds."""
    tokens = case.batch.tokens
    assert (tokens.reward_R.view(PROBLEMS, SAMPLES).std(1) > 0).sum() >= 4
    assert len(tokens.length_R.unique()) >= 4
    policy = TrainedPolicy(case.checkpoint.model)
    for name in ("grpo", "dapo", "gspo", "cispo, low cap"):
        outcome = outcome_of(policy, case.batch, METHODS[name].load())
        assert outcome.low_N is not None
        assert outcome.high_N is not None
        assert bool(outcome.high_N.any()) == (case.updates > 0)
        assert bool(outcome.low_N.any()) == (case.updates > 0 and not name.startswith("cispo"))
