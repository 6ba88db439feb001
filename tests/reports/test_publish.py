"""What a command leaves behind when it hands its diagnosis over, and what it prints."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from entropy_lab_cli.terminal import show

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.progress import Silent
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis
from entropy_lab.reports.drawings import levels
from entropy_lab.runs import open_run
from entropy_lab.workflows.outcome import Analysis, publish


@pytest.fixture
def published(several: Diagnosis, tmp_path: Path) -> Analysis:
    pass_at_1 = [part.metrics[0] for part in several.checkpoints]
    names = [part.name for part in several.checkpoints]
    drawing = levels("ladder", "Ladder", "By rung.", names, {"pass@1": pass_at_1}, ylabel="pass@1")
    assert drawing is not None
    crossing = Metric("crossing.pass@k", 4.0, 2.0, 8.0, "k", 100, "a - b")
    diagnosis = replace(several, differences=(*several.differences, crossing), drawings=(drawing,))
    values = {name: {"pass@1": np.array([0.5, np.nan])} for name in names}
    with open_run("coverage", {"seed": 0}, tmp_path / "run") as run:
        return publish(run, diagnosis, ["p", "q"], values, Silent())


def test_every_file_of_the_run_is_there(published: Analysis, several: Diagnosis) -> None:
    folder = published.folder
    assert json.loads((folder / "metrics.json").read_text()) == [asdict(metric) for metric in published.metrics]
    names = [metric.metric for metric in published.metrics]
    measured = sum(len(part.metrics) for part in several.checkpoints)
    assert not any(name.startswith("difference.") for name in names[:measured])
    assert names[measured : measured + 3] == ["difference.pass@1"] * 3
    assert names[-1] == "crossing.pass@k"
    assert sorted(path.name for path in (folder / "figures").iterdir()) == ["ladder.png", "ladder.svg"]
    assert 'id="ladder-title"' in published.report.read_text()
    rows = pq.read_table(folder / "problems.parquet").to_pylist()
    assert [row["value"] for row in rows] == [0.5, None] * 3


def test_json_is_one_document(published: Analysis, capsys: pytest.CaptureFixture[str]) -> None:
    show(published, json=True)
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["run", "report", "metrics"]
    assert printed["run"] == str(published.folder)
    assert printed["report"] == str(published.folder / "report.html")
    assert printed["metrics"] == [asdict(metric) for metric in published.metrics]


def test_a_person_gets_the_summary_and_the_page(published: Analysis, capsys: pytest.CaptureFixture[str]) -> None:
    show(published, json=False)
    printed = capsys.readouterr().out
    assert "Coverage along the ladder" in printed
    assert printed.endswith(f"report {published.report}\n")


def test_metrics_alone_make_a_checkpoint() -> None:
    row = Metric("pass@1", 0.5, 0.4, 0.6, "share", 9, "a")
    part = CheckpointDiagnosis.of_metrics("a", [row], problems=9, samples=4, trajectory_count=36)
    assert (part.name, part.metrics, part.problems, part.samples, part.trajectory_count) == ("a", (row,), 9, 4, 36)
    assert len(part.pass_at_k.x) == len(part.entropy_by_position.x) == len(part.entropy_histogram[1]) == 0
    assert part.trajectories == ()
