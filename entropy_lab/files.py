"""Files and folders that appear whole or not at all, and JSON without NaN."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from entropy_lab.errors import InputError


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a temporary name to write to; it becomes `path` when the block ends, and vanishes if the block fails.

    A kill leaves at most the temporary file, which the next attempt overwrites.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder to fill; it becomes `folder` when the block ends, and vanishes if the block fails.

    A folder that is there is replaced only if everything in it is written anew; hidden leavings of a kill are removed.

    Raises:
        InputError: `folder` is a file, or holds something that replacing would delete.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file, where a folder is to be written; choose another name.")
    partial, replaced = (folder.with_name(f".{folder.name}.{state}") for state in ("partial", "replaced"))
    for stale in (partial, replaced):
        shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
        if folder.exists():
            other = sorted({entry.name for entry in folder.iterdir()} - {entry.name for entry in partial.iterdir()})
            if other:
                raise InputError(f"{folder} holds {other[0]}, which saving would delete; choose a new or empty folder.")
            folder.rename(replaced)
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    shutil.rmtree(replaced, ignore_errors=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes, whole."""
    with whole(path) as partial:
        partial.write_bytes(content)


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON, whole: a NaN or an infinity raises ValueError instead of reaching the file."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode())
