"""`entropy-lab coverage` as a user calls it."""

import json
import sys

import pytest
from entropy_lab_cli import main

SMALL = ["--problems", "4", "--samples", "4", "--max-new-tokens", "48"]


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run the command in `tmp_path`; gives exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["entropy-lab", "coverage", *map(str, arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        told = capsys.readouterr()
        return end.value.code or 0, told.out, told.err

    return call


def test_the_ladder_as_one_json_document(call, tmp_path):
    code, out, err = call(*SMALL, "--k", "1,2", "--json")
    assert code == 0, err
    printed = json.loads(out)
    folder = tmp_path / printed["run"]
    assert folder.name.startswith("coverage-")
    assert json.loads((folder / "metrics.json").read_text()) == printed["metrics"]
    named = {(row["checkpoint"], row["metric"]) for row in printed["metrics"]}
    ladder = ["builtin:sft-early", "builtin:sft-middle", "builtin:sft"]
    for name in ladder:
        assert {(name, "coverage.family"), (name, "cohort.coverage.family"), (name, "pass@2")} <= named
        assert (name, "pass@4") not in named
    assert {pair for pair, metric in named if metric == "difference.pass@1"} == {
        f"{ladder[0]} - {ladder[1]}",
        f"{ladder[0]} - {ladder[2]}",
        f"{ladder[1]} - {ladder[2]}",
    }
    for row in printed["metrics"]:
        assert row["value"] is not None or row["note"]


def test_arms_in_one_table_at_80_columns(call, tmp_path):
    code, out, err = call(
        "builtin:sft", *SMALL, "--forced", "--prompt-variant", "many-ways", "--prompt-variant", "Use another way."
    )
    assert code == 0, err
    assert max(map(len, out.splitlines()[:-1])) <= 80
    for arm in ("[forced]", "[many-ways]"):
        assert arm in out
    assert "leaves the sentence out" in " ".join(out.split())
    assert (tmp_path / "runs").is_dir()


def test_wrong_requests_exit_2_with_the_reason(call, tmp_path):
    for arguments, words in (
        (["--prompt-variant", "many-way"], "did you mean many-ways"),
        (["builtin:sft", "builtin:sft"], "named twice"),
        (["--k", "8"], "pass@8"),
        (["--task", "countdwn"], "countdown"),
        (["builtin:sftt"], "builtin:sft"),
    ):
        code, out, err = call(*SMALL, *arguments)
        assert (code, out) == (2, "")
        assert words in err
    assert list(tmp_path.iterdir()) == []
