"""Whole runs on the embedded ladder: what they leave, how they continue after a kill, how they stop."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from entropy_lab import Rollouts, load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.training.loop import learning_rate
from entropy_lab.training.recipe import Optimizer
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.training.view import SilentView
from entropy_lab.workflows.train import train

SMALL = ("exploration.prompts=4", "exploration.samples=4", "steps=4", "evaluation.every=2", "evaluation.problems=3",
         "evaluation.samples=4", "save.every=1", "start.checkpoint=builtin:sft-early", "start.device=cpu")  # fmt: skip
TIMES = ("seconds", "tokens_per_second")


def small(name, *more):
    sizes = {
        "fr3e": ("exploration.prompts=4", "exploration.continuations=3", "exploration.target_groups=4", *SMALL[2:]),
        "sft": ("exploration.count=8", "exploration.numbers=[3]", "exploration.largest_number=6",
                "exploration.largest_target=20", "exploration.test_problems=20", *SMALL[2:-2], "start.device=cpu",
                "save.rungs={}", "optimizer.warmup_steps=1"),
    }.get(name, SMALL)  # fmt: skip
    return load_recipe(name, [*sizes, *more])


def lines(folder):
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in row.items() if name not in TIMES} for row in rows]


def last_weights(folder):
    return load_file(max((folder / "checkpoints").glob("step-*")) / "training_state.safetensors")


class Killed(RuntimeError):
    pass


class KillAt(SilentView):
    """Dies when it is told of a step, as a kill between log and checkpoint would."""

    def __init__(self, step):
        self.step = step

    def iteration(self, metrics):
        if metrics["step"] == self.step:
            raise Killed


RUNS = {
    "grpo": (),
    "fr3e": (),
    "ppo": (),
    "dpo": ("exploration.samples=8",),
    "sft": (),
    "saf": ("start.checkpoint=builtin:sft", "advantage.saf.scale=0"),
    "clip-cov": ('controllers=[{piece="adapo"}]', "optimizer.minibatches=2"),
    "dapo": ("lora.rank=2", "optimizer.learning_rate=1e-3"),
    "loop": ("sampling.staleness=1", "optimizer.minibatches=2"),
    "gspo": ('penalties=[{piece="reference-kl", weight=0.1}]', "numerics.dtype=bfloat16"),
}


@pytest.mark.parametrize("name", RUNS)
def test_killed_and_continued_is_bit_equal(name, tmp_path):
    recipe = small(name, *RUNS[name])
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    finished = train(recipe, whole)
    assert finished.step == 4
    with pytest.raises(Killed):
        train(recipe, broken, view=KillAt(3))
    train(recipe, broken)
    assert lines(whole) == lines(broken)
    assert [row["step"] for row in lines(whole)] == [0, 1, 2, 3, 4]
    first, second = last_weights(whole), last_weights(broken)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_a_run_leaves_what_any_tool_reads(tmp_path):
    finished = train(small("grpo", "save.keep=1", "save.rungs={half=2}"), tmp_path)
    assert [path.name for path in finished.checkpoints] == ["half", "step-00004"]
    for path in finished.checkpoints:
        assert load_checkpoint(str(path)).vocabulary_size == load_checkpoint("builtin:sft").vocabulary_size
    assert load_recipe(tmp_path / "recipe.toml") == small("grpo", "save.keep=1", "save.rungs={half=2}")
    rows = lines(tmp_path)
    assert rows[4]["sampled_tokens"] > rows[1]["sampled_tokens"] > 0
    seen = "reward.mean accuracy entropy.token_mean entropy.early clip.low clip.high ratio.mean groups.degenerate"
    assert {*seen.split(), "length.mean", "truncation", "sampler_gap.max", "learning_rate"} <= set(rows[1])
    assert rows[1]["sampler_gap.max"] < 1e-3
    metrics = json.loads((tmp_path / "evaluations" / "step-00004.json").read_text())
    found = {metric["metric"]: metric for metric in metrics}
    assert found["pass@1"]["value"] == rows[4]["evaluation.pass@1"]
    assert found["coverage.family"]["n"] == 3
    assert {"pass@4", "entropy.token_mean", "entropy.first_calculation"} <= set(found)
    table = Rollouts.read(tmp_path)
    assert len(table) == 4 * 16
    assert set(table.strings("checkpoint")) == {"step 1", "step 2", "step 3", "step 4"}


def test_trees_are_rows(tmp_path):
    """Every branch names its parent, whose tokens it was given, and what its state is worth: the mean of its reward."""
    train(small("fr3e", "start.checkpoint=builtin:sft", "exploration.prompts=12", "steps=1"), tmp_path)
    rows = Rollouts.read(tmp_path).table.to_pylist()
    named = {f"{row['problem_id']} {row['sample_index']}": row for row in rows}
    branches = [row for row in rows if row["parent_id"] is not None]
    groups = {}
    assert branches
    for row in branches:
        parent, given = named[row["parent_id"]], row["branch_position"]
        own_prompt = row["prompt_ids"][: len(row["prompt_ids"]) - given]
        assert own_prompt == parent["prompt_ids"]
        assert row["prompt_ids"][len(own_prompt) :] == parent["token_ids"][:given]
        groups.setdefault(row["group_id"], []).append(row)
    for members in groups.values():
        values = {row["state_value"] for row in members}
        assert list(values) == [pytest.approx(np.mean([row["reward"] for row in members]))]
    assert max(row["branch_position"] for row in branches) > 0


def test_a_stop_rule_ends_the_run_and_keeps_the_last_good_checkpoint(tmp_path):
    rule = "sampled_tokens>700"
    ended = train(small("grpo"), tmp_path, stop_on=[rule])
    assert 1 < ended.step < 4
    assert "sampled_tokens" in ended.stopped
    assert [path.name for path in ended.checkpoints][-1] == f"step-{ended.step - 1:05d}"
    again = train(small("grpo"), tmp_path, stop_on=[rule])
    assert (again.step, again.stopped) == (ended.step, ended.stopped)
    assert train(small("grpo"), tmp_path).step == 4


def test_resume_needs_something_to_continue(tmp_path):
    with pytest.raises(InputError, match="no checkpoint"):
        train(small("grpo"), tmp_path / "new", resume=True)
    assert not (tmp_path / "new").exists()


class Breaks(SilentView):
    """Raises an error of the user's own after a step."""

    def iteration(self, metrics):
        if metrics["step"] == 2:
            raise InputError("broken")


@pytest.mark.parametrize("kept", ["save.rollouts_every=1", "save.rollouts_every=0"])
def test_an_error_takes_nothing_finished_away(tmp_path, kept):
    with pytest.raises(InputError, match="broken"):
        train(small("grpo", kept), tmp_path / "run", view=Breaks())
    assert (tmp_path / "run" / "checkpoints" / "step-00001" / "model.safetensors").is_file()


class Notes(SilentView):
    def __init__(self):
        self.notes = []

    def note(self, text):
        self.notes.append(text)


@pytest.mark.parametrize("change", ["exploration.samples=1", "sampling.max_new_tokens=1"])
def test_nothing_to_learn_is_said_once_and_is_no_nan(tmp_path, change):
    """All truncated, or groups of one: losses stay numbers, weights stay where they were."""
    view = Notes()
    train(small("grpo", change, "steps=2", "evaluation.every=0"), tmp_path, view=view)
    assert sum("nothing is learned" in note for note in view.notes) == 1
    assert [(row["loss"], row["gradient_norm"]) for row in lines(tmp_path)] == [(0.0, 0.0)] * 2


def test_another_recipe_does_not_continue_a_run(tmp_path):
    train(small("grpo", "steps=1"), tmp_path)
    with pytest.raises(InputError, match="other settings"):
        train(small("grpo", "steps=2"), tmp_path)


def test_a_damaged_state_is_named(tmp_path):
    train(small("grpo", "steps=2"), tmp_path)
    state = tmp_path / "checkpoints" / "step-00002" / "training_state.safetensors"
    state.write_bytes(state.read_bytes()[:1000])
    with pytest.raises(InputError, match="step-00002"):
        train(small("grpo", "steps=2"), tmp_path)


def test_seeds_and_weights_change_what_is_sampled(tmp_path):
    for seed in (0, 1):
        train(small("grpo", f"seed={seed}", "steps=2", "exploration.prompts=2"), tmp_path / str(seed))
    texts = {
        (seed, step): tuple(Rollouts.read(tmp_path / str(seed)).of(f"step {step}").strings("text"))
        for seed in (0, 1)
        for step in (1, 2)
    }
    assert len(set(texts.values())) == 4


def test_training_sees_no_test_problem(tmp_path):
    train(small("grpo", "steps=2"), tmp_path)
    from entropy_lab import load_task

    test = {problem.id for problem in load_task("countdown").problems()}
    assert not test & set(Rollouts.read(tmp_path).strings("problem_id"))


def test_kill_9_at_any_instant_and_resume(tmp_path):
    def command(folder):
        sizes = [word for one in (*SMALL, "steps=6") for word in ("--set", one)]
        return [str(Path(sys.executable).with_name("entropy-lab")), "train", "grpo", "--out", str(folder), *sizes]

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    subprocess.run(command(whole), check=True, capture_output=True, env=environment)
    kills = 0
    for wanted in (2, 4, 5):
        process = subprocess.Popen(command(broken), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment)
        deadline = time.monotonic() + 60
        log = broken / "metrics.jsonl"
        while process.poll() is None and time.monotonic() < deadline:
            if log.is_file() and log.read_text().count("\n") > wanted:
                process.send_signal(signal.SIGKILL)
                kills += 1
                break
            time.sleep(0.005)
        process.communicate()
    assert kills
    subprocess.run([*command(broken), "--resume"], check=True, capture_output=True, env=environment)
    assert lines(whole) == lines(broken)
    first, second = last_weights(whole), last_weights(broken)
    assert all(torch.equal(first[key], second[key]) for key in first)


def test_learning_rates():
    cosine = Optimizer(learning_rate=1.0, warmup_steps=2, schedule="cosine")
    assert [learning_rate(cosine, step, 102) for step in (0, 1, 2)] == [0.5, 1.0, 1.0]
    assert learning_rate(cosine, 52, 102) == pytest.approx(0.55)
    assert learning_rate(cosine, 102, 102) == pytest.approx(0.1)
    assert learning_rate(Optimizer(learning_rate=1.0), 99, 100) == 1.0
