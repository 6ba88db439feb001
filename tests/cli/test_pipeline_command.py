"""`entropy-lab train` of a pipeline: its table, its one JSON document, what it refuses."""

import json

import pytest

from entropy_lab.errors import InputError
from tests.cli.test_train_command import in_this_process

SMALL = (
    *("sft.steps=2", "sft.exploration.count=8", "dpo.steps=1", "dpo.exploration.prompts=3", "grpo.steps=1"),
    *("grpo.exploration.prompts=3", "boundaries.problems=3", "boundaries.samples=8"),
)
SIZES = [
    word
    for one in (*SMALL, *(f"{stage}.evaluation.every=0" for stage in ("sft", "dpo", "grpo")))
    for word in ("--set", one)
]


def test_staged_from_the_command_line(tmp_path):
    done = in_this_process("staged", *SIZES, "--seed", 3, "--out", tmp_path / "run")
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] == "boundary"
    boundaries = ["start", "sft", "dpo", "grpo"]
    assert [line.split()[0] for line in lines if line.split(" ")[0] in boundaries] == boundaries
    assert max(map(len, lines[:9])) <= 80
    assert any(line.startswith("entropy.area grpo:") for line in lines)
    assert (tmp_path / "run" / "seed-3" / "grpo" / "checkpoints" / "step-00001").is_dir()
    document = json.loads(in_this_process("staged", *SIZES, "--seed", 3, "--out", tmp_path / "run", "--json").stdout)
    assert document["run"] == str(tmp_path / "run")
    assert {one["checkpoint"] for one in document["metrics"]} >= {"start", "sft", "dpo", "grpo"}


@pytest.mark.parametrize("option", [("--steps", 3), ("--task", "countdown"), ("--stop-on", "loss>1"), ("--resume",)])
def test_options_of_one_run_are_refused(option):
    with pytest.raises(InputError, match=r"takes no --.*--set STAGE\.FIELD=VALUE"):
        in_this_process("staged", *option)


def test_listed_with_their_stages():
    entries = {one["name"]: one for one in json.loads(in_this_process("--list", "--json").stdout)["recipes"]}
    assert entries["staged"]["stages"] == ["sft", "dpo", "grpo"]
    assert all(isinstance(one["steps"], int) for one in entries.values())
    assert "three → four" in in_this_process("--list").stdout
