"""New Countdown problems drawn at random under filters: the same wishes and seed always give the same problems.

Numbers and targets are drawn uniformly from their ranges and kept where they pass, so among problems of one size every
one that passes is equally likely; no two problems have the same target and the same sorted numbers.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import comb
from pathlib import Path
from typing import Any, Literal

import numpy as np

from entropy_lab.errors import InputError
from entropy_lab.files import whole
from entropy_lab.progress import Progress, Silent
from entropy_lab.tasks.countdown.layouts import LARGEST
from entropy_lab.tasks.countdown.rules import Rules, problem_key
from entropy_lab.tasks.countdown.task import LARGEST_ENUMERATED, Countdown, countdown_problem
from entropy_lab.tasks.problem_files import JSON_LINES, PARQUET, is_problem_file

PATIENCE = 5_000
"""Draws in a row without a new problem after which a wish counts as impossible (ours)."""


@dataclass(frozen=True)
class Wishes:
    """What problems are wanted.

    `numbers` are the sizes a problem may have, drawn equally often; the numbers lie in `smallest` … `largest`, the
    target in `target_min` … `target_max`, ends included. `solvable_share` of the problems have a solution under
    `rules`, the others none; a solvable one offers at least `min_families` entrance families in its menu, which is that
    of `form`.
    """

    count: int
    numbers: tuple[int, ...] = (3, 4)
    smallest: int = 1
    largest: int = 99
    target_min: int = 10
    target_max: int = 100
    min_families: int = 1
    solvable_share: float = 1.0
    form: Literal["steps", "expression"] = "expression"
    rules: Rules = field(default_factory=Rules)
    seed: int = 0


@dataclass(frozen=True)
class Generated:
    """One problem; `families` is the size of its menu, 0 where it has no solution."""

    nums: tuple[int, ...]
    target: int
    solvable: bool
    families: int


def generate(wishes: Wishes, progress: Progress | None = None) -> tuple[Generated, ...]:
    """Draw the problems, in random order.

    Raises:
        InputError: a wish that contradicts itself, or PATIENCE draws in a row that gave nothing new.
    """
    _check(wishes)
    generator = np.random.default_rng(wishes.seed)
    task = Countdown((), wishes.form, wishes.rules)
    solvable = round(wishes.count * wishes.solvable_share)
    missing = {True: solvable, False: wishes.count - solvable}
    found: list[Generated] = []
    drawn: set[str] = set()
    idle = 0
    with (progress or Silent()).stage("generate", wishes.count, "problem") as stage:
        while len(found) < wishes.count:
            if idle == PATIENCE:
                raise _exhausted(wishes, found)
            idle += 1
            size = wishes.numbers[generator.integers(len(wishes.numbers))]
            nums = tuple(map(int, generator.integers(wishes.smallest, wishes.largest, size=size, endpoint=True)))
            target = int(generator.integers(wishes.target_min, wishes.target_max, endpoint=True))
            key = problem_key(nums, target)
            if key in drawn:
                continue
            drawn.add(key)
            problem = _examined(task, nums, target)
            if missing[problem.solvable] and (not problem.solvable or problem.families >= wishes.min_families):
                missing[problem.solvable] -= 1
                found.append(problem)
                stage.advance()
                idle = 0
    return tuple(found[index] for index in generator.permutation(len(found)))


def write_problems(problems: Sequence[Generated], wishes: Wishes, path: Path) -> None:
    """Write `nums`, `target`, `format` and `rules` of each problem, whole, as JSONL or Parquet for `from_file`.

    Raises:
        InputError: `path` ends in neither .jsonl nor .parquet, or cannot be written.
    """
    check_out(path)
    manner = {"format": wishes.form, "rules": asdict(wishes.rules)}
    rows = [{"nums": list(problem.nums), "target": problem.target, **manner} for problem in problems]
    try:
        with whole(path) as partial:
            if path.suffix.lower() in PARQUET:
                _write_parquet(rows, partial)
            else:
                _write_json_lines(rows, partial)
    except OSError as error:
        raise InputError(f"{path} cannot be written ({error.strerror}); give another --out.") from error


def check_out(path: Path) -> None:
    """Refuse a file name that no reader of problems would take; raises InputError."""
    if not is_problem_file(path.name):
        raise InputError(f"{path}: problems are written to a {' or '.join(JSON_LINES[:1] + PARQUET)} file.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file.")


def overview(problems: Sequence[Generated]) -> dict[str, Any]:
    """Counts of what was made: problems by size, solvable ones, and the mean number of families of these."""
    sizes = Counter(len(problem.nums) for problem in problems)
    families = [problem.families for problem in problems if problem.solvable]
    return {
        "problems": len(problems),
        "solvable": len(families),
        "sizes": {str(size): sizes[size] for size in sorted(sizes)},
        "mean_families": sum(families) / len(families) if families else None,
    }


def _examined(task: Countdown, nums: tuple[int, ...], target: int) -> Generated:
    space = task.space(countdown_problem(nums, target))
    assert space is not None  # no size beyond LARGEST_ENUMERATED passes _check
    return Generated(nums, target, bool(space.solutions), len(space.menu))


def _check(wishes: Wishes) -> None:
    if wishes.count < 1:
        raise InputError(f"--count is {wishes.count}; at least 1 is needed.")
    for size in wishes.numbers or (0,):
        if not 1 <= size <= LARGEST_ENUMERATED:
            raise InputError(f"--numbers holds {size}; problems of 1 to {LARGEST_ENUMERATED} numbers can be solved.")
    for low, high, names in (
        (wishes.smallest, wishes.largest, ("smallest", "largest")),
        (wishes.target_min, wishes.target_max, ("target-min", "target-max")),
    ):
        if not 0 <= low <= high <= LARGEST:
            raise InputError(f"--{names[0]} {low} to --{names[1]} {high} is no range of whole numbers from 0 up.")
    if not 0 <= wishes.solvable_share <= 1:
        raise InputError(f"--solvable-share is {wishes.solvable_share:g}; it must be from 0 to 1.")
    most = 4 * max(wishes.numbers)  # each number before each of the four operators
    if wishes.min_families > most and wishes.solvable_share > 0:
        raise InputError(
            f"--min-families is {wishes.min_families}, but {max(wishes.numbers)} numbers have at most {most} families."
        )
    width, targets = wishes.largest - wishes.smallest + 1, wishes.target_max - wishes.target_min + 1
    there = targets * sum(comb(width + size - 1, size) for size in set(wishes.numbers))
    if wishes.count > there:
        raise InputError(
            f"--count is {wishes.count}, but these ranges hold {there} different problems; widen them or ask for fewer."
        )


def _exhausted(wishes: Wishes, found: Sequence[Generated]) -> InputError:
    solvable = sum(problem.solvable for problem in found)
    return InputError(
        f"Only {len(found)} of {wishes.count} problems were found ({solvable} solvable, {len(found) - solvable} not) "
        f"before {PATIENCE} draws in a row gave no new one; widen the ranges, ask for fewer problems or families, "
        "or change --solvable-share. Nothing was written."
    )


def _write_json_lines(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    import json

    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def _write_parquet(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rules = {"use": pa.string(), "integers_only": pa.bool_(), "minimum": pa.int64(), "max_value": pa.int64()}
    schema = pa.schema(
        {
            "nums": pa.list_(pa.int64()),
            "target": pa.int64(),
            "format": pa.string(),
            "rules": pa.struct(list(rules.items())),
        }
    )
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path, compression="zstd")
