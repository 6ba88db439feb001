"""`metrics.jsonl`: one strict JSON object an iteration, which a kill can tear at its last line only."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entropy_lab.errors import InputError
from entropy_lab.files import write_bytes


def append(path: Path, metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    """Add one line and have it on the disk before returning; gives the metrics as they were written.

    What is not finite is written as null, and `notes` in the line says what it was: `{"loss": "nan"}`.
    """
    odd = {name: str(float(value)) for name, value in metrics.items() if value is not None and not math.isfinite(value)}
    written = {name: None if name in odd else _plain(value) for name, value in metrics.items()}
    line = json.dumps({**written, **({"notes": odd} if odd else {})}, ensure_ascii=False, allow_nan=False) + "\n"
    with path.open("ab") as file:
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
    return written


def read(path: Path) -> list[dict[str, Any]]:
    """The lines as objects, in order; a last line that a kill has torn is left out.

    Raises:
        InputError: the file cannot be read, or another line is damaged.
    """
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); give the metrics.jsonl of a training run."
        ) from error
    if lines and not lines[-1].endswith(b"\n"):
        lines.pop()
    return [_row(path, number, line) for number, line in enumerate(lines, 1)]


def forget_after(path: Path, step: int) -> None:
    """Drop what a killed run had logged beyond the saved `step`, a torn last line with it; no file is no log yet.

    Step 0 drops everything: a run that saved nothing begins anew, with its evaluation before the first step.

    Raises:
        InputError: a line before the last one is damaged, or the file of a run that has saved something is gone.
    """
    if not path.is_file():
        if step:
            raise InputError(
                f"{path} is gone, and the run has come to step {step}: put it back, or begin anew in another --out."
            )
        return
    lines = path.read_bytes().splitlines(keepends=True)
    kept = [line for line, row in zip(lines, read(path), strict=False) if step and row["step"] <= step]
    if len(kept) < len(lines):
        write_bytes(path, b"".join(kept))


def _plain(value: float | None) -> float | None:
    """Integers stay integers; numpy's and torch's numbers become Python's."""
    return value if value is None or type(value) in (int, float) else float(value)


def _row(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
        step = row["step"]
    except (ValueError, TypeError, KeyError) as error:
        raise InputError(
            f"{path}, line {number} is damaged ({type(error).__name__}: {error}); restore the file, or delete the line."
        ) from error
    if type(step) is not int:
        raise InputError(f"{path}, line {number}: `step` is {step!r}, not a whole number; restore or delete the line.")
    return dict(row)
