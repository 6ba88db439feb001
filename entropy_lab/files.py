"""Files that appear whole or not at all, and JSON without NaN."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes, whole."""
    with whole(path) as partial:
        partial.write_bytes(content)


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON, whole: a NaN or an infinity raises ValueError instead of reaching the file."""
    text = json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_bytes(path, text.encode())
