"""The run directory: what was asked, what was found, and enough to continue after a kill.

A run is named by the hash of its effective settings, so the same command finds it again. Rollouts are written batch by
batch; a batch whose file exists is never sampled twice, and a batch cut short is sampled again from its first token.
"""

import fcntl
import hashlib
import json
import platform
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.errors import InputError
from entropy_lab.files import whole, write_json
from entropy_lab.rollouts import Rollouts
from entropy_lab.tasks.grading import GraderFailure

LIBRARIES = ("entropy-lab", "torch", "transformers", "numpy", "scipy", "pyarrow", "vllm")


@dataclass
class Run:
    """An open run directory. `record` is what `run.json` holds; change it through `note` only."""

    folder: Path
    record: dict[str, Any] = field(default_factory=dict)

    def part(self, index: int) -> Path:
        """Where batch `index` is kept."""
        return self.folder / "rollouts" / f"part-{index:05d}.parquet"

    def write_part(self, index: int, rollouts: Rollouts) -> None:
        """Keep one finished batch."""
        rollouts.write(self.part(index))

    def rollouts(self, parts: int) -> Rollouts:
        """All rows of batches 0 … `parts` − 1, in order."""
        return Rollouts.concat([Rollouts.read(self.part(index)) for index in range(parts)])

    def note(self, **fields: Any) -> None:
        """Add to `run.json`, written whole."""
        self.record.update(fields)
        write_json(self.folder / "run.json", self.record)

    def write_metrics(self, metrics: Sequence[Metric]) -> None:
        """Write `metrics.json`: a flat list, null with a note where a value does not exist."""
        write_json(self.folder / "metrics.json", [asdict(metric) for metric in metrics])

    def write_problems(
        self, problem_ids: Sequence[str], tables: Mapping[str, Mapping[str, NDArray[np.float64]]]
    ) -> None:
        """Write `problems.parquet`: one row for each (problem, metric, checkpoint); null where undefined.

        `tables` maps checkpoint → metric → values in the order of `problem_ids`.
        """
        schema = pa.schema(
            {"problem_id": pa.string(), "metric": pa.string(), "checkpoint": pa.string(), "value": pa.float64()}
        )
        rows = [
            pa.table(
                {
                    "problem_id": pa.array(problem_ids, pa.string()),
                    "metric": pa.array([metric] * len(problem_ids), pa.string()),
                    "checkpoint": pa.array([checkpoint] * len(problem_ids), pa.string()),
                    "value": pa.array(np.asarray(values, float), pa.float64(), from_pandas=True),
                }
            )
            for checkpoint, metrics in tables.items()
            for metric, values in metrics.items()
        ]
        with whole(self.folder / "problems.parquet") as partial:
            pq.write_table(pa.concat_tables([schema.empty_table(), *rows]), partial, compression="zstd")


@contextmanager
def open_run(command: str, settings: Mapping[str, Any], out: Path | None = None) -> Iterator[Run]:
    """Open the run of `settings`, new or begun earlier, and hold it against other processes.

    A new run that ends in an InputError, or by its grader, before anything of it is finished leaves no directory.

    Raises:
        InputError: `out` holds a run of other settings, is no run directory, or is being written by another process.
    """
    digest = settings_hash(settings)
    folder = out or Path("runs") / f"{command.replace(' ', '-')}-{digest}"
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file; --out must name a directory.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / "run.json").is_file() and not _only_lock(folder):
        raise InputError(f"{folder} is not empty and holds no run; give another --out.")
    new = not folder.exists()
    new_parent = not folder.parent.exists()
    try:
        (folder / "rollouts").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made ({error.strerror}); give an --out that can be written.") from error
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(
                f"{folder} is being written by another process; wait for it or give another --out."
            ) from error
        run = Run(folder, _begun(folder, digest, settings))
        if not run.record:
            run.note(
                command=command,
                settings_hash=digest,
                settings=dict(settings),
                versions=versions(),
                started=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            )
        try:
            yield run
        except (InputError, GraderFailure):
            if new and not _has_results(folder):
                shutil.rmtree(folder)
                if new_parent:
                    folder.parent.rmdir()
            raise


def _has_results(folder: Path) -> bool:
    """Whether a batch, a checkpoint or a line of a log is there, which no error may take away."""
    return any((folder / name).exists() for name in ("checkpoints", "metrics.jsonl")) or any(
        (folder / "rollouts").iterdir()
    )


def _only_lock(folder: Path) -> bool:
    """Whether a run was killed before its first record was written."""
    return all(entry.name in (".lock", "rollouts", ".run.json.partial") for entry in folder.iterdir()) and not any(
        (folder / "rollouts").glob("*.parquet")
    )


def _difference(before: object, now: object, path: str) -> str:
    """The first setting that is not what it was, by its name; nothing where none can be told."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in (*before, *(key for key in now if key not in before)):
            found = _difference(before.get(key), now.get(key), f"{path}.{key}" if path else str(key))
            if found:
                return found
        return ""
    plain = json.loads(json.dumps(now, default=str))
    return "" if before == plain else f"{path} was {before!r:.80}, now {plain!r:.80}"


def _begun(folder: Path, digest: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    path = folder / "run.json"
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        begun = record["settings_hash"]
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}); move the directory away and run again.") from error
    if begun != digest:
        differs = _difference(record.get("settings"), settings, "")
        what = f": {differs}" if differs else f" ({begun}, not {digest})"
        raise InputError(f"{folder} holds a run of other settings{what}; give another --out, or leave it out.")
    return dict(record)


def settings_hash(settings: Mapping[str, Any]) -> str:
    """Ten hex digits that name the effective settings."""
    text = json.dumps(settings, sort_keys=True, ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def file_digest(source: str) -> str | None:
    """Sixteen hex digits of the content of a task's file (`problems.jsonl`, `file.py:Name`); None where it has none."""
    path = Path(source.rpartition(":")[0] or source)
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16] if path.is_file() else None


def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    found = {"python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            continue
    return found
