"""`analyze rollouts`: trajectories that exist already, graded and scored where they were not yet; a diagnosis out."""

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import numpy as np
import pyarrow as pa

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress, Silent
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run, open_run
from entropy_lab.scoring.teacher_forced import score
from entropy_lab.tasks.grading import grade_all, require_working_grader
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Task
from entropy_lab.workflows.outcome import Analysis, Reading, conclude

CHUNK = 1_024
"""Trajectories scored between two writes (ours)."""


def analyze_rollouts(
    source: Path,
    checkpoint: str | None = None,
    task: str | None = None,
    reading: Reading | None = None,
    out: Path | None = None,
    progress: Progress | None = None,
    device: str = "auto",
    dtype: str = "auto",
    trust_remote_code: bool = False,
) -> Analysis:
    """Diagnose stored rollouts: a run directory, a Parquet or a JSONL file.

    `checkpoint` scores trajectories that have no entropies (they need `prompt_ids` and `token_ids`) and gives the
    report its token texts; `task` grades those without a verdict. Scoring continues where an earlier call stopped.
    Raises InputError for a damaged source, or rows that cannot be graded or scored.
    """
    progress, reading = progress or Silent(), reading or Reading()
    rollouts = Rollouts.read(source)
    if not len(rollouts):
        raise InputError(f"{source} holds no trajectories.")
    names = list(dict.fromkeys(str(name) for name in rollouts.strings("checkpoint")))
    loaded = None
    if checkpoint is not None:
        loaded = load_checkpoint(checkpoint, device=device, dtype=dtype, trust_remote_code=trust_remote_code)
        progress.note(loaded.describe())
    chosen = None if task is None else load_task(task)
    settings = {
        "source": _content(rollouts),
        "checkpoint": None if loaded is None else loaded.fingerprint,
        "task": None if chosen is None else chosen.name,
        "mask_unused": reading.mask_unused,
    }
    with open_run("analyze rollouts", settings, out) as run:
        parts = _complete(run, rollouts, loaded, chosen, reading.mask_unused, source, progress)
        rollouts = run.rollouts(parts)
        matching = {name: loaded if loaded is not None and name in (loaded.name, names[0]) else None for name in names}
        return conclude(
            run,
            chosen,
            {name: (rollouts.of(name), matching[name]) for name in names},
            reading,
            progress,
        )


def _complete(
    run: Run,
    rollouts: Rollouts,
    checkpoint: Checkpoint | None,
    task: Task | None,
    mask_unused: bool,
    source: Path,
    progress: Progress,
) -> int:
    """Grade and score chunk by chunk into the run's parts; returns their number."""
    chunks = list(_chunks(rollouts))
    done = sum(run.part(part).is_file() for part in range(len(chunks)))
    with progress.stage("grade and score", len(chunks), "chunk", done) as stage:
        for part, chunk in enumerate(chunks):
            if not run.part(part).is_file():
                chunk = _graded(chunk, task, source)
                run.write_part(part, _scored(chunk, checkpoint, mask_unused, source))
                stage.advance()
    return len(chunks)


def _chunks(rollouts: Rollouts) -> Iterator[Rollouts]:
    for start in range(0, len(rollouts), CHUNK):
        yield Rollouts(rollouts.table.slice(start, CHUNK))


def _graded(rollouts: Rollouts, task: Task | None, source: Path) -> Rollouts:
    """Rows without a verdict get one from `task`."""
    codes = rollouts.strings("code")
    rows = [row for row, code in enumerate(codes) if code is None]
    if task is None or not rows:
        return rollouts
    problems = {problem.id: problem for problem in task.problems()}
    ids, texts = rollouts.strings("problem_id"), rollouts.strings("text")
    for row in rows:
        if ids[row] not in problems:
            raise InputError(f"{source}: problem_id {ids[row]!r} is not among the problems of task {task.name}.")
        if texts[row] is None:
            raise InputError(f"{source}: problem {ids[row]!r} has a trajectory without `text`; it cannot be graded.")
    grades = grade_all(task, [problems[str(ids[row])] for row in rows], [str(texts[row]) for row in rows])
    require_working_grader(grades)
    columns = {}
    for name in ("correct", "code", "answer", "family", "first_calculation"):
        values = rollouts.table[name].to_pylist()
        for row, grade in zip(rows, grades, strict=True):
            values[row] = getattr(grade, name)
        columns[name] = values
    return rollouts.with_columns(**columns)


def _scored(rollouts: Rollouts, checkpoint: Checkpoint | None, mask_unused: bool, source: Path) -> Rollouts:
    """Rows without entropies get them from `checkpoint`, at the temperature they were sampled with (1 if unknown)."""
    if checkpoint is None or rollouts.ragged("entropy") is not None:
        return rollouts
    for name in ("prompt_ids", "token_ids"):
        if rollouts.table[name].null_count:
            raise InputError(
                f"{source}: scoring with {checkpoint.name} needs `{name}` in every row; "
                "text alone is never encoded again, since its tokens would not be the sampled ones."
            )
    temperatures = np.array([1.0 if t is None else t for t in rollouts.table["temperature"].to_pylist()])
    columns: dict[str, list[object]] = {name: [None] * len(rollouts) for name in ("logprob", "entropy", "varentropy")}
    for temperature in np.unique(temperatures):
        rows = np.flatnonzero(temperatures == temperature)
        table = rollouts.table.take(rows)
        scores = score(
            checkpoint,
            table["problem_id"].to_pylist(),
            table["prompt_ids"].to_pylist(),
            table["token_ids"].to_pylist(),
            temperature=float(temperature),
            mask_unused=mask_unused,
        )
        for row, found in zip(rows, scores, strict=True):
            for name, values in columns.items():
                values[row] = getattr(found, name)
    return rollouts.with_columns(**columns, temperature=temperatures.tolist())


def _content(rollouts: Rollouts) -> str:
    """A hash of what the rollouts say, whatever file they came from."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rollouts.table.schema) as stream:
        stream.write_table(rollouts.table.combine_chunks())
    return sha256(sink.getvalue()).hexdigest()[:16]
