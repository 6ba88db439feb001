"""Rows of a training log: which trainer wrote it is told by what it is, and every reader gives the same rows.

A row is a flat table of numbers with its step. Broken lines are counted and located, up to a limit.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entropy_lab.errors import InputError
from entropy_lab.monitoring.tensorboard_events import event_files, read_events

STEP_KEYS = ("step", "global_step", "training/global_step", "_step", "iteration")
"""Names under which JSON lines tell their step; without any the line's number counts."""
MOST_BROKEN = 0.1
"""Share of lines that may be broken (ours)."""


@dataclass(frozen=True)
class Row:
    """What was logged at one step: every finite number, under its own name."""

    step: float
    values: Mapping[str, float]


@dataclass(frozen=True)
class Log:
    """A log's rows in the order of the file, what wrote it, and what a reader must know."""

    rows: tuple[Row, ...]
    kind: str
    notes: tuple[str, ...] = ()


def read_log(path: Path, step_key: str | None = None) -> Log:
    """Read `metrics.jsonl` or any JSON lines, a `trainer_state.json`, TensorBoard event files, or a folder of these.

    Raises:
        InputError: nothing that can be read, or too many broken lines.
    """
    if path.is_dir():
        return _read_folder(path, step_key)
    if not path.is_file():
        raise InputError(f"{path}: no such file; give a log, or the folder of a training run.")
    if "tfevents" in path.name:
        return _of_events([path])
    if path.suffix == ".json":
        return _trainer_state(path)
    return _json_lines(path, step_key)


def _read_folder(path: Path, step_key: str | None) -> Log:
    if (path / "metrics.jsonl").is_file():
        return _json_lines(path / "metrics.jsonl", step_key)
    states = [*path.glob("trainer_state.json"), *path.glob("checkpoint-*/trainer_state.json")]
    if states:
        return _trainer_state(max(states, key=lambda one: one.stat().st_mtime_ns))
    events = event_files(path)
    if events:
        return _of_events(events)
    raise InputError(
        f"{path} holds no metrics.jsonl, trainer_state.json or TensorBoard event files; give the log file itself."
    )


def _of_events(files: list[Path]) -> Log:
    rows = [Row(float(step), {tag: value}) for step, tag, value in read_events(files) if math.isfinite(value)]
    return Log(tuple(rows), "TensorBoard events")


def _trainer_state(path: Path) -> Log:
    """The `log_history` of transformers' Trainer, which TRL's trainers write too."""
    try:
        history = json.loads(path.read_text(encoding="utf-8"))["log_history"]
        entries = [dict(entry) for entry in history]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is no trainer_state.json with a log_history ({type(error).__name__}: {error}); give another log."
        ) from error
    rows = [row for place, entry in enumerate(entries, 1) if (row := _row(entry, place, None)) is not None]
    return Log(tuple(rows), "trainer_state.json")


def _json_lines(path: Path, step_key: str | None) -> Log:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path.") from error
    lines = content.split(b"\n")
    last = lines.pop()  # what a running writer has not finished, or nothing
    rows, broken = [], []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        entry = _object(line)
        row = None if entry is None else _row(entry, number, step_key)
        if row is None:
            broken.append(number)
        else:
            rows.append(row)
    entry = _object(last)
    row = None if entry is None else _row(entry, len(lines) + 1, step_key)
    rows += [row] if row is not None else []
    if len(broken) > MOST_BROKEN * max(len(lines), 1):
        raise InputError(
            f"{path}: {len(broken)} of {len(lines)} lines are no JSON objects, the first is line {broken[0]}; give a "
            "log of one JSON object a line."
        )
    notes = (f"{len(broken)} broken lines left out, the first is line {broken[0]}",) if broken else ()
    return Log(tuple(rows), "JSON lines", notes)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _row(entry: Mapping[str, Any], number: int, step_key: str | None) -> Row | None:
    """None where the step is no number, or the key asked for is not there."""
    flat = dict(_flat(entry, ""))
    keys = STEP_KEYS if step_key is None else (step_key,)
    name = next((key for key in keys if key in flat), None)
    if name is None and step_key is not None:
        return None
    step = float(number) if name is None else flat[name]
    if not math.isfinite(step):
        return None
    return Row(step, {key: value for key, value in flat.items() if key != name and math.isfinite(value)})


def _flat(entry: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    """Numbers of nested tables under names joined by dots."""
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{prefix}{key}", float(value)
