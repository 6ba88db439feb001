"""What an analysis leaves behind: metrics, per-problem values, figures and the page, all in the run directory."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.diagnostics.comparison import compare
from entropy_lab.diagnostics.decision_points import Rule
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.progress import Progress
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis, TrajectoryView
from entropy_lab.reports.figures import write_figures
from entropy_lab.reports.page import write_page
from entropy_lab.reports.style import Drawing
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run
from entropy_lab.tasks.protocol import Enumerable, Space, Task
from entropy_lab.texts import token_texts
from entropy_lab.workflows.diagnosis import Measured, decision_metrics, decision_tokens, diagnosis_of, measure, opening
from entropy_lab.workflows.prefixes import look_at_prefixes, prefix_drawings
from entropy_lab.workflows.shown import ALTERNATIVES, agreement, choose, score_rows, views
from entropy_lab.workflows.trees import Grown, drawings, grow, part

_DIFFERENCE = "difference."


@dataclass(frozen=True)
class Reading:
    """How rollouts are read. `ks` None means the powers of two ≤ samples.

    `mask_unused` scores without the head rows that the tokenizer does not have.
    """

    ks: tuple[int, ...] | None = None
    rule: Rule = field(default_factory=Rule)
    seed: int = 0
    mask_unused: bool = False


@dataclass(frozen=True)
class Analysis:
    """A finished analysis: where it lies, and what it found."""

    folder: Path
    metrics: tuple[Metric, ...]
    diagnosis: Diagnosis

    @property
    def report(self) -> Path:
        """The HTML page."""
        return self.folder / "report.html"


def publish(
    run: Run,
    diagnosis: Diagnosis,
    problem_ids: Sequence[str],
    per_problem: Mapping[str, Mapping[str, NDArray[np.float64]]],
    progress: Progress,
) -> Analysis:
    """Write every file of the run directory, the page last, and tell what was found.

    `metrics.json` holds the metrics of all checkpoints, then the differences as `difference.<metric>`. `per_problem`
    maps checkpoint → metric → values in the order of `problem_ids`, NaN where a problem has none.
    """
    metrics = (
        *(metric for one in diagnosis.checkpoints for metric in one.metrics),
        *(replace(row, metric=_stored_name(row.metric)) for row in diagnosis.differences),
    )
    run.write_metrics(metrics)
    run.write_problems(problem_ids, per_problem)
    with progress.stage("figures and report", 2, "file") as stage:
        write_figures(diagnosis, run.folder / "figures")
        stage.advance()
        write_page(diagnosis, run.folder / "report.html")
        stage.advance()
    return Analysis(run.folder, metrics, diagnosis)


def _stored_name(difference: str) -> str:
    """The crossing of two curves is a number of the pair, and no difference."""
    return difference if difference.startswith("crossing.") else f"{_DIFFERENCE}{difference}"


def conclude(
    run: Run,
    task: Task | None,
    rollouts: Mapping[str, tuple[Rollouts, Checkpoint | None]],
    reading: Reading,
    progress: Progress,
    temperature: float | None = None,
    kept: str = "logprobs",
) -> Analysis:
    """Diagnose each checkpoint's rollouts (with its checkpoint, where it is at hand) and write all files.

    With two checkpoints, differences are paired by problem, first minus second. `kept` is the column that holds the
    sampled tokens' log-probs as the sampler had them.
    """
    asked = {str(problem) for rows, _ in rollouts.values() for problem in rows.strings("problem_id")}
    problems = [] if task is None else [problem for problem in task.problems() if problem.id in asked]
    questions = {problem.id: problem.question for problem in problems}
    spaces: dict[str, Space] = {}
    if isinstance(task, Enumerable):
        spaces = {problem.id: space for problem in problems if (space := task.space(problem)) is not None}
    measured, diagnoses = [], []
    grown: dict[str, Grown] = {}
    for name, (rows, checkpoint) in rollouts.items():
        plain, branches = part(rows)
        trees = grow(name, plain, branches, checkpoint, reading.seed)
        one = measure(
            name,
            plain,
            ks=reading.ks,
            rule=reading.rule,
            seed=reading.seed,
            temperature=temperature,
            spaces=spaces,
        )
        measured.append(one)
        diagnosis = _look_at(one, checkpoint, questions, reading, kept, progress)
        if trees is not None:
            grown[name] = trees
            diagnosis = replace(diagnosis, metrics=(*diagnosis.metrics, *trees.metrics, *trees.values))
        diagnoses.append(diagnosis)
    prefixed = look_at_prefixes({name: rows for name, (rows, _) in rollouts.items()}, reading.seed)
    if prefixed is not None:
        diagnoses[-1] = replace(diagnoses[-1], metrics=(*diagnoses[-1].metrics, *prefixed.metrics))
    beside = (*drawings(grown), *prefix_drawings(prefixed))
    notes = (*(one.note for one in grown.values()), *([] if prefixed is None else [prefixed.note]))
    return _write(run, "rollouts" if task is None else task.name, measured, diagnoses, beside, notes, reading, progress)


def _look_at(
    measured: Measured,
    checkpoint: Checkpoint | None,
    questions: Mapping[str, str],
    reading: Reading,
    kept: str,
    progress: Progress,
) -> CheckpointDiagnosis:
    """Metrics, decision tokens and shown trajectories of one checkpoint; the last two need its tokenizer."""
    metrics = [*measured.summary.metrics, *decision_metrics(measured, reading.seed)]
    opened = opening(measured)
    if checkpoint is None:
        names = [] if opened is None else [f"id {token}" for token in opened.token_id]
        return diagnosis_of(measured, metrics, decision_tokens(opened, names), ())
    names = [] if opened is None else ["".join(token_texts(checkpoint.tokenizer, [int(t)])) for t in opened.token_id]
    rows = choose(measured.rollouts)
    shown: tuple[TrajectoryView, ...] = ()
    if measured.blocks is not None and rows:
        scores = score_rows(
            checkpoint,
            measured.rollouts,
            rows,
            alternatives=ALTERNATIVES,
            mask_unused=reading.mask_unused,
            progress=progress,
        )
        metrics += agreement(measured.name, measured.rollouts, rows, scores, kept, reading.seed)
        shown = views(checkpoint, measured.rollouts, rows, scores, measured.blocks, questions)
    return diagnosis_of(measured, metrics, decision_tokens(opened, names), shown)


def _write(
    run: Run,
    task: str,
    measured: Sequence[Measured],
    diagnoses: Sequence[CheckpointDiagnosis],
    beside: tuple[Drawing, ...],
    notes: Sequence[str],
    reading: Reading,
    progress: Progress,
) -> Analysis:
    """Differences, then every file of the run directory."""
    differences: tuple[Metric, ...] = ()
    if len(measured) == 2:
        differences = compare(measured[0].summary, measured[1].summary, seed=reading.seed)
    run.note(analysis=asdict(reading))
    diagnosis = Diagnosis(
        title=" against ".join(one.name for one in measured),
        task=task,
        checkpoints=tuple(diagnoses),
        differences=tuple(replace(row, metric=row.metric.removeprefix(_DIFFERENCE)) for row in differences),
        settings=run.record,
        notes=(*_unscored(measured), *_notes(diagnoses), *notes),
        drawings=beside,
    )
    problem_ids = sorted({str(problem) for one in measured for problem in one.summary.problems})
    return publish(run, diagnosis, problem_ids, {one.name: _aligned(one, problem_ids) for one in measured}, progress)


def _aligned(measured: Measured, problem_ids: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """Per-problem values in the order of `problem_ids`, NaN for problems this checkpoint does not have."""
    place = {str(problem): row for row, problem in enumerate(measured.summary.problems)}
    rows = np.array([place.get(problem, -1) for problem in problem_ids])
    return {
        name: np.where(rows >= 0, np.append(values, np.nan)[rows], np.nan)
        for name, values in measured.summary.per_problem.items()
    }


def _unscored(measured: Sequence[Measured]) -> list[str]:
    """Say where entropies are missing, since then nothing of them is measured."""
    missing = {one.name: one.rollouts.table["entropy"].null_count for one in measured}
    return [
        f"{name}: {count:,} trajectories have no entropies, so entropy is not measured; score them with --checkpoint."
        for name, count in missing.items()
        if count
    ]


def _notes(diagnoses: Sequence[CheckpointDiagnosis]) -> tuple[str, ...]:
    """What a reader must know before believing an accuracy: truncation and failed gradings."""
    notes = []
    for one in diagnoses:
        values = {metric.metric: metric.value for metric in one.metrics}
        truncated, failed = values.get("sampling.truncation_rate"), values.get("grading.failure_rate")
        if truncated:
            notes.append(
                f"{one.name}: {truncated:.1%} of completions were cut off at the length limit and count as they stand."
            )
        if failed:
            notes.append(
                f"{one.name}: the grader failed on {failed:.1%} of completions; they are left out, not counted wrong."
            )
    return tuple(notes)
