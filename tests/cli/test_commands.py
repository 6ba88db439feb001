"""The commands as a user runs them: real processes, real checkpoints, exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ENTROPY_LAB = [sys.executable, "-c", "from entropy_lab_cli import main; main()"]
SMALL = ["--problems", "6", "--samples", "4"]


def run(*arguments, cwd, timeout=300):
    return subprocess.run(
        [*ENTROPY_LAB, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False
    )


def assert_refused(done, *words):
    """Exit 2, one clear line, no traceback, nothing on stdout."""
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    for word in words:
        assert word in done.stderr


def test_analyze_checkpoint_leaves_a_complete_run(tmp_path):
    done = run("analyze", "checkpoint", "builtin:sft", "--against", "builtin:sft-early", *SMALL, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    folder = tmp_path / printed["run"]
    assert folder.name.startswith("analyze-")
    assert json.loads((folder / "metrics.json").read_text()) == printed["metrics"]
    assert printed["report"] == str(Path(printed["run"]) / "report.html")
    names = {(row["metric"], row["checkpoint"]) for row in printed["metrics"]}
    measured = "entropy.problem_mean entropy.token_mean entropy.early pass@1 pass@4 coverage.family unused_mass"
    for metric in measured.split():
        assert {(metric, "builtin:sft"), (metric, "builtin:sft-early")} <= names
    assert ("difference.pass@1", "builtin:sft - builtin:sft-early") in names
    for row in printed["metrics"]:
        assert row["value"] is not None or row["note"]
    for name in ("run.json", "problems.parquet", "report.html", "figures/pass_at_k.svg", "rollouts/part-00000.parquet"):
        assert (folder / name).is_file()
    record = json.loads((folder / "run.json").read_text())
    assert record["settings"]["sampling"]["temperature"] == 1.0
    assert len(record["settings"]["checkpoints"][0]["fingerprint"]) == 64


def test_stored_rollouts_give_the_numbers_of_their_run(tmp_path):
    first = run("analyze", "checkpoint", "builtin:sft", *SMALL, "--out", "a", "--json", cwd=tmp_path)
    again = run("analyze", "rollouts", "a", "--out", "b", "--json", cwd=tmp_path)
    assert first.returncode == again.returncode == 0, again.stderr
    of_run = {row["metric"]: row for row in json.loads(first.stdout)["metrics"]}
    for row in json.loads(again.stdout)["metrics"]:
        assert of_run[row["metric"]] == row


def test_plain_jsonl_is_graded_and_scored_on_request(tmp_path):
    first = run("analyze", "checkpoint", "builtin:sft", *SMALL, "--out", "a", "--json", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    from entropy_lab.rollouts import Rollouts

    kept = ("problem_id", "sample_index", "prompt_ids", "token_ids", "text", "finish_reason")
    rows = Rollouts.read(tmp_path / "a").table.select(kept).to_pylist()
    (tmp_path / "mine.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    plain = run("analyze", "rollouts", "mine.jsonl", "--out", "b", "--json", cwd=tmp_path)
    assert plain.returncode == 0, plain.stderr
    assert "pass@1" not in {row["metric"] for row in json.loads(plain.stdout)["metrics"]}
    full = run(
        *("analyze", "rollouts", "mine.jsonl", "--checkpoint", "builtin:sft", "--task", "countdown"),
        *("--out", "c", "--json"),
        cwd=tmp_path,
    )
    assert full.returncode == 0, full.stderr
    expected = {row["metric"]: row["value"] for row in json.loads(first.stdout)["metrics"]}
    found = {row["metric"]: row["value"] for row in json.loads(full.stdout)["metrics"]}
    assert found["pass@1"] == expected["pass@1"]
    assert found["entropy.problem_mean"] == pytest.approx(expected["entropy.problem_mean"], abs=1e-4)


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


def test_a_task_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(OWN_TASK)
    done = run(
        *("analyze", "checkpoint", "builtin:sft", "--task", "mine.py:Sevens", "--samples", "8", "--json"), cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = {row["metric"]: row for row in json.loads(done.stdout)["metrics"]}
    assert found["pass@1"]["n"] == 2
    assert found["pass@1"]["value"] > 0
    assert_refused(
        run("analyze", "checkpoint", "builtin:sft", "--task", "mine.py:Eights", cwd=tmp_path), "mine.py", "Eights"
    )


def without_times(folder):
    record = json.loads((folder / "run.json").read_text())
    return {key: value for key, value in record.items() if key not in ("started", "timings")}


def test_a_run_killed_and_repeated_ends_with_the_same_numbers(tmp_path):
    """kill -9 in the middle, the same command again: finished batches are kept, the numbers are equal to the bit."""
    command = ["analyze", "checkpoint", "builtin:sft", "--problems", "100", "--samples", "16", "--out"]
    whole = run(*command, "whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    process = subprocess.Popen([*ENTROPY_LAB, *command, "broken"], cwd=tmp_path, stderr=subprocess.DEVNULL)
    first = tmp_path / "broken" / "rollouts" / "part-00000.parquet"
    deadline = time.monotonic() + 120
    while not first.is_file() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = first.stat().st_mtime_ns
    assert not (tmp_path / "broken" / "metrics.json").exists()
    again = run(*command, "broken", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert first.stat().st_mtime_ns == kept
    from entropy_lab.rollouts import Rollouts

    assert Rollouts.read(tmp_path / "broken").table.equals(Rollouts.read(tmp_path / "whole").table)
    metrics = [(tmp_path / name / "metrics.json").read_text() for name in ("whole", "broken")]
    assert metrics[0] == metrics[1]
    assert without_times(tmp_path / "whole") == without_times(tmp_path / "broken")
    assert not list((tmp_path / "broken").rglob("*.partial"))


def test_interrupt_says_how_to_go_on(tmp_path):
    process = subprocess.Popen(
        [*ENTROPY_LAB, "analyze", "checkpoint", "builtin:sft", "--problems", "1000", "--samples", "64", "--out", "a"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts what it puts in the background with Ctrl-C ignored, and children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 120
        while not (tmp_path / "a" / "run.json").is_file() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "continue" in told
    assert "Traceback" not in told


def test_wrong_requests_exit_2_with_the_reason(tmp_path):
    """S6: k above n, greedy samples; and a checkpoint, task, rule or engine that does not exist."""
    analyze = ["analyze", "checkpoint", "builtin:sft", *SMALL]
    assert_refused(run(*analyze, "--k", "8", cwd=tmp_path), "pass@8", "--samples")
    assert_refused(run(*analyze, "--k", "four", cwd=tmp_path), "--k", "four")
    assert_refused(run(*analyze, "--temperature", "0", cwd=tmp_path), "--temperature 0", "--samples 1")
    assert_refused(run(*analyze, "--engine", "warp", cwd=tmp_path), "warp", "transformers")
    assert_refused(run(*analyze, "--task", "countdwn", cwd=tmp_path), "countdown")
    assert_refused(run(*analyze, "--decisions", "vibes", cwd=tmp_path), "vibes", "quantile")
    assert_refused(run(*analyze, "--against", "builtin:sft", cwd=tmp_path), "--against")
    assert_refused(run("analyze", "checkpoint", "builtin:sftt", cwd=tmp_path), "builtin:sft")
    assert_refused(run("analyze", "checkpoint", "no/such/folder/here", cwd=tmp_path), "no/such/folder/here")
    assert_refused(run("analyze", "rollouts", "absent.parquet", cwd=tmp_path), "absent.parquet")
    assert_refused(run("train", "sft", "--recipe", "absent.toml", cwd=tmp_path), "absent.toml")
    assert run("analyze", "checkpoint", "--problems", "0", cwd=tmp_path).returncode == 2
    assert run("nonsense", cwd=tmp_path).returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_doctor_reports_in_both_forms(tmp_path):
    done = run("doctor", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    findings = json.loads(done.stdout)
    assert {"python", "torch", "device", "memory"} <= {finding["name"] for finding in findings}
    assert "torch" in run("doctor", cwd=tmp_path).stdout


def test_train_continues_and_lists_its_checkpoints(tmp_path):
    recipe = Path(__file__).parents[1] / "data" / "tiny_recipe.toml"
    for _ in range(2):
        done = run("train", "--recipe", recipe, "--out", "t", "--json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        kept = json.loads(done.stdout)["checkpoints"]
        assert kept == [os.path.join("t", "checkpoints", name) for name in ("only", "step-00002")]
    assert (tmp_path / "t" / "checkpoints" / "only" / "model.safetensors").is_file()


def test_help_and_import_stay_light():
    """`entropy-lab --help` and `import entropy_lab` load neither torch nor transformers nor matplotlib."""
    for code in ("import entropy_lab", "import entropy_lab_cli"):
        loaded = subprocess.run(
            [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert not {"torch", "transformers", "matplotlib", "pyarrow", "scipy"} & set(loaded)


def test_every_package_is_installed():
    """The list of packages in pyproject.toml is written by hand; none may be missing."""
    import tomllib

    root = Path(__file__).parents[2]
    listed = set(tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    there = {".".join(path.parent.relative_to(root).parts) for path in (root / "entropy_lab").rglob("__init__.py")}
    assert listed == there | {"entropy_lab_cli"}
