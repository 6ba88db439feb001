"""`analyze rollouts`: trajectories that exist already, graded and scored where they were not yet; a diagnosis out."""

from hashlib import sha256
from pathlib import Path

import pyarrow as pa

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress, Silent
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import file_digest, open_run
from entropy_lab.tasks.grading import grade_all, require_working_grader
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Task
from entropy_lab.workflows.outcome import Analysis, Reading, conclude
from entropy_lab.workflows.shown import score_rows

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
    owner = None if loaded is None else _owner(loaded, names, source)
    chosen = None if task is None else load_task(task)
    settings = {
        "source": _content(rollouts),
        "checkpoint": None if loaded is None else [loaded.fingerprint, loaded.device.type, str(loaded.dtype)],
        "task": None if task is None or chosen is None else {"source": Path(task).name, "file": file_digest(task)},
        "mask_unused": reading.mask_unused,
    }
    with open_run("analyze rollouts", settings, out) as run:
        run.note(source=str(source))
        chunks = [Rollouts(rollouts.table.slice(start, CHUNK)) for start in range(0, len(rollouts), CHUNK)]
        done = sum(run.part(part).is_file() for part in range(len(chunks)))
        with progress.stage("grade and score", len(chunks), "chunk", done) as stage:
            for part, chunk in enumerate(chunks):
                if not run.part(part).is_file():
                    chunk = _graded(chunk, chosen, source)
                    if loaded is not None:
                        chunk = _scored(chunk, loaded, str(owner), reading.mask_unused, source)
                    run.write_part(part, chunk)
                    stage.advance()
        rollouts = run.rollouts(len(chunks))
        by_name = {name: (rollouts.of(name), loaded if name == owner else None) for name in names}
        known = [one for one in rollouts.table["temperature"].to_pylist() if one is not None]
        return conclude(run, chosen, by_name, reading, progress, temperature=min(known, default=None))


def _owner(checkpoint: Checkpoint, names: list[str], source: Path) -> str:
    """Whose rows `checkpoint` may score: those under its own name, or all where the source knows one name only."""
    if checkpoint.name in names:
        return checkpoint.name
    if len(names) == 1:
        return names[0]
    raise InputError(
        f"{source} holds rollouts of {', '.join(names)}; --checkpoint {checkpoint.name} is none of them. "
        "Name one as it is written there."
    )


def _graded(rollouts: Rollouts, task: Task | None, source: Path) -> Rollouts:
    """Rows without a verdict get one from `task`."""
    verdicts = zip(rollouts.strings("code"), rollouts.table["correct"].to_pylist(), strict=True)
    rows = [row for row, verdict in enumerate(verdicts) if verdict == (None, None)]
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


def _scored(rollouts: Rollouts, checkpoint: Checkpoint, owner: str, mask_unused: bool, source: Path) -> Rollouts:
    """The owner's rows without entropies get them, at the temperature they were sampled with (1 if unknown)."""
    names, entropies = rollouts.strings("checkpoint"), rollouts.table["entropy"].is_valid().to_pylist()
    rows = [row for row, name in enumerate(names) if name == owner and not entropies[row]]
    for column in ("prompt_ids", "token_ids"):
        there = rollouts.table[column].is_valid().to_pylist()
        for row in rows:
            if not there[row]:
                problem = rollouts.strings("problem_id")[row]
                raise InputError(
                    f"{source}: problem {problem!r} has a trajectory without `{column}`; it cannot be scored, since "
                    "encoding its text again would not give the sampled tokens."
                )
    columns = {name: rollouts.table[name].to_pylist() for name in ("logprob", "entropy", "varentropy")}
    for row, found in zip(rows, score_rows(checkpoint, rollouts, rows, mask_unused=mask_unused), strict=True):
        for name, values in columns.items():
            values[row] = getattr(found, name)
    return rollouts.with_columns(**columns)


def _content(rollouts: Rollouts) -> str:
    """A hash of what the rollouts say, whatever file they came from."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rollouts.table.schema) as stream:
        stream.write_table(rollouts.table.combine_chunks())
    return sha256(sink.getvalue()).hexdigest()[:16]
