import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.interventions.checkpoint_pair import Cell, open_pair
from entropy_lab.interventions.interpolation import write_cell
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run
from entropy_lab.workflows import analyze_checkpoint, interpolate
from entropy_lab.workflows.interpolate import InterpolatePlan, interpolate_grid

EARLY, LATE = "builtin:sft-early", "builtin:sft"
CELLS = (Cell((2, 4), 0.4), Cell((0, 4), 0.0), Cell(None, 1.0))
PLAN = InterpolatePlan(CELLS, problems=8, samples=8, sampling=Sampling(max_new_tokens=48, seed=3), device="cpu")
NAMES = [LATE, EARLY, "2:4 @ 0.4", "0:4 @ 0", "global @ 1"]


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    return interpolate_grid(PLAN, tmp_path_factory.mktemp("grid") / "run")


def rows_without_name(grid, name):
    return Rollouts.read(grid.folder).of(name).table.drop_columns(["checkpoint"])


def test_every_arm_is_measured_and_compared_with_late(grid):
    assert [one.name for one in grid.diagnosis.checkpoints] == NAMES
    found = {(metric.checkpoint, metric.metric): metric for metric in grid.metrics}
    for name in NAMES:
        for metric in ("pass@1", "pass@8", "coverage.family", "coverage.solution", "entropy.problem_mean"):
            assert found[name, metric].n > 0
    for name in NAMES[1:]:
        pair = f"{name} - {LATE}"
        difference = found[pair, "difference.coverage.family"].value
        assert difference == pytest.approx(
            found[name, "coverage.family"].value - found[LATE, "coverage.family"].value, abs=1e-12
        )
        assert (pair, "crossing.pass@k") in found
    assert found[f"0:4 @ 0 - {LATE}", "difference.pass@1"].value == 0
    assert json.loads((grid.folder / "metrics.json").read_text())[0]["checkpoint"] == LATE


def test_arms_share_their_random_draws(grid):
    """α = 0 is late and global α = 1 is early, token for token."""
    assert rows_without_name(grid, "0:4 @ 0").equals(rows_without_name(grid, LATE))
    assert rows_without_name(grid, "global @ 1").equals(rows_without_name(grid, EARLY))
    assert not rows_without_name(grid, "2:4 @ 0.4").equals(rows_without_name(grid, LATE))


def test_a_cell_has_the_numbers_of_its_checkpoint_analysed_alone(grid, tmp_path):
    folder = write_cell(open_pair(EARLY, LATE), CELLS[0], tmp_path / "cell")
    alone = analyze_checkpoint.analyze_checkpoint(
        analyze_checkpoint.Plan(checkpoint=str(folder), problems=8, samples=8, sampling=PLAN.sampling, device="cpu"),
        tmp_path / "run",
    )
    found = {row.metric: row.value for row in grid.metrics if row.checkpoint == "2:4 @ 0.4"}
    expected = {row.metric: row.value for row in alone.metrics if row.metric in found}
    assert len(expected) > 30
    assert {name: found[name] for name in expected} == expected


def test_the_record_holds_the_cells_and_their_marks(grid):
    record = json.loads((grid.folder / "run.json").read_text())
    assert [row["name"] for row in record["ends"]] == [LATE, EARLY]
    assert [(row["name"], row["layers"], row["alpha"]) for row in record["cells"]] == [
        *(("2:4 @ 0.4", "2:4", 0.4), ("0:4 @ 0", "0:4", 0.0), ("global @ 1", "global", 1.0)),
    ]
    found = {(metric.checkpoint, metric.metric): metric for metric in grid.metrics}
    rows = [*record["ends"], *record["cells"]]
    for row in rows:
        for axis in ("pass@1", "coverage.family"):
            metric = found[row["name"], axis]
            assert row[axis] == {"value": metric.value, "low": metric.low, "high": metric.high, "n": metric.n}
        here = np.array([row[axis]["value"] for axis in ("pass@1", "coverage.family")])
        others = [np.array([other[axis]["value"] for axis in ("pass@1", "coverage.family")]) for other in rows]
        beaten = any((other >= here).all() and (other > here).any() for other in others)
        assert row["pareto"] == (not beaten)
    marked = ", ".join(row["name"] for row in rows if row["pareto"])
    assert any(f"(pass@1, family coverage): {marked}." in note for note in grid.diagnosis.notes)


def test_nothing_but_a_run_is_left(grid):
    assert {path.name for path in grid.folder.iterdir()} == {
        *("run.json", "metrics.json", "problems.parquet", "report.html", "rollouts", "figures", ".lock"),
    }
    assert (grid.folder / "figures" / "interpolation.svg").is_file()


def test_a_run_cut_short_ends_with_the_same_numbers(grid, tmp_path, monkeypatch):
    """What an earlier start finished is kept: its parts are not sampled and its cells not even loaded again."""
    folder = tmp_path / "run"
    shutil.copytree(grid.folder, folder)
    record = json.loads((folder / "run.json").read_text())
    first, last = record["arms"]["2:4 @ 0.4"], record["arms"]["0:4 @ 0"]
    record["arms"] = {name: record["arms"][name] for name in NAMES[:3]}
    (folder / "run.json").write_text(
        json.dumps({k: v for k, v in record.items() if k not in ("axes", "cells", "ends")})
    )
    for part in range(first, record_parts(folder)):
        Run(folder).part(part).unlink()
    (folder / "metrics.json").unlink()
    (folder / "cell").mkdir()
    (folder / "cell" / "config.json").write_text("half")
    loaded, written = [], []
    monkeypatch.setattr(
        interpolate, "load_checkpoint", lambda name, **more: loaded.append(name) or load_checkpoint(name, **more)
    )
    write_part = Run.write_part
    monkeypatch.setattr(Run, "write_part", lambda run, part, rows: written.append(part) or write_part(run, part, rows))
    again = interpolate_grid(PLAN, folder)
    assert loaded == [LATE, EARLY, str(folder / "cell"), str(folder / "cell")]
    assert written == list(range(first, record_parts(folder)))
    assert first < last
    assert again.metrics == grid.metrics
    assert not (folder / "cell").exists()


def record_parts(folder) -> int:
    return len(list((folder / "rollouts").glob("*.parquet")))


def test_an_error_in_a_cell_leaves_no_half_checkpoint(tmp_path, monkeypatch):
    sample_into = interpolate.sample_into

    def fail_on_cells(run, first, order, engine, progress):
        if order.arm:
            assert (run.folder / "cell" / "model.safetensors").is_file()
            raise InputError("no more")
        return sample_into(run, first, order, engine, progress)

    monkeypatch.setattr(interpolate, "sample_into", fail_on_cells)
    with pytest.raises(InputError, match="no more"):
        interpolate_grid(replace(PLAN, problems=2, samples=2), tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "rollouts", ".lock"}


def test_a_wrong_cell_is_found_before_anything_is_sampled(tmp_path):
    with pytest.raises(InputError, match="has 4 layers"):
        interpolate_grid(replace(PLAN, cells=(Cell((0, 1), 0.5), Cell((3, 5), 0.5))), tmp_path / "run")
    with pytest.raises(InputError, match="--samples"):
        interpolate_grid(replace(PLAN, samples=0), tmp_path / "run")
    assert not (tmp_path / "run").exists()


OWN_TASK = """
from entropy_lab import Grade, Problem

class Sevens:
    name = "sevens"
    def problems(self):
        return [Problem(str(target), f"Numbers: 3 4\\nTarget: {target}") for target in (7, 12)]
    def messages(self, problem):
        return [{"role": "user", "content": problem.question + "\\n"}]
    def grade(self, problem, text):
        return Grade("7" in text, "correct" if "7" in text else "wrong-value", text)
"""


def test_without_a_solution_space_breadth_is_pass_at_the_largest_k(tmp_path):
    (tmp_path / "mine.py").write_text(OWN_TASK)
    plan = replace(PLAN, cells=CELLS[:1], task=f"{tmp_path / 'mine.py'}:Sevens", samples=4)
    interpolate_grid(plan, tmp_path / "run")
    (cell,) = json.loads((tmp_path / "run" / "run.json").read_text())["cells"]
    assert set(cell) == {"name", "layers", "alpha", "pareto", "pass@1", "pass@4"}
    assert json.loads((tmp_path / "run" / "run.json").read_text())["axes"] == ["pass@1", "pass@4"]
