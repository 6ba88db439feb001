import json
import multiprocessing

import numpy as np
import pyarrow.parquet as pq
import pytest

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.errors import InputError
from entropy_lab.files import write_json
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import open_run, settings_hash
from entropy_lab.tasks.grading import GraderFailure

SETTINGS = {"samples": 4, "checkpoint": "c"}


def test_the_same_settings_find_the_same_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open_run("analyze", SETTINGS) as first:
        first.note(rows=3)
    with open_run("analyze", dict(reversed(SETTINGS.items()))) as again:
        assert again.folder == first.folder
        assert again.record["rows"] == 3
    assert first.folder.name == f"analyze-{settings_hash(SETTINGS)}"


def test_other_settings_are_refused_in_the_same_folder(tmp_path):
    with open_run("analyze", SETTINGS, tmp_path / "run"):
        pass
    with pytest.raises(InputError, match="other settings"), open_run("analyze", {"samples": 5}, tmp_path / "run"):
        pass


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(InputError, match="holds no run"), open_run("analyze", SETTINGS, tmp_path):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be made"), open_run("analyze", SETTINGS, tmp_path / "file" / "run"):
        pass


def test_a_damaged_record_is_named(tmp_path):
    with open_run("analyze", SETTINGS, tmp_path / "run"):
        pass
    (tmp_path / "run" / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run\.json is damaged"), open_run("analyze", SETTINGS, tmp_path / "run"):
        pass


def test_a_run_that_never_got_anywhere_leaves_nothing(tmp_path):
    with pytest.raises(InputError), open_run("analyze", SETTINGS, tmp_path / "run"):
        raise InputError("the prompt is too long")
    assert list(tmp_path.iterdir()) == []
    with open_run("analyze", SETTINGS, tmp_path / "run") as run:
        run.write_part(0, Rollouts.from_rows([]))
    with pytest.raises(InputError), open_run("analyze", SETTINGS, tmp_path / "run"):
        raise InputError("NaN logits in the second batch")
    assert (tmp_path / "run" / "rollouts" / "part-00000.parquet").is_file()


def _hold(folder, opened, release):
    with open_run("analyze", SETTINGS, folder):
        opened.set()
        release.wait(30)


def test_two_processes_do_not_write_one_run(tmp_path):
    context = multiprocessing.get_context("spawn")
    opened, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "run", opened, release))
    holder.start()
    try:
        assert opened.wait(60)
        with pytest.raises(InputError, match="another process"), open_run("analyze", SETTINGS, tmp_path / "run"):
            pass
    finally:
        release.set()
        holder.join(30)


def test_parts_read_back_in_order(tmp_path):
    with open_run("analyze", SETTINGS, tmp_path / "run") as run:
        for index in (1, 0):
            row = {"checkpoint": "c", "problem_id": str(index), "sample_index": 0}
            run.write_part(index, Rollouts.from_rows([row]))
        assert run.rollouts(2).strings("problem_id") == ["0", "1"]


def test_nan_never_reaches_a_file(tmp_path):
    """G2: strict JSON, null with a reason."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "x.json", {"value": float("nan")})
    assert list(tmp_path.iterdir()) == []
    with open_run("analyze", SETTINGS, tmp_path / "run") as run:
        run.write_metrics([Metric("pass@1", None, None, None, "share", 0, "c", "nothing was graded")])
        run.write_problems(["a", "b"], {"c": {"pass@1": np.array([np.nan, 1.0])}})
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())[0]["value"] is None
    assert pq.read_table(tmp_path / "run" / "problems.parquet")["value"].to_pylist() == [None, 1.0]


def test_other_settings_are_named(tmp_path):
    with open_run("made", {"task": "a", "sampling": {"seed": 1, "k": [1, 2]}}, tmp_path / "run"):
        pass
    with (
        pytest.raises(InputError, match=r"other settings: sampling\.seed was 1, now 2"),
        open_run("made", {"task": "a", "sampling": {"seed": 2, "k": [1, 2]}}, tmp_path / "run"),
    ):
        pass


def test_a_grader_s_failure_leaves_no_directory(tmp_path):
    with pytest.raises(GraderFailure), open_run("made", {}, tmp_path / "run"):
        raise GraderFailure("made")
    assert not (tmp_path / "run").exists()
