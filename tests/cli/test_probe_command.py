"""`entropy-lab probe numerics` as a user calls it."""

import json

import pytest
from entropy_lab_cli.probe import SECTIONS, app
from typer.testing import CliRunner

SMALL = ("numerics", "--problems", "2", "--samples", "2", "--max-new-tokens", "20", "--device", "cpu", "--seed", "1")


@pytest.fixture
def call(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return lambda *arguments: CliRunner().invoke(app, list(arguments))


def test_one_document_or_a_table_in_sections(call, tmp_path):
    done = call(*SMALL, "--json")
    assert done.exit_code == 0, done.output
    document = json.loads(done.stdout)
    folder = tmp_path / document["run"]
    assert folder.name.startswith("probe-numerics-")
    assert json.loads((folder / "metrics.json").read_text()) == document["metrics"]
    asked = json.loads((folder / "run.json").read_text())["asked"]
    assert (asked["problems"], asked["samples"], asked["device"]) == (2, 2, "cpu")
    assert (asked["sampling"]["seed"], asked["sampling"]["max_new_tokens"]) == (1, 20)

    again = call(*SMALL)
    assert again.exit_code == 0, again.output
    lines = again.stdout.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert all(caption in lines for caption in SECTIONS.values())
    assert lines[0].startswith("4 trajectories, ")
    assert folder.name in lines[-1]
    shown = {line.split()[0] for line in lines if line.strip()}
    names = {row["metric"].split(".", 1)[1] for row in document["metrics"]}
    assert names <= shown
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_wrong_counts_are_refused_before_anything_is_loaded(call, tmp_path):
    assert call("numerics", "--samples", "0").exit_code == 2
    assert call("numerics", "--problems", "0").exit_code == 2
    assert not (tmp_path / "runs").exists()
