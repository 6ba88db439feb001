"""`probe entropy-change` on the embedded checkpoint: theory against the step, and that nothing is left changed."""

import copy
import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch

import entropy_lab.builtin
from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.diagnostics.entropy_change import QUADRANTS
from entropy_lab.errors import InputError
from entropy_lab.progress import Silent
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run
from entropy_lab.tasks.loading import load_task
from entropy_lab.training.assembly import assemble
from entropy_lab.training.batch import batch_of
from entropy_lab.training.policy import TrainedPolicy
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.workflows.probe_entropy_change import EntropyPlan, probe_entropy_change
from entropy_lab.workflows.probe_positions import PositionPass
from entropy_lab.workflows.probe_step import plain, stepped
from tests.training.made import made_rollout

PLAN = EntropyPlan(device="cpu", problems=16, samples=6, seed=3)


def values(found):
    return {row.metric: row.value for row in found.metrics}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return probe_entropy_change(PLAN, tmp_path_factory.mktemp("probe") / "run")


@pytest.fixture(scope="module")
def assembled(tmp_path_factory):
    """Makes a recipe's parts around a checkpoint of one's own, and its first batch."""

    def make(name, *overrides):
        small = ("exploration.prompts=6", "exploration.samples=6")
        recipe = plain(load_recipe(name, [*small, *overrides]))
        checkpoint = load_checkpoint("builtin:sft", device="cpu", dtype="float32")
        task = load_task(recipe.data.task)
        run = Run(tmp_path_factory.mktemp("parts"))
        parts = assemble(recipe, checkpoint, task, list(task.problems()), run, Silent())
        parts.world.begin(0)
        explored = recipe.exploration(parts.world, 0)
        return recipe, parts, batch_of(explored.rollouts, torch.device("cpu"))

    return make


def test_predicted_and_measured_change_agree(found):
    """Within 5 % in total, over tokens, and in every quadrant that matters."""
    of = values(found)
    assert abs(of["change.ratio"] - 1) < 0.05
    assert of["change.error"] < 0.05
    assert of["correlation.predicted"] > 0.999
    counted = 0
    for quadrant in QUADRANTS:
        if abs(of[f"quadrant.{quadrant}.measured_share"]) > 0.05:
            counted += 1
            predicted = of[f"quadrant.{quadrant}.predicted"]
            assert predicted == pytest.approx(of[f"quadrant.{quadrant}.measured"], rel=0.05)
    assert counted >= 3


def test_the_tabular_law_gives_the_sign_of_the_large_quadrants(found):
    of = values(found)
    assert of["correlation.tabular"] > 0.1
    assert of["boundary.below"] > 0
    assert sum(of[f"quadrant.{quadrant}.tokens"] for quadrant in QUADRANTS) == pytest.approx(1)
    signs = {quadrant: of[f"quadrant.{quadrant}.tabular_share"] for quadrant in QUADRANTS}
    assert signs["positive.surprising"] > 0 > signs["positive.expected"]
    assert signs["negative.expected"] > 0 > signs["negative.surprising"]
    assert signs["none"] == 0
    for quadrant in ("positive.expected", "negative.surprising"):
        assert of[f"quadrant.{quadrant}.measured_share"] < 0


def test_smaller_steps_are_predicted_better(found, tmp_path):
    larger = probe_entropy_change(replace(PLAN, learning_rate=1e-2), tmp_path / "run")
    assert values(larger)["change.error"] > 5 * values(found)["change.error"]
    assert values(larger)["change.predicted"] == pytest.approx(20 * values(found)["change.predicted"], rel=1e-3)


@pytest.mark.parametrize("name", ["stare", "ppo", "dpo"])
def test_other_recipes_are_predicted_too(name, tmp_path):
    of = values(probe_entropy_change(replace(PLAN, recipe=name, problems=8, learning_rate=2e-4), tmp_path / "run"))
    assert of["change.error"] < 0.05
    assert of["change.measured"] != 0


def test_weights_come_back_bit_for_bit_and_the_checkpoint_is_left_alone(assembled, tmp_path):
    folder = Path(entropy_lab.builtin.__file__).parent / "checkpoints" / "sft"
    files = {path: sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}
    assert files
    recipe, parts, batch = assembled("grpo")
    before = {name: tensor.clone() for name, tensor in parts.checkpoint.model.state_dict().items()}
    weights = [weight.detach().clone() for weight in parts.parameters.values()]
    with stepped(parts, recipe, batch, 0.25) as step:
        for (weight, gradient), old in zip(step.gradient, weights, strict=True):
            torch.testing.assert_close(weight.detach(), old - 0.25 * gradient, atol=1e-7, rtol=0)
        assert any((weight != old).any() for (weight, _), old in zip(step.gradient, weights, strict=True))
    for name, tensor in parts.checkpoint.model.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert all(weight.grad is None for weight in parts.parameters.values())
    probe_entropy_change(replace(PLAN, problems=4), tmp_path / "run")
    assert files == {path: sha256(path.read_bytes()).hexdigest() for path in files}


def test_weights_come_back_after_a_failure(assembled):
    recipe, parts, batch = assembled("grpo")
    before = [weight.detach().clone() for weight in parts.parameters.values()]
    with pytest.raises(ZeroDivisionError), stepped(parts, recipe, batch, 0.1):
        raise ZeroDivisionError
    assert all(map(torch.equal, parts.parameters.values(), before))


def test_the_step_knows_what_the_loss_puts_on_each_token(assembled):
    """Advantage, bonus and weight, in the batch's order, whatever the micro-batches."""
    recipe, parts, batch = assembled(
        "entropy-bonus", "penalties.entropy-bonus.coefficient=0.03", "optimizer.token_budget=200"
    )
    (step,) = recipe.advantage
    wanted_N = step(batch.tokens, torch.zeros(int(batch.tokens.length_R.sum())))
    with stepped(parts, recipe, batch, 1e-3) as taken:
        np.testing.assert_allclose(taken.advantage_N, wanted_N.numpy(), rtol=1e-4)
        np.testing.assert_allclose(taken.bonus_N, 0.03, rtol=1e-4)
        np.testing.assert_allclose(taken.weight_N, 1, rtol=1e-6)
    assert len(set(taken.advantage_N.round(3))) > 2
    recipe, parts, batch = assembled("grpo")
    with stepped(parts, recipe, batch, 1e-3) as taken:
        length_N = batch.tokens.spread(batch.tokens.length_R).numpy()
        assert taken.weight_N * length_N == pytest.approx(taken.weight_N[0] * length_N[0], rel=1e-5)
        assert taken.weight_N.mean() == pytest.approx(1)
        assert (taken.bonus_N == 0).all()


def test_slopes_add_up_to_the_gradient_of_the_total_entropy(assembled):
    """Forward mode through padded rows against the trainer's own packed pass, backwards through its kernel."""
    recipe, parts, batch = assembled("grpo", "sampling.temperature=0.8")
    look = PositionPass(parts.checkpoint.model, batch, 0.8)
    policy = TrainedPolicy(parts.checkpoint.model, temperature=0.8)
    with stepped(parts, recipe, batch, 1e-3) as step:
        pass
    now = policy(batch, np.arange(len(batch)))
    columns = look.columns()
    np.testing.assert_allclose(columns.entropy_N, now.entropy_N.detach(), atol=1e-4)
    np.testing.assert_allclose(columns.logprob_N, now.logprob_N.detach(), atol=1e-4)
    now.entropy_N.sum().backward()
    total = sum(float((weight.grad.double() * gradient.double()).sum()) for weight, gradient in step.gradient)
    assert look.slopes(step.gradient).sum() == pytest.approx(total, rel=1e-3)


def test_slopes_and_columns_in_float64(tiny_checkpoint):
    """Token by token against central differences of the model's own logits (its softmax rounds to float32)."""
    model = copy.deepcopy(tiny_checkpoint.model).double()
    rows = [([3, 5, 9], [12, 40, 1]), ([3, 5, 9, 4], [7]), ([8], [30, 31, 32, 33, 1])]
    batch = batch_of([made_rollout(*row, group=str(place)) for place, row in enumerate(rows)], torch.device("cpu"))
    look = PositionPass(model, batch, 1.0)
    torch.manual_seed(2)
    direction = [(weight, torch.randn_like(weight)) for weight in model.parameters()]

    def own():
        found = []
        for prompt, completion in rows:
            with torch.no_grad():
                logits = model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0, len(prompt) - 1 : -1]
            found.append(logits.log_softmax(1).exp())
        return torch.cat(found)

    p_NV = own()
    s_NV = -p_NV.log()
    h_N1 = (p_NV * s_NV).sum(1, keepdim=True)
    columns = look.columns()
    np.testing.assert_allclose(columns.entropy_N, h_N1[:, 0], rtol=1e-6)
    np.testing.assert_allclose(columns.drift_N, (p_NV**2 * (s_NV - h_N1)).sum(1), rtol=1e-5)
    np.testing.assert_allclose(columns.steepness_N, ((p_NV * (s_NV - h_N1)) ** 2).sum(1), rtol=1e-5)
    slopes_N = look.slopes(direction)
    ends = []
    for size in (1e-4, -2e-4, 1e-4):
        with torch.no_grad():
            for weight, speed in direction:
                weight += size * speed
        p_NV = own()
        ends.append(-(p_NV * p_NV.log()).sum(1))
    np.testing.assert_allclose(slopes_N, (ends[0] - ends[1]) / 2e-4, rtol=5e-3)
    assert np.abs(slopes_N).min() > 1e-3


def test_what_is_left_behind(found, tmp_path):
    rows = json.loads((found.folder / "metrics.json").read_text())
    assert [row["metric"] for row in rows] == [row.metric for row in found.metrics]
    assert len({row["metric"] for row in rows}) == len(rows)
    assert found.report.is_file()
    names = {path.name for path in (found.folder / "figures").iterdir()}
    assert {"entropy_change_tokens.svg", "entropy_change_quadrants.png"} <= names
    kept = Rollouts.read(found.folder)
    assert len(kept) == 96
    record = json.loads((found.folder / "run.json").read_text())
    assert record["asked"]["problems"] == 16
    assert probe_entropy_change(PLAN, found.folder).metrics == found.metrics
    with pytest.raises(InputError, match="other settings"):
        probe_entropy_change(replace(PLAN, learning_rate=1e-3), found.folder)


def test_stored_rollouts_give_the_numbers_they_gave_when_they_were_new(found, tmp_path):
    plan = EntropyPlan(device="cpu", rollouts=found.folder, seed=3)
    again = values(probe_entropy_change(plan, tmp_path / "run"))
    for name, value in values(found).items():
        assert again[name] == pytest.approx(value, rel=1e-2, abs=1e-7)
    fewer = probe_entropy_change(replace(plan, problems=9, samples=4), tmp_path / "fewer")
    assert len(Rollouts.read(fewer.folder)) == 36
    assert {row.n for row in fewer.metrics if row.metric.startswith("change.")} == {9}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learning_rate": 0.0}, "--learning-rate"),
        ({"learning_rate": float("nan")}, "--learning-rate"),
        ({"recipe": "nothing"}, "no recipe 'nothing'"),
        ({"overrides": ("objective.high=x",)}, "objective.high"),
        ({"recipe": "fr3e"}, "exploration.samples"),
        ({"problems": 2, "samples": 1}, "gradient of its loss is 0"),
        ({"task": "nothing.jsonl"}, "nothing.jsonl"),
        ({"rollouts": Path("nowhere")}, "nowhere"),
        ({"rollouts": Path("stored.parquet"), "task": "countdown"}, "is no problem of task"),
        ({"rollouts": Path("stored.parquet"), "recipe": "fr3e"}, "stored rollouts cannot"),
        ({"rollouts": Path("stored.parquet"), "recipe": "sft"}, "texts of its own"),
        ({"rollouts": Path("two.parquet")}, "none of builtin:sft"),
        ({"rollouts": Path("bare.parquet")}, "holds no trajectory with"),
    ],
)
def test_what_cannot_be_probed_is_refused(found, change, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    stored = Rollouts.read(found.folder)
    size = len(stored)
    stored.write(Path("stored.parquet"))
    stored.with_columns(checkpoint=["a"] * 5 + ["b"] * (size - 5)).write(Path("two.parquet"))
    stored.with_columns(branch_position=[1] * size).write(Path("bare.parquet"))
    with pytest.raises(InputError, match=message):
        probe_entropy_change(replace(PLAN, **change), tmp_path / "run")
    assert not (tmp_path / "run").exists()
