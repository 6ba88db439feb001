"""`entropy-lab probe entropy-change` as a user calls it."""

import json

import pytest
from entropy_lab_cli.probe import CHANGES, app
from typer.testing import CliRunner

SMALL = ("entropy-change", "--problems", "6", "--samples", "4", "--device", "cpu", "--seed", "1")


@pytest.fixture
def call(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_one_document_or_a_table_of_quadrants(call, tmp_path):
    done = call(*SMALL, "--recipe", "dapo", "--set", "objective.high=0.3", "--learning-rate", "1e-3", "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    folder = tmp_path / document["run"]
    assert folder.name.startswith("probe-entropy-change-")
    assert json.loads((folder / "metrics.json").read_text()) == document["metrics"]
    asked = json.loads((folder / "run.json").read_text())["asked"]
    assert (asked["recipe"], asked["learning_rate"], asked["overrides"]) == ("dapo", 1e-3, ["objective.high=0.3"])
    assert (tmp_path / document["report"]).is_file()

    shown = call("entropy-change", "--device", "cpu", "--rollouts", str(folder))
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert lines[0] == "builtin:sft, entropy change under grpo"
    assert "η = 0.0005" in lines[1]
    for spoken in (*CHANGES.values(), "A > 0, s > s*", "A < 0, s < s*", "A = 0"):
        assert any(line.startswith(spoken) for line in lines)
    assert lines[-1].endswith("report.html")


def test_wrong_options_are_refused_before_anything_is_loaded(call, tmp_path):
    assert call("entropy-change", "--samples", "0").exit_code == 2
    assert call("entropy-change", "--problems", "0").exit_code == 2
    assert call("entropy-change", "--learning-rate", "-1").exit_code != 0
    assert not (tmp_path / "runs").exists()
