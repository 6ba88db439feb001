"""The per-(problem, arm, family) table of `coverage`: counted from rollouts, kept as `families.parquet`."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa
import pyarrow.parquet as pq

from entropy_lab.diagnostics.families import FamilyRow, family_rows
from entropy_lab.files import whole
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run
from entropy_lab.tasks.protocol import Space

SCHEMA = pa.schema(
    {
        "problem_id": pa.string(),
        "checkpoint": pa.string(),
        "family": pa.string(),
        "offered": pa.bool_(),
        "starts": pa.int64(),
        "samples": pa.int64(),
        "access": pa.float64(),
        "graded": pa.int64(),
        "correct": pa.int64(),
    }
)
"""`offered` says whether the menu holds the family; the rest as in `FamilyRow`."""


def counted_families(rollouts: Rollouts, spaces: Mapping[str, Space | None]) -> list[FamilyRow]:
    """The families of one arm's rollouts, for the problems that have a menu."""
    menus = {problem: space.menu for problem, space in spaces.items() if space is not None and space.menu}
    names = ("problem_id", "correct", "first_calculation")
    return family_rows(zip(*(rollouts.table[name].to_pylist() for name in names), strict=True), menus)


def write_families(run: Run, counted: Mapping[str, Sequence[FamilyRow]]) -> None:
    """Write `families.parquet`, whole; `counted` maps each arm to its rows."""
    rows = [{"checkpoint": name, **asdict(row)} for name, table in counted.items() for row in table]
    with whole(run.folder / "families.parquet") as partial:
        pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), partial, compression="zstd")
