"""`entropy-lab force` as a user runs it: a real process, one JSON document, exit codes."""

import json
import subprocess
import sys

SMALL = ["--problems", "3", "--samples", "16", "--continuations", "4", "--max-new-tokens", "40"]


def run(*arguments, cwd):
    command = [sys.executable, "-c", "from entropy_lab_cli import main; main()", "force", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False)


def test_force_without_a_checkpoint_measures_the_embedded_ladder(tmp_path):
    done = run(*SMALL, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    folder = tmp_path / printed["run"]
    assert folder.name.startswith("force-")
    assert json.loads((folder / "metrics.json").read_text()) == printed["metrics"]
    found = {row["metric"]: row for row in printed["metrics"]}
    assert {row["checkpoint"] for row in printed["metrics"]} == {"builtin:sft"}
    assert found["force.execution"]["value"] > found["force.infeasible"]["value"] == 0
    assert all(row["value"] is not None or row["note"] for row in printed["metrics"])
    for name in ("run.json", "problems.parquet", "families.parquet", "report.html", "figures/forced_levels.png"):
        assert (folder / name).is_file()
    again = run(*SMALL, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert max(map(len, again.stdout.splitlines()[:-1])) <= 80
    assert "execution" in again.stdout
    assert str(folder.name) in again.stdout
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_wrong_requests_are_one_clear_line(tmp_path):
    for arguments, word in (
        (["builtin:sft", "--scaffold", "<answer>"], "--scaffold"),
        (["--temperature", "0"], "--temperature 0"),
        (["--task", "gsm8k.py:Missing"], "gsm8k.py"),
    ):
        done = run(*SMALL, *arguments, cwd=tmp_path)
        assert done.returncode == 2, done.stderr
        assert word in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""
    assert run("--continuations", "0", cwd=tmp_path).returncode == 2
    assert not (tmp_path / "runs").exists()
