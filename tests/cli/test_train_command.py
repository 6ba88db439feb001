"""`entropy-lab train` as a user meets it: lists, refusals, exit codes, one JSON document, the table at a terminal."""

import io
import json
import os
import re
import subprocess
import sys

import pytest
import typer
from entropy_lab_cli.train import STOPPED, train
from entropy_lab_cli.training_view import SHOWN, Seen
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from entropy_lab.errors import InputError
from entropy_lab.training.loop import Trained
from entropy_lab.training.metrics_log import append
from entropy_lab.training.piece import KINDS, pieces_of
from entropy_lab.training.recipe_files import load_recipe, shipped_names

ENTROPY_LAB = [sys.executable, "-c", "from entropy_lab_cli import main; main()", "train"]
TINY = ("exploration.prompts=3", "exploration.samples=4", "sampling.max_new_tokens=20",
        "evaluation.problems=3", "evaluation.samples=4", "evaluation.every=2", "save.every=1")  # fmt: skip
SIZES = [word for one in TINY for word in ("--set", one)]


def in_this_process(*arguments):
    """The command without the start of a process; an InputError is raised as it is."""
    app = typer.Typer()
    app.command()(train)
    done = CliRunner().invoke(app, list(map(str, arguments)))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


@pytest.fixture
def asked(monkeypatch):
    """The command in this process, up to the call of the library; gives (arguments, what the library was asked)."""
    calls = []

    def instead(recipe, out, **options):
        calls.append((recipe, out, options))
        folder = out
        folder.mkdir(parents=True, exist_ok=True)
        append(folder / "metrics.jsonl", {"step": recipe.steps, "loss": 0.25})
        return Trained(folder, recipe.steps, None, (), {})

    monkeypatch.setattr("entropy_lab.workflows.train.train", instead)
    return lambda *arguments: (in_this_process(*arguments), calls)


def test_the_list_is_one_document_of_all_recipes_and_pieces(asked):
    done, calls = asked("--list", "--json")
    listed = json.loads(done.stdout)
    assert [entry["name"] for entry in listed["recipes"]] == shipped_names()
    assert all(entry["steps"] > 0 and entry["summary"] for entry in listed["recipes"])
    assert {kind: [entry["name"] for entry in entries] for kind, entries in listed["pieces"].items()} == {
        kind: list(pieces_of(kind)) for kind in KINDS
    }
    (clipped,) = (entry for entry in listed["pieces"]["objectives"] if entry["name"] == "clipped")
    assert clipped["fields"]["low"]["default"] == 0.2
    assert not calls


def test_the_list_names_everything_within_eighty_columns(asked):
    done, _ = asked("--list")
    assert max(map(len, done.stdout.splitlines())) <= 80
    words = set(done.stdout.split())
    assert {*shipped_names(), *(name for kind in KINDS for name in pieces_of(kind)), *KINDS} <= words


def test_shorthands_are_fields_of_the_recipe(asked, tmp_path):
    _, calls = asked(
        "grpo", "--steps", 7, "--seed", 3, "--keep", 5, "--checkpoint", "123", "--task", "true", "--out", tmp_path,
        "--set", "advantage.epsilon=0.5", "--set", "steps=9", "--stop-on", "loss>5", "--resume",
    )  # fmt: skip
    ((recipe, out, options),) = calls
    assert recipe == load_recipe(
        "grpo",
        ["steps=7", "seed=3", "save.keep=5", 'start.checkpoint="123"', 'data.task="true"', "advantage.epsilon=0.5"],
    )
    assert (recipe.start.checkpoint, recipe.data.task) == ("123", "true")
    assert out == tmp_path
    assert options["resume"] is True
    assert list(options["stop_on"]) == ["loss>5"]


def test_a_file_of_ones_own_needs_no_name(asked, tmp_path):
    from entropy_lab.training.recipe_files import dump_recipe

    mine = load_recipe("grpo", ["name=mine", "steps=3"])
    (tmp_path / "mine.toml").write_text(dump_recipe(mine))
    for arguments in (("--recipe", tmp_path / "mine.toml"), (tmp_path / "mine.toml",)):
        done, calls = asked(*arguments, "--out", tmp_path / "run")
        assert calls.pop()[0] == mine
        assert "mine: 3 of 3 steps" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), ("fr3e", "grpo", "--recipe", "--list")),
        (("grpo", "--recipe", "x.toml"), ("grpo", "x.toml", "one of them")),
        (("--recipe", "x.toml"), ("x.toml", "cannot be read")),
        (("--recipe", "grpo"), ("grpo", ".toml")),
        (("gro",), ("gro", "`grpo`")),
        (("grpo", "--set", "objectiv.low=1"), ("objectiv", "`objective`")),
        (("grpo", "--set", "objective.lo=1"), ("lo", "low")),
        (("grpo", "--steps", "0"), ("steps", "0")),
        (("grpo", "--keep", "0"), ("save.keep", "0")),
        (("grpo", "--stop-on", "entropy"), ("entropy", "entropy.problem_mean<0.05")),
        (("grpo", "--set", "evaluation.every=0", "--stop-on", "evaluation.pass@1<.1"), ("evaluation.every",)),
        (("sft", "--checkpoint", "builtin:sft"), ("builtin:sft", "start.fresh")),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_loaded(asked, arguments, words):
    with pytest.raises(InputError) as refused:
        asked(*arguments)
    for word in words:
        assert word in str(refused.value)


def test_a_run_from_the_first_command_to_the_last(tmp_path, monkeypatch):
    """Begin, stop by a rule, continue to the end, ask again: exit codes, one document each, the same numbers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    command = ("grpo", "--steps", "3", *SIZES, "--out", "r")
    stopped = subprocess.run(
        [*ENTROPY_LAB, *command, "--stop-on", "step >= 2", "--json"], capture_output=True, text=True, check=False
    )
    assert stopped.returncode == STOPPED == 4, stopped.stderr
    document = json.loads(stopped.stdout)
    assert (document["step"], document["steps"], document["stopped"]) == (2, 3, "step>=2")
    assert document["checkpoints"] == ["r/checkpoints/step-00001"]
    assert document["metrics"]["step"] == 2

    finished = in_this_process(*command, "--resume", "--json")
    assert finished.exit_code == 0
    document = json.loads(finished.stdout)
    assert (document["step"], document["stopped"], document["run"]) == (3, None, "r")
    assert {"reward.mean", "entropy.token_mean", "loss", "evaluation.pass@1"} <= set(document["metrics"])

    shown = in_this_process(*command)
    assert shown.exit_code == 0
    assert "grpo: 3 of 3 steps" in shown.stdout
    assert "evaluation at step 3, change since step 0" in shown.stdout
    assert f"{document['metrics']['evaluation.pass@1']:.3f} " in shown.stdout
    assert [line for line in shown.stdout.splitlines() if line.startswith("checkpoint")] == [
        f"checkpoint {path}" for path in document["checkpoints"]
    ]
    assert "\x1b" not in shown.stdout + shown.stderr  # neither is a terminal: no live table


def rendered(seen):
    out = Console(file=io.StringIO(), width=80, color_system=None, force_terminal=False)
    out.print(seen.table())
    return out.file.getvalue()


def test_the_table_shows_the_last_iteration_and_the_change_since_the_first_evaluation():
    seen = Seen()
    seen.add({"step": 0, "evaluation.pass@1": 0.25, "evaluation.pass@2": 0.5, "evaluation.pass@32": 0.75})
    assert rendered(seen).split() == ["evaluation", "at", "step", "0", "pass@1", "0.250", "pass@32", "0.750"]
    for step, entropy in enumerate((0.1, 0.3, 0.2), 1):
        seen.add({"step": step, "reward.mean": 0.5, "entropy.token_mean": entropy, "clip.high": 0.0125, "loss": None})
    seen.add({"step": 4, "entropy.token_mean": 0.8, "tokens_per_second": 8412.3, "evaluation.pass@1": 0.125,
              "evaluation.pass@2": 0.5, "evaluation.pass@32": None, "evaluation.coverage.family": 0.375})  # fmt: skip
    lines = [line.split() for line in rendered(seen).splitlines()]
    assert lines == [
        ["entropy", "0.8", "tokens/s", "8,412"],
        ["evaluation", "at", "step", "4,", "change", "since", "step", "0"],
        ["pass@1", "0.125", "-0.125", "family", "cov.", "0.375"],
        ["entropy", "▁▃▂█", "0.1", "to", "0.8"],
        ["reward", "▁▁▁", "0.5", "to", "0.5"],
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from([*SHOWN, "evaluation.pass@1", "evaluation.pass@16", "evaluation.entropy.problem_mean"]),
            st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**9), 10**9),
        ),
        max_size=5,
    )
)
def test_no_metrics_break_the_table(rows):
    seen = Seen()
    for step, row in enumerate(rows):
        seen.add({"step": step, **row})
    assert all(len(line) <= 80 for line in rendered(seen).splitlines())


WATCH = """
from types import SimpleNamespace
from entropy_lab_cli.training_view import TrainingView
with TrainingView() as view:
    view.start(SimpleNamespace(name="grpo", steps=40), 2)
    for step in (3, 4, 5):
        view.iteration({"step": step, "reward.mean": step / 8, "entropy.token_mean": .25})
        view.note(f"[bold]note[/bold] {step}")
print("result")
"""


def test_a_terminal_gets_a_live_table_and_notes_are_shown_as_they_are():
    pty = pytest.importorskip("pty")
    import fcntl
    import struct
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "80", "PYTHONIOENCODING": "utf-8"}
    process = subprocess.Popen(
        [sys.executable, "-c", WATCH], stdout=subprocess.PIPE, stderr=theirs, env=environment, text=True
    )
    os.close(theirs)
    written = b""
    while True:
        try:
            written += os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
    assert process.wait() == 0
    assert process.stdout.read() == "result\n"
    process.stdout.close()
    os.close(ours)
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "\n", written.decode()).splitlines()
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written.decode())
    assert "5/40" in plain
    assert "left" in plain
    assert re.search(r"reward +0\.625", plain)
    assert "▁▅█" in plain
    for step in (3, 4, 5):
        assert f"[bold]note[/bold] {step}" in plain
    assert max(map(len, lines)) <= 80
    assert plain.count("0.625") < 60  # drawn a few times a second, not in a spin


def test_elsewhere_only_notes_are_written():
    done = subprocess.run([sys.executable, "-c", WATCH], capture_output=True, text=True, check=True)
    assert done.stdout == "result\n"
    assert done.stderr.splitlines() == [f"[bold]note[/bold] {step}" for step in (3, 4, 5)]
