import json
import sys

import pytest
from entropy_lab_cli import main


def run(monkeypatch, capsys, *arguments):
    """Run the command in this process; its exit code and what it printed."""
    monkeypatch.setattr(sys, "argv", ["entropy-lab", "shift", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, capsys.readouterr()


def test_shift_prints_one_document_or_a_summary(tmp_path, monkeypatch, capsys):
    small = ("--problems", 4, "--out", tmp_path / "run")
    code, printed = run(monkeypatch, capsys, *small, "--json")
    assert code == 0
    document = json.loads(printed.out)
    assert json.loads((tmp_path / "run" / "metrics.json").read_text()) == document["metrics"]
    names = [row["metric"] for row in document["metrics"]]
    parts = ("entrance", "execution")
    assert names == [
        *(f"shift.{part}.abs" for part in parts),
        *(f"shift.{part}.mean" for part in parts),
        *(f"kl.{part}" for part in parts),
        "shift.ratio",
        "kl.ratio",
    ]
    assert all(row["n"] == 4 and row["low"] <= row["value"] <= row["high"] for row in document["metrics"])
    code, printed = run(monkeypatch, capsys, *small)
    assert code == 0
    assert "builtin:sft-early → builtin:sft" in printed.out


def test_options_reach_the_plan(tmp_path, monkeypatch, capsys):
    options = ("--texts", "late", "--samples", 2, "--problems", 3, "--temperature", 0.7, "--seed", 5, "--mask-unused")
    code, printed = run(
        monkeypatch, capsys, "builtin:sft-middle", "builtin:sft", *options, "--out", tmp_path / "run", "--json"
    )
    assert code == 0
    asked = json.loads((tmp_path / "run" / "run.json").read_text())["asked"]
    assert (asked["early"], asked["late"], asked["texts"], asked["samples"]) == (
        "builtin:sft-middle",
        "builtin:sft",
        "late",
        2,
    )
    sampling = asked["sampling"]
    assert (sampling["temperature"], sampling["seed"], sampling["mask_unused"]) == (0.7, 5, True)
    assert "6 traces sampled from the late checkpoint" in json.loads(printed.out)["metrics"][0]["note"]


def test_wrong_input_is_one_line_and_exit_code_two(monkeypatch, capsys, tmp_path):
    code, printed = run(monkeypatch, capsys, "--texts", "both", "--out", tmp_path / "run")
    assert code == 2
    assert printed.out == ""
    assert printed.err.startswith("entropy-lab: --texts is 'both'")
