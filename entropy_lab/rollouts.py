"""Rollouts: the one table that every stage reads and writes. One row a trajectory; Arrow in memory, Parquet on disk.

List columns (`token_ids`, `entropy`, …) of a row have one length. Any Parquet reader opens the files as they are.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from entropy_lab.errors import InputError
from entropy_lab.files import whole
from entropy_lab.ragged import Ragged

SCHEMA = pa.schema(
    [
        pa.field("checkpoint", pa.string(), nullable=False),
        pa.field("problem_id", pa.string(), nullable=False),
        pa.field("sample_index", pa.int32(), nullable=False),
        pa.field("group_id", pa.string()),
        pa.field("parent_id", pa.string()),
        pa.field("branch_position", pa.int32()),
        pa.field("state_value", pa.float32()),
        pa.field("prefix_surprise", pa.float32()),
        pa.field("reward", pa.float32()),
        pa.field("prompt_ids", pa.list_(pa.int32())),
        pa.field("token_ids", pa.list_(pa.int32())),
        pa.field("policy_mask", pa.list_(pa.bool_())),
        pa.field("logprobs", pa.list_(pa.float32())),
        pa.field("text", pa.string()),
        pa.field("finish_reason", pa.string()),
        pa.field("seed", pa.int64()),
        pa.field("temperature", pa.float32()),
        pa.field("correct", pa.bool_()),
        pa.field("code", pa.string()),
        pa.field("answer", pa.string()),
        pa.field("family", pa.string()),
        pa.field("first_calculation", pa.string()),
        pa.field("logprob", pa.list_(pa.float32())),
        pa.field("entropy", pa.list_(pa.float32())),
        pa.field("varentropy", pa.list_(pa.float32())),
    ]
)
"""All columns. What a source does not know is null; `policy_mask` null means the policy wrote every token.

A branch's `parent_id` is "problem_id sample_index" of the trajectory it branched from, `branch_position` how many of
that one's tokens it was given, and `state_value` the mean reward of all branches that continue the same tokens.
A row that continues tokens of another model has a `branch_position` without a parent, and `prefix_surprise`, the mean
−log p (nats) of those tokens under the policy.
"""

ALIGNED = ("policy_mask", "logprobs", "logprob", "entropy", "varentropy")
"""List columns that must be as long as `token_ids` in every row."""

KEY = ("checkpoint", "problem_id", "sample_index")
"""What names a trajectory; branches are told apart by their sample index too."""

FINISH_REASONS = ("stop", "length", "abort")


@dataclass(frozen=True)
class Rollouts:
    """Trajectories as an Arrow table of `SCHEMA`."""

    table: pa.Table

    @classmethod
    def from_rows(cls, rows: Iterable[dict[str, Any]]) -> "Rollouts":
        """Build from dictionaries; missing columns become null."""
        return cls(pa.Table.from_pylist(list(rows), schema=SCHEMA))

    @classmethod
    def concat(cls, parts: Sequence["Rollouts"]) -> "Rollouts":
        """All rows of all parts, in order."""
        return cls(pa.concat_tables([part.table for part in parts]) if parts else SCHEMA.empty_table())

    @classmethod
    def read(cls, path: str | Path) -> "Rollouts":
        """Read a run directory, its `rollouts` folder, a Parquet or a JSONL file.

        Raises:
            InputError: nothing there, a damaged file, a missing or ill-typed column, or list columns of unequal length.
        """
        path = Path(path)
        if path.is_dir():
            folder = path / "rollouts" if (path / "rollouts").is_dir() else path
            files = sorted(folder.glob("part-*.parquet"))
            if not files:
                raise InputError(f"{path} holds no rollouts: expected rollouts/part-*.parquet there.")
            return cls.concat([cls._read_parquet(file) for file in files])
        if not path.is_file():
            raise InputError(f"{path} does not exist; give a run directory, a Parquet or a JSONL file.")
        if path.suffix == ".parquet":
            return cls._read_parquet(path)
        if path.suffix in (".jsonl", ".ndjson"):
            return cls._read_jsonl(path)
        raise InputError(f"{path} is neither a run directory nor a .parquet or .jsonl file.")

    @classmethod
    def _read_parquet(cls, path: Path) -> "Rollouts":
        try:
            table = pq.read_table(path)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputError(f"{path} is not a readable Parquet file ({_first_line(error)}); make it again.") from error
        return cls(_conform(table, path))

    @classmethod
    def _read_jsonl(cls, path: Path) -> "Rollouts":
        rows = []
        try:
            with path.open(encoding="utf-8") as file:
                for number, line in enumerate(file, 1):
                    if line.strip():
                        row = json.loads(line)
                        if not isinstance(row, dict):
                            raise InputError(f"{path}:{number} holds {type(row).__name__}, not an object of columns.")
                        rows.append(row)
        except json.JSONDecodeError as error:
            raise InputError(f"{path}:{number} is not valid JSON ({error.msg}); mend or remove the line.") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path} is not UTF-8 text (byte {error.start}); convert it.") from error
        names = {name for row in rows for name in row}
        columns = {}
        for name in names & set(SCHEMA.names):
            try:
                columns[name] = pa.array([row.get(name) for row in rows])
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
                raise InputError(f"{path}: column `{name}` does not fit ({_first_line(error)}).") from error
            except UnicodeEncodeError as error:
                raise InputError(f"{path}: column `{name}` holds a lone surrogate, which is not text.") from error
        return cls(_conform(pa.table(columns), path))

    def write(self, path: Path) -> None:
        """Write one Parquet file under a temporary name and rename it into place."""
        with whole(path) as partial:
            pq.write_table(self.table, partial, compression="zstd")

    def where(self, mask: NDArray[np.bool_]) -> "Rollouts":
        """The rows where `mask`, shape (N,), holds."""
        return Rollouts(self.table.filter(pa.array(mask)))

    def take(self, rows: Sequence[int]) -> "Rollouts":
        """These rows, in this order."""
        return Rollouts(self.table.take(pa.array(rows, pa.int64())))

    def of(self, checkpoint: str) -> "Rollouts":
        """The rows of one checkpoint."""
        return self.where(np.array([name == checkpoint for name in self.strings("checkpoint")], bool))

    def with_columns(self, **columns: Sequence[Any]) -> "Rollouts":
        """Replace whole columns."""
        table = self.table
        for name, values in columns.items():
            field = SCHEMA.field(name)
            table = table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type))
        return Rollouts(table)

    def strings(self, column: str) -> list[str | None]:
        """A text column, shape (N,)."""
        return self.table[column].to_pylist()

    def ragged(self, column: str) -> Ragged | None:
        """A list column as flat values and offsets; None where any row lacks it."""
        chunks = self.table[column]
        if chunks.null_count:
            return None
        array = chunks.combine_chunks()
        if isinstance(array, pa.ChunkedArray):
            array = array.chunk(0) if array.num_chunks else pa.array([], SCHEMA.field(column).type)
        offsets = array.offsets.to_numpy().astype(np.int64)
        values = array.flatten().to_numpy(zero_copy_only=False)
        return Ragged(values, offsets - offsets[0])

    def policy_mask(self) -> NDArray[np.bool_] | None:
        """Which tokens the policy wrote, flat as `ragged("token_ids")`; None where it wrote all of them everywhere."""
        masks = self.table["policy_mask"]
        if masks.null_count == len(masks) or self.table["token_ids"].null_count:
            return None
        pairs = zip(masks.to_pylist(), self.table["token_ids"].to_pylist(), strict=True)
        return np.concatenate(
            [np.ones(len(ids), bool) if mask is None else np.array(mask, bool) for mask, ids in pairs]
        )

    def correct(self) -> NDArray[np.float64]:
        """1 right, 0 wrong, NaN where the grader failed or nothing was graded, shape (N,)."""
        return np.array([np.nan if value is None else float(value) for value in self.strings("correct")], float)

    def __len__(self) -> int:
        return int(self.table.num_rows)


def _conform(table: pa.Table, path: Path) -> pa.Table:
    """Bring a table from outside to SCHEMA, or say which column is wrong."""
    names = table.column_names
    if "problem_id" not in names or not {"text", "token_ids"} & set(names):
        raise InputError(
            f"{path} has the columns {', '.join(names) or '(none)'}; "
            "rollouts need `problem_id` and `text` or `token_ids`."
        )
    if "sample_index" not in names:
        table = table.append_column("sample_index", pa.array(_count_up(table["problem_id"].to_pylist()), pa.int32()))
    columns = []
    for field in SCHEMA:
        if field.name not in table.column_names:
            fill = path.stem if field.name == "checkpoint" else None
            columns.append(pa.array([fill] * table.num_rows, field.type))
            continue
        try:
            columns.append(table[field.name].cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise InputError(
                f"{path}: column `{field.name}` does not fit {field.type} ({_first_line(error)})."
            ) from error
        if not field.nullable and columns[-1].null_count:
            raise InputError(f"{path}: column `{field.name}` has empty entries; every row needs one.")
    conformed = pa.table(columns, schema=SCHEMA)
    _check(conformed, path)
    return conformed


def _count_up(problem_ids: Sequence[Any]) -> list[int]:
    """Sample indices by order of appearance within each problem."""
    seen: dict[Any, int] = {}
    indices = []
    for problem in problem_ids:
        indices.append(seen.get(problem, 0))
        seen[problem] = indices[-1] + 1
    return indices


def _check(table: pa.Table, path: Path) -> None:
    """Lists of one row must be of one length and hold finite numbers; finish reasons must be known ones."""
    import pyarrow.compute as pc

    lengths = pc.list_value_length(table["token_ids"])
    for name in ALIGNED:
        different = pc.fill_null(pc.not_equal(pc.list_value_length(table[name]), lengths), False)
        if pc.any(different).as_py():
            row = different.index(True).as_py()
            raise InputError(f"{path}, row {row}: `{name}` and `token_ids` have different lengths.")
    for name in ("entropy", "varentropy", "logprob", "logprobs", "state_value", "reward"):
        values = pc.list_flatten(table[name]) if pa.types.is_list(SCHEMA.field(name).type) else table[name]
        if not pc.all(pc.is_finite(values), min_count=0).as_py():
            raise InputError(f"{path}: `{name}` holds NaN or infinity; score the rollouts again.")
        if name.startswith("logprob") and pc.any(pc.greater(values, 1e-4)).as_py():
            raise InputError(f"{path}: `{name}` holds a log-probability above 0 ({pc.max(values).as_py():.3g}).")
    seen: set[tuple[str, str, int]] = set()
    for row, key in enumerate(zip(*(table[name].to_pylist() for name in KEY), strict=True)):
        if key in seen:
            raise InputError(
                f"{path}, row {row}: sample {key[2]} of problem {key[1]!r} by {key[0]!r} stands there twice."
            )
        seen.add(key)
    reasons = set(table["finish_reason"].to_pylist()) - {None, *FINISH_REASONS}
    if reasons:
        raise InputError(f"{path}: finish_reason {sorted(reasons)[0]!r} is none of {', '.join(FINISH_REASONS)}.")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
