"""`entropy-lab interpolate` as a user calls it."""

import json
import sys

import pytest
from entropy_lab_cli import main

from entropy_lab.checkpoints import load_checkpoint

GRID = ["--layers", "2:4,global", "--alpha", ".6", "--problems", "4", "--samples", "4"]


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run the command in `tmp_path`; gives exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["entropy-lab", "interpolate", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        told = capsys.readouterr()
        return end.value.code or 0, told.out, told.err

    return call


def test_one_cell_writes_a_checkpoint(call, tmp_path):
    code, out, err = call("--layers", "2:4", "--alpha", ".6", "--out", "cell", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told.pop("checkpoint") == str(tmp_path / "cell")
    assert told == {"early": "builtin:sft-early", "late": "builtin:sft", "layers": "2:4", "alpha": 0.6}
    assert load_checkpoint(tmp_path / "cell", device="cpu").model.config.num_hidden_layers == 4
    code, out, _ = call(
        *("builtin:sft-middle", "builtin:sft", "--layers", "global", "--alpha", "0.5", "--out", "deep/er")
    )
    assert code == 0
    assert str(tmp_path / "deep" / "er") in out


def test_a_grid_is_measured_and_its_cells_marked(call, tmp_path):
    code, out, err = call(*GRID, "--json")
    assert code == 0, err
    told = json.loads(out)
    folder = tmp_path / told["run"]
    assert folder.name.startswith("interpolate-")
    assert json.loads((folder / "metrics.json").read_text()) == told["metrics"]
    assert [cell["name"] for cell in told["cells"]] == ["2:4 @ 0.6", "global @ 0.6"]
    assert [end["name"] for end in told["ends"]] == ["builtin:sft", "builtin:sft-early"]
    assert any(row["pareto"] for row in told["cells"] + told["ends"])
    code, out, err = call(*GRID)
    assert code == 0, err
    *lines, report = out.splitlines()
    assert report == f"report {told['report']}"
    assert max(map(len, lines)) <= 80
    for row in told["cells"] + told["ends"]:
        (line,) = [line for line in lines[3:] if line.startswith(f"{row['name']} ")]
        assert line.rstrip().endswith("yes") == row["pareto"]
    assert sum(line.startswith("  − late") for line in lines) == 3
    assert "point estimates" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--layers", "2:4", "--alpha", ".6"], ["--out"]),
        (["--layers", "2-4"], ["--layers", "'2-4'", "START:STOP"]),
        (["--layers", "3:2"], ["--layers", "3:2"]),
        (["--layers", "2:9"], ["--layers 2:9", "4 layers"]),
        (["--alpha", ".3,many"], ["--alpha", "'many'"]),
        (["--alpha", "nan,.5"], ["--alpha", "nan"]),
        (["--alpha", "1.5,.5"], ["--alpha", "1.5"]),
        (["builtin:sft-early"], ["builtin:sft-early", "EARLY and LATE"]),
        (["builtin:sft", "builtin:sft"], ["same weights"]),
        (["builtin:sfd", "builtin:sft"], ["'sfd'", "builtin:sft"]),
        (["--temperature", "0"], ["--temperature 0"]),
    ],
)
def test_wrong_requests_exit_2_with_the_reason(call, tmp_path, arguments, words):
    code, out, err = call(*arguments)
    assert (code, out) == (2, "")
    for word in words:
        assert word in err
    assert list(tmp_path.iterdir()) == []
