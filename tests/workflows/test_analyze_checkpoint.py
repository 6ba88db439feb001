import json
from dataclasses import replace

import pytest

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run
from entropy_lab.tasks.grading import GraderFailure
from entropy_lab.workflows.analyze_checkpoint import Plan, analyze_checkpoint

TASK = """
from entropy_lab import Grade, Problem

class Task:
    name = "mine"
    def problems(self):
        return [Problem(ident, "find 3 + 4") for ident in {ids}]
    def messages(self, problem):
        return [{{"role": "user", "content": problem.question}}]
    def grade(self, problem, text):
        {grade}
"""


@pytest.fixture
def plan(tiny_checkpoint: Checkpoint, tmp_path):
    def make(ids=("a", "b", "c"), grade="return Grade(True, 'correct', 'x')", **changes) -> Plan:
        (tmp_path / "task.py").write_text(TASK.format(ids=list(ids), grade=grade))
        base = Plan(
            checkpoint=tiny_checkpoint.name,
            task=f"{tmp_path / 'task.py'}:Task",
            samples=8,
            sampling=Sampling(max_new_tokens=6),
            device="cpu",
        )
        return replace(base, **changes)

    return make


def test_a_grader_that_keeps_failing_stops_the_run(plan, tmp_path):
    """T6: grader errors are counted apart, and past a limit the run ends instead of reporting them."""
    with pytest.raises(GraderFailure, match="ZeroDivisionError"):
        analyze_checkpoint(plan(grade="return 1 / 0"), tmp_path / "run")
    with pytest.raises(GraderFailure, match="not-a-grade"):
        analyze_checkpoint(plan(grade="return True"), tmp_path / "other")


def test_repeated_ids_and_failing_tasks_are_named(plan, tmp_path):
    with pytest.raises(InputError, match="several problems have the id 'a'"):
        analyze_checkpoint(plan(ids=("a", "b", "a")), tmp_path / "run")
    broken = plan()
    (tmp_path / "task.py").write_text(TASK.format(ids=["a"], grade="pass").replace('"find 3 + 4"', "1 / 0"))
    with pytest.raises(InputError, match=r"problems\(\) fails \(ZeroDivisionError"):
        analyze_checkpoint(broken, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_whatever_changes_the_rollouts_names_another_run(plan, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = analyze_checkpoint(plan()).folder
    assert analyze_checkpoint(plan()).folder == first
    folders = {
        first,
        analyze_checkpoint(plan(samples=4)).folder,
        analyze_checkpoint(plan(ids=("a", "b"))).folder,
        analyze_checkpoint(plan(grade="return Grade(False, 'wrong-value', 'y')")).folder,
        analyze_checkpoint(plan(sampling=Sampling(max_new_tokens=6, seed=1))).folder,
        analyze_checkpoint(plan(dtype="float64")).folder,
    }
    assert len(folders) == 6


def test_batches_of_a_resumed_run_are_those_it_began_with(plan, tmp_path, monkeypatch):
    """A resumed run keeps its partition, even when another amount of memory is free."""
    rows = [8]
    monkeypatch.setattr("entropy_lab.engines.transformers.rows_that_fit", lambda *_: rows[0])
    write_part = Run.write_part

    def stop_after_one(self: Run, index: int, rollouts: Rollouts) -> None:
        write_part(self, index, rollouts)
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "write_part", stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        analyze_checkpoint(plan(), tmp_path / "run")
    monkeypatch.setattr(Run, "write_part", write_part)
    rows[0] = 512
    analyze_checkpoint(plan(), tmp_path / "run")
    assert len(list((tmp_path / "run" / "rollouts").glob("*.parquet"))) == 3


def test_a_part_of_another_run_is_refused(plan, tmp_path):
    analyze_checkpoint(plan(), tmp_path / "run")
    part = tmp_path / "run" / "rollouts" / "part-00000.parquet"
    Rollouts(Rollouts.read(part).table.slice(1)).write(part)
    with pytest.raises(InputError, match="holds other trajectories"):
        analyze_checkpoint(plan(), tmp_path / "run")


def test_truncation_is_told_beside_every_accuracy(plan, tmp_path):
    """S4: truncated answers are graded as they stand, and the report says how many there were."""
    analysis = analyze_checkpoint(plan(), tmp_path / "run")
    assert any("cut off at the length limit" in note for note in analysis.diagnosis.notes)
    accuracy = next(metric for metric in analysis.metrics if metric.metric == "pass@1")
    assert "truncated" in accuracy.note


def test_what_was_asked_and_what_was_not_applied_is_recorded(plan, tmp_path):
    """S2: the checkpoint's own sampling defaults are written down, never used."""
    analyze_checkpoint(plan(), tmp_path / "run")
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert record["asked"]["samples"] == 8
    assert list(record["generation_defaults_not_applied"]) == [plan().checkpoint]
    assert record["settings"]["sampling"]["top_k"] == 0
