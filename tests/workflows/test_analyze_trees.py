"""`analyze rollouts` on FR3E's own rollouts: trees are measured, and distort nothing else."""

import numpy as np
import pytest

from entropy_lab import Rollouts, analyze_rollouts
from entropy_lab.errors import InputError
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.workflows.train import train


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    sizes = ["exploration.prompts=8", "exploration.continuations=4", "exploration.target_groups=8", "steps=1",
             "evaluation.every=0", "save.trackers=[]", "start.device=cpu"]  # fmt: skip
    folder = tmp_path_factory.mktemp("trees") / "run"
    train(load_recipe("fr3e", sizes), folder)
    return folder / "rollouts" / "part-00001.parquet"


def numbers(analysis):
    return {metric.metric: metric.value for metric in analysis.metrics}


def test_trees_are_shown_and_plain_numbers_are_of_plain_samples(grown, tmp_path):
    rollouts = Rollouts.read(grown)
    branched = np.array([parent is not None for parent in rollouts.strings("parent_id")])
    rollouts.where(~branched).write(tmp_path / "plain.parquet")
    with_trees = analyze_rollouts(grown, checkpoint="builtin:sft", out=tmp_path / "a")
    plain = analyze_rollouts(tmp_path / "plain.parquet", checkpoint="builtin:sft", out=tmp_path / "b")
    found = numbers(with_trees)
    assert {name: found[name] for name in numbers(plain)} == numbers(plain)
    assert set(found) - set(numbers(plain)) >= {"tree.states", "tree.gain", "tree.value.0", "tree.value.1"}
    assert 1 < found["tree.states"] <= 4
    rows = rollouts.where(branched).table.to_pylist()
    roots = {}
    for row in rows:
        if row["branch_position"] == 0:
            roots.setdefault(row["problem_id"], {})[row["parent_id"]] = row["state_value"]
    expected = np.mean([np.mean(list(values.values())) for values in roots.values()])
    assert found["tree.value.root"] == pytest.approx(expected)
    assert {drawing.name for drawing in with_trees.diagnosis.drawings} == {"tree_values", "tree_openings"}
    assert "branches" in with_trees.diagnosis.notes[-1]


def test_without_a_checkpoint_openings_are_ids(grown, tmp_path):
    assert "tree.gain" in numbers(analyze_rollouts(grown, out=tmp_path))


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("parent_id", "nobody 3", "nobody 3"),
        ("branch_position", 10_000, "10000"),
        ("state_value", None, "state_value None"),
        ("state_value", 7.5, "share one value"),
    ],
)
def test_broken_trees_are_named(grown, tmp_path, column, value, said):
    rollouts = Rollouts.read(grown)
    values = rollouts.table[column].to_pylist()
    row = next(place for place, parent in enumerate(rollouts.strings("parent_id")) if parent is not None)
    values[row] = value
    rollouts.with_columns(**{column: values}).write(tmp_path / "broken.parquet")
    with pytest.raises(InputError, match=said):
        analyze_rollouts(tmp_path / "broken.parquet", out=tmp_path / "out")
