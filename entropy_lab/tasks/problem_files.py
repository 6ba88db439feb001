"""The one place that reads rows of problems: JSON Lines, Parquet, or a set on the Hugging Face hub.

Each row comes with its position, a phrase such as `gsm8k.jsonl:3`, ready to stand at the head of an error message.
Nothing here knows what a row means.
"""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from entropy_lab.errors import InputError

JSON_LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet",)
HUB_FORM = "owner/name[:config][@split]"

Row = tuple[str, dict[str, Any]]


def is_problem_file(name: str) -> bool:
    """Say whether `name` ends like a file that `read_rows` reads."""
    return Path(name).suffix.lower() in JSON_LINES + PARQUET


def is_hub_name(name: str) -> bool:
    """Say whether `name` has the form of a set on the hub: one slash between two plain words."""
    owner, slash, rest = name.partition("/")
    return bool(slash and owner and rest) and "/" not in rest and not owner.startswith((".", "~")) and "\\" not in name


def read_rows(source: str | Path) -> Iterator[Row]:
    """Yield (position, row) in the order of `source`: a .jsonl or .parquet file, or a hub name.

    Raises InputError for a missing or unreadable file, a line that is not a JSON object, and a set that the hub
    does not give.
    """
    path = Path(source)
    if is_problem_file(path.name):
        if not path.is_file():
            raise InputError(f"{path}: no such file; give the path of a .jsonl or .parquet file of problems.")
        return _json_lines(path) if path.suffix.lower() in JSON_LINES else _parquet(path)
    if not path.exists() and is_hub_name(str(source)):
        return _hub(str(source))
    raise InputError(
        f"{source}: problems are read from a .jsonl or .parquet file, or from a hub set written as {HUB_FORM}."
    )


def first_row(source: str | Path) -> Row:
    """Return the first row of `source`; raises InputError if there is none."""
    for row in read_rows(source):
        return row
    raise InputError(f"{source}: holds no rows; give a file with one problem a row.")


def _json_lines(path: Path) -> Iterator[Row]:
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}:{number}", _json_object(line, f"{path}:{number}")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the file and its permissions.") from error


def _json_object(line: bytes, position: str) -> dict[str, Any]:
    try:
        value = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{position}: byte {error.start} is not UTF-8; save the file as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{position}: not valid JSON ({error}); write one JSON object a line.") from error
    if not isinstance(value, dict):
        raise InputError(f"{position}: holds a JSON {type(value).__name__}; write one JSON object a line.")
    return value


def _parquet(path: Path) -> Iterator[Row]:
    import pyarrow
    import pyarrow.parquet

    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=256):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(
            f"{path}: cannot be read as Parquet after row {number} ({error}); write the file again."
        ) from error


def _hub(name: str) -> Iterator[Row]:
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise InputError(
            f"{name}: no such file, and a hub set needs the package `datasets`; install it or give a .jsonl file."
        ) from error
    rest, _, split = name.partition("@")
    repository, _, config = rest.partition(":")
    try:
        splits = datasets.load_dataset(repository, config or None)
    except Exception as error:  # the hub client raises many kinds; each means "this name gives no set"
        raise InputError(
            f"{name}: the hub gives no such set ({type(error).__name__}: {error}); write it as {HUB_FORM}."
        ) from error
    chosen = split or ("test" if "test" in splits else next(iter(splits), ""))
    if chosen not in splits:
        raise InputError(f"{name}: has no split {chosen!r}; it has {', '.join(splits)}.")
    for number, row in enumerate(splits[chosen], start=1):
        yield f"{name}, row {number}", row
