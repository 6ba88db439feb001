"""A whole pipeline, small: stages follow each other, boundaries are measured, a broken one continues."""

import json

import pytest

from entropy_lab.training.pipeline import load_pipeline
from entropy_lab.training.view import SilentView
from entropy_lab.workflows.pipeline import run_pipeline
from tests.training.test_loop import KillAt, Killed
from tests.training.test_pipeline import TEXT, written

TINY = (
    *("rl.exploration.prompts=3", "rl.exploration.samples=3", "more.exploration.prompts=3"),
    *("more.exploration.continuations=2", "more.exploration.target_groups=3", "sft.exploration.count=8"),
    *("sft.exploration.numbers=[3]", "sft.exploration.largest_number=6", "sft.exploration.largest_target=20"),
    *("sft.exploration.test_problems=20", "sft.optimizer.warmup_steps=1"),
    *(f"{stage}.{setting}" for stage in ("sft", "rl", "more") for setting in
      ("evaluation.every=0", "save.trackers=[]", "start.device=cpu")),
    *("boundaries.problems=4", "boundaries.samples=8"),
)  # fmt: skip


def tiny(folder, *more):
    text = TEXT.replace("seeds = [4]", "seeds = [4, 5]")
    return load_pipeline(written(folder, text), [*TINY, *more])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipeline")
    return run_pipeline(tiny(folder), folder / "run", view=SilentView)


def test_every_boundary_is_kept_and_measured(finished):
    folder = finished.folder
    names = [one.name for one in finished.diagnosis.checkpoints]
    expected = [f"seed {seed} {name}" for seed in (4, 5) for name in ("sft", "sft/half", "rl", "more")]
    assert names == expected
    for seed in (4, 5):
        assert (folder / f"seed-{seed}" / "sft" / "checkpoints" / "half" / "config.json").is_file()
        assert (folder / f"seed-{seed}" / "more" / "checkpoints" / "step-00002" / "config.json").is_file()
    found = {(one.checkpoint, one.metric): one for one in finished.metrics}
    for name in expected:
        for metric in ("pass@1", "entropy.token_mean", "triage.degenerate", "triage.pass_ratio", "coverage.family"):
            assert (name, metric) in found, (name, metric)
    assert {drawing.name for drawing in finished.diagnosis.drawings} >= {"boundaries_pass_1"}


def test_a_stage_begins_from_the_rung_it_names(finished):
    written_recipe = (finished.folder / "seed-4" / "rl" / "recipe.toml").read_text()
    assert "sft/checkpoints/half" in written_recipe.replace("\\", "/")


def test_along_the_way(finished):
    names = {one.metric for one in finished.metrics if not one.checkpoint}
    assert {"entropy.area rl of seed 4", "entropy.area more of seed 5"} <= names
    assert {"agreement.entropy_before.pass@1.tau"} <= names
    assert any(note.startswith("agreement.entropy_before.pass@1.tau: ") for note in finished.diagnosis.notes)


def test_the_same_command_continues_and_ends_with_the_same_numbers(finished, tmp_path):
    with pytest.raises(Killed):
        run_pipeline(tiny(tmp_path), tmp_path / "run", view=lambda: KillAt(3))
    again = run_pipeline(tiny(tmp_path), tmp_path / "run", view=SilentView)
    assert again.metrics == finished.metrics
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.safetensors")}
    run_pipeline(tiny(tmp_path), tmp_path / "run", view=lambda: KillAt(1))  # nothing trains, so nothing dies
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "run").rglob("*.safetensors")}


def test_metrics_are_a_flat_list(finished):
    rows = json.loads((finished.folder / "metrics.json").read_text())
    assert all({"metric", "value", "low", "high", "n", "checkpoint", "note"} <= set(row) for row in rows)
