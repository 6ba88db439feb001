"""`analyze rollouts` on a run with outer prefixes: they are measured beside plain samples, and distort nothing else."""

import numpy as np
import pytest

from entropy_lab import Rollouts, analyze_rollouts
from entropy_lab.errors import InputError
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.workflows.train import train


@pytest.fixture(scope="module")
def rollouts(tmp_path_factory):
    sizes = ["exploration.prompts=24", "exploration.samples=4", "exploration.probability=0.6", "steps=1",
             "evaluation.every=0", "save.trackers=[]", "start.device=cpu"]  # fmt: skip
    folder = tmp_path_factory.mktemp("prefixes") / "run"
    train(load_recipe("outer-prefix", sizes), folder)
    return folder / "rollouts" / "part-00001.parquet"


def numbers(analysis):
    return {metric.metric: metric.value for metric in analysis.metrics}


def test_prefixes_are_shown_and_plain_numbers_are_of_plain_samples(rollouts, tmp_path):
    table = Rollouts.read(rollouts)
    given = table.table["prefix_surprise"].is_valid().to_numpy(zero_copy_only=False)
    table.where(~given).write(tmp_path / "plain.parquet")
    found = analyze_rollouts(rollouts, out=tmp_path / "a")
    plain = numbers(analyze_rollouts(tmp_path / "plain.parquet", out=tmp_path / "b"))
    assert {name: numbers(found)[name] for name in plain} == plain
    rows = table.where(given).table.to_pylist()
    by_group = {}
    for row in rows:
        by_group.setdefault(row["group_id"], []).append(row)
    accuracy = np.mean([np.mean([row["correct"] for row in own]) for own in by_group.values()])
    assert numbers(found)["prefix.accuracy"] == pytest.approx(accuracy)
    surprise = np.mean([own[0]["prefix_surprise"] for own in by_group.values()])
    assert numbers(found)["prefix.surprise"] == pytest.approx(surprise)
    assert numbers(found)["prefix.plain.families"] > 0
    assert {drawing.name for drawing in found.diagnosis.drawings} == {"prefix_exploration", "prefix_families"}
    assert "another model" in found.diagnosis.notes[-1]


def test_nothing_but_continued_rows_is_said(rollouts, tmp_path):
    table = Rollouts.read(rollouts)
    given = table.table["prefix_surprise"].is_valid().to_numpy(zero_copy_only=False)
    table.where(given).write(tmp_path / "given.parquet")
    with pytest.raises(InputError, match="continue given tokens"):
        analyze_rollouts(tmp_path / "given.parquet", out=tmp_path / "out")
