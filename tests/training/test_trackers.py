"""Trackers: what TensorBoard's files hold, byte by byte; no step twice after a kill; a missing library is named."""

import struct
import sys
from types import SimpleNamespace

import pytest

from entropy_lab.errors import InputError
from entropy_lab.training.metrics_log import append, forget_after
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.training.trackers import open_trackers, tag


def events(folder):
    """The events of each file, oldest first: records of length, its checksum, an Event, its checksum."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import masked_crc32c

    found = []
    for path in sorted((folder / "tensorboard").iterdir()):
        content, of_file = path.read_bytes(), []
        while content:
            (length,) = struct.unpack("<Q", content[:8])
            assert struct.unpack("<I", content[8:12])[0] == masked_crc32c(content[:8])
            body = content[12 : 12 + length]
            assert struct.unpack("<I", content[12 + length : 16 + length])[0] == masked_crc32c(body)
            of_file.append(Event.FromString(body))
            content = content[16 + length :]
        found.append(of_file)
    return found


def shown(folder):
    """(tag, step) → value as TensorBoard shows them: a session purges what is there from its first step on."""
    from tensorboardX.proto.event_pb2 import SessionLog

    points = []
    for event in (event for of_file in events(folder) for event in of_file):
        if event.session_log.status == SessionLog.START:
            points = [point for point in points if point[1] < event.step]
        points += [(value.tag, event.step, value.simple_value) for value in event.summary.value]
    assert len({point[:2] for point in points}) == len(points)
    return {point[:2]: point[2] for point in points}


def run(folder, recipe, done, last):
    """Steps `done` + 1 … `last` as the loop logs them, the evaluation before the first one with them."""
    log = folder / "metrics.jsonl"
    with open_trackers(recipe, folder, done) as trackers:
        forget_after(log, done)
        for step in range(done + 1 if done else 0, last + 1):
            metrics = {"step": step, "loss": step / 4, "evaluation.pass@1": 0.5 if step % 2 == 0 else None}
            trackers.log(step, append(log, metrics))


def with_trackers(*names):
    return load_recipe("grpo", [f"save.trackers={list(names)!r}"])


def test_tensorboard_files_hold_every_metric_under_its_step(tmp_path):
    run(tmp_path, with_trackers("tensorboard"), 0, 3)
    assert shown(tmp_path) == {
        **{("loss", step): step / 4 for step in range(4)},
        ("evaluation/pass_at_1", 0): 0.5,
        ("evaluation/pass_at_1", 2): 0.5,
    }


@pytest.mark.parametrize("saved", [0, 1, 3])
def test_a_killed_run_that_continues_shows_no_step_twice(tmp_path, saved):
    recipe = with_trackers("tensorboard")
    run(tmp_path, recipe, 0, 3)
    run(tmp_path, recipe, saved, 5)
    assert len(events(tmp_path)) == 2
    found = shown(tmp_path)
    assert {step for name, step in found if name == "loss"} == set(range(6))
    assert all(value == step / 4 for (name, step), value in found.items() if name == "loss")


def test_a_finished_run_started_again_leaves_no_file(tmp_path):
    recipe = with_trackers("tensorboard")
    run(tmp_path, recipe, 0, 3)
    run(tmp_path, recipe, 3, 3)
    assert len(events(tmp_path)) == 1


def test_tags_are_groups():
    names = ["loss", "entropy.token_mean", "evaluation.gpass@4_0.5", "evaluation.avg@n", "controllers.penalties.x y"]
    expected = ["loss", "entropy/token_mean", "evaluation/gpass_at_4_0.5", "evaluation/avg_at_n"]
    assert [tag(name) for name in names] == [*expected, "controllers/penalties.x_y"]


@pytest.fixture
def recorder(monkeypatch):
    """A stand-in for wandb and trackio that prints as they do and keeps what it is told, per run."""
    told = {}

    def init(**settings):
        print("a banner")
        told.setdefault(settings.get("id") or settings["name"], [])
        library.now = told[settings.get("id") or settings["name"]]
        library.settings = settings

    library = SimpleNamespace(
        init=init,
        log=lambda metrics, step: library.now.append((step, metrics)),
        finish=lambda: print("synced"),
        Settings=lambda **settings: settings,
        __name__="wandb",
    )
    for name in ("wandb", "trackio"):
        monkeypatch.setitem(sys.modules, name, library)
    return told, library


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_continued_run_is_one_tracked_run_and_stdout_stays_free(tmp_path, recorder, capsys, name):
    told, library = recorder
    recipe = with_trackers(name)
    run(tmp_path, recipe, 0, 3)
    run(tmp_path, recipe, 2, 5)
    (rows,) = told.values()
    assert [step for step, _ in rows] == list(range(6))
    assert rows[3] == (3, {"loss": 0.75})
    assert library.settings["project"] == "entropy-lab"
    assert library.settings["config"]["objective"]["piece"] == "clipped"
    run(tmp_path, recipe, 0, 1)
    assert len(told) == 2  # begun anew: another run
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "a banner" in captured.err


def test_a_tracker_that_cannot_start_is_named_and_the_others_are_closed(tmp_path, recorder):
    _, library = recorder

    def init(**settings):
        raise RuntimeError("no API key configured")

    library.init = init
    with (
        pytest.raises(InputError, match=r"wandb cannot start \(no API key configured\).*wandb login.*save\.trackers"),
        open_trackers(with_trackers("tensorboard", "wandb"), tmp_path, 0),
    ):
        raise AssertionError("the context must not open")


@pytest.mark.parametrize("name", ["wandb", "trackio", "tensorboardX"])
def test_a_missing_library_comes_with_its_command(tmp_path, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    recipe = with_trackers(name.lower().removesuffix("x") if name == "tensorboardX" else name)
    with pytest.raises(InputError, match=f"pip install {name}"), open_trackers(recipe, tmp_path, 0):
        raise AssertionError("the context must not open")


def test_wandb_keeps_a_continued_run_in_one(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    recipe = with_trackers("wandb")
    run(tmp_path, recipe, 0, 2)
    run(tmp_path, recipe, 1, 3)
    folders = list((tmp_path / "wandb").glob("offline-run-*"))
    assert len(folders) == 2
    assert len({folder.name.rpartition("-")[2] for folder in folders}) == 1
