"""The evaluation along a run: the numbers of `analyze checkpoint`, equal for equal weights, others for others."""

import copy
import time
from dataclasses import replace

import pytest
import torch

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.engines.protocol import Sampling
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.errors import InputError
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.workflows import training_evaluation
from entropy_lab.workflows.analyze_checkpoint import Plan, analyze_checkpoint
from entropy_lab.workflows.training_evaluation import Evaluator

SIZES = ("evaluation.problems=6", "evaluation.samples=8")


@pytest.fixture(scope="module")
def checkpoint():
    return load_checkpoint("builtin:sft", device="cpu")


def test_its_numbers_are_those_of_analyze_checkpoint(checkpoint, tmp_path):
    """The same problems, samples and seed give the same values with the same intervals."""
    recipe = load_recipe("grpo", [*SIZES, "evaluation.seed=0"])
    found = Evaluator(recipe)(checkpoint, TransformersEngine(checkpoint), "step 0")
    sampling = Sampling(max_new_tokens=recipe.sampling.max_new_tokens, seed=0)
    plan = Plan(checkpoint="builtin:sft", problems=6, samples=8, sampling=sampling, device="cpu")
    expected = {row.metric: row for row in analyze_checkpoint(plan, tmp_path / "run").metrics}
    for row in found:
        assert row == replace(expected[row.metric], checkpoint="step 0")
    names = {row.metric for row in found}
    assert {"pass@1", "pass@2", "pass@4", "pass@8", "coverage.family", "coverage.solution", "entropy.token_mean",
            "entropy.problem_mean", "entropy.early", "entropy.first_calculation",
            "sampling.truncation_rate"} <= names  # fmt: skip
    assert "pass@16" not in names
    of = {row.metric: row for row in found}
    for name in ("pass@1", "coverage.family", "entropy.problem_mean"):
        assert of[name].low < of[name].value < of[name].high


def test_equal_weights_give_equal_numbers_and_changed_weights_do_not(checkpoint):
    recipe = load_recipe("grpo", SIZES)
    trained = replace(checkpoint, model=copy.deepcopy(checkpoint.model))
    engine, evaluator = TransformersEngine(trained), Evaluator(recipe)
    first = evaluator(trained, engine, "now")
    torch.manual_seed(5)
    torch.rand(7)
    assert evaluator(trained, engine, "now") == first
    assert Evaluator(recipe)(trained, engine, "now") == first
    with torch.no_grad():
        for parameter in trained.model.parameters():
            parameter.mul_(0.97)
    assert evaluator(trained, engine, "now") != first


def test_solution_spaces_are_enumerated_once_a_run(checkpoint, monkeypatch):
    from entropy_lab.tasks.countdown.task import Countdown

    asked = []
    whole = Countdown.space
    monkeypatch.setattr(Countdown, "space", lambda self, problem: asked.append(problem.id) or whole(self, problem))
    evaluator, engine = Evaluator(load_recipe("grpo", SIZES)), TransformersEngine(checkpoint)
    for name in ("step 0", "step 1"):
        evaluator(checkpoint, engine, name)
    assert len(asked) == len(set(asked)) == 6


def test_measuring_costs_little_beside_sampling(checkpoint, monkeypatch):
    """80 problems × 32 samples, whose trajectories are at hand: measured with intervals in well under a second."""
    seconds = []
    whole = training_evaluation.measure

    def timed(*arguments, **settings):
        began = time.process_time()
        measured = whole(*arguments, **settings)
        seconds.append(time.process_time() - began)
        return measured

    monkeypatch.setattr(training_evaluation, "measure", timed)
    recipe = load_recipe("grpo", ["sampling.max_new_tokens=3"])
    (row, *_) = Evaluator(recipe)(checkpoint, TransformersEngine(checkpoint), "step 0")
    assert row.n == 80
    assert seconds[0] < 1


def test_a_task_that_is_not_there_is_named():
    with pytest.raises(InputError, match=r"absent\.jsonl"):
        Evaluator(load_recipe("grpo", ["evaluation.task=absent.jsonl"]))
