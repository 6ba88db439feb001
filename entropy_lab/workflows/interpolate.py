"""`interpolate` over a grid: each block of layers × α sampled like its two checkpoints; breadth against accuracy out.

Every arm has the same problems and the same seeds. A cell's checkpoint exists only while it is sampled.
"""

import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.diagnostics.comparison import compare
from entropy_lab.diagnostics.decision_points import Rule
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.pareto import pareto
from entropy_lab.engines import open_engine
from entropy_lab.engines.protocol import Sampling
from entropy_lab.interventions.checkpoint_pair import Cell, Pair, open_pair
from entropy_lab.interventions.interpolation import write_cell
from entropy_lab.progress import Progress, Silent
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis
from entropy_lab.reports.drawings import Point, scatter
from entropy_lab.reports.names import metric_name
from entropy_lab.runs import Run, open_run
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Enumerable, Problem, Task
from entropy_lab.workflows.asked import (
    announce,
    check_counts,
    checkpoint_settings,
    chosen_problems,
    deciding_versions,
    rows_of,
    task_settings,
)
from entropy_lab.workflows.diagnosis import Measured, decision_metrics, diagnosis_of, measure
from entropy_lab.workflows.outcome import Analysis, publish
from entropy_lab.workflows.sampling import Order, order_of, sample_into

DEFAULT_EARLY, DEFAULT_LATE = "builtin:sft-early", "builtin:sft"
ACCURACY = "pass@1"


@dataclass(frozen=True)
class InterpolatePlan:
    """What the grid is asked. `problems` None means all."""

    cells: tuple[Cell, ...]
    early: str = DEFAULT_EARLY
    late: str = DEFAULT_LATE
    task: str = "countdown"
    problems: int | None = 100
    samples: int = 64
    sampling: Sampling = field(default_factory=Sampling)
    engine: str = "auto"
    prompt: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    trust_remote_code: bool = False


def interpolate_grid(plan: InterpolatePlan, out: Path | None = None, progress: Progress | None = None) -> Analysis:
    """Sample late, early and every cell, and say which are not dominated in (pass@1, family coverage).

    Where the task cannot write its solutions down, breadth is pass@k at the largest k instead (ours). `run.json`
    holds `axes` (the two metrics), `cells` and `ends` (late, early) with both values, their intervals and the mark
    `pareto`, which goes by the point estimates (ours). Differences are paired by problem, each arm minus late. The
    same plan continues its run.

    Raises:
        InputError: anything wrong with the plan, the checkpoints, a cell or the task.
    """
    progress = progress or Silent()
    check_counts(plan.problems, plan.samples, None, plan.sampling, plan.engine)
    pair = open_pair(plan.early, plan.late, plan.trust_remote_code)
    cells = {cell.name: cell for cell in plan.cells}
    for cell in cells.values():
        pair.moved(cell)
    task = load_task(plan.task)
    problems = chosen_problems(task, plan.problems)
    orders = _ends(plan, task, problems, progress)
    with open_run("interpolate", _settings(plan, task, orders, list(cells)), out) as run:
        run.note(asked=asdict(plan))
        next_part = 0
        while orders:  # each checkpoint is let go of once it is sampled
            next_part = _sample(run, next_part, orders.pop(0), plan, progress)
        for cell in cells.values():
            done = _finished(run, next_part, cell.name)
            next_part = done or _sample_cell(run, next_part, pair, cell, plan, task, problems, progress)
        measured = _measured(run, next_part, [plan.late, plan.early, *cells], task, problems, plan)
        return _conclude(run, plan, cells, measured, task, progress)


def _ends(plan: InterpolatePlan, task: Task, problems: Sequence[Problem], progress: Progress) -> list[Order]:
    checkpoints = [_load(plan, name) for name in (plan.late, plan.early)]
    announce(checkpoints, progress)
    return [order_of(one, task, problems, plan.samples, plan.sampling, plan.prompt) for one in checkpoints]


def _load(plan: InterpolatePlan, name: str) -> Checkpoint:
    return load_checkpoint(name, device=plan.device, dtype=plan.dtype, trust_remote_code=plan.trust_remote_code)


def _sample(run: Run, first: int, order: Order, plan: InterpolatePlan, progress: Progress) -> int:
    """Sample one arm into parts `first` … and note where it ends; gives the next free part."""
    with closing(open_engine(plan.engine, order.checkpoint, rows_of(run, order.name), progress)) as engine:
        stop = sample_into(run, first, order, engine, progress)
    run.note(arms={**run.record.get("arms", {}), order.name: stop})
    return stop


def _finished(run: Run, first: int, name: str) -> int | None:
    """The part after an arm that an earlier start finished, so that its checkpoint is not even written."""
    stop = run.record.get("arms", {}).get(name)
    whole = stop is not None and all(run.part(part).is_file() for part in range(first, stop))
    return int(stop) if whole else None


def _sample_cell(
    run: Run,
    first: int,
    pair: Pair,
    cell: Cell,
    plan: InterpolatePlan,
    task: Task,
    problems: Sequence[Problem],
    progress: Progress,
) -> int:
    """Write the cell's checkpoint into the run directory, ask it what late was asked, and delete it."""
    folder = run.folder / "cell"
    try:
        checkpoint = _load(plan, str(write_cell(pair, cell, folder)))
        order = order_of(checkpoint, task, problems, plan.samples, plan.sampling, plan.prompt)
        return _sample(run, first, replace(order, arm=cell.name), plan, progress)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _settings(plan: InterpolatePlan, task: Task, orders: Sequence[Order], cells: Sequence[str]) -> dict[str, object]:
    """What decides the rollouts, and therefore names the run; a cell follows from late, early and its name."""
    return {
        "checkpoints": [checkpoint_settings(order.checkpoint, plan.prompt, order.requests) for order in orders],
        "cells": list(cells),
        "task": task_settings(task, plan.task, len(orders[0].problems)),
        "samples": plan.samples,
        "sampling": asdict(plan.sampling),
        "engine": plan.engine,
        "versions": deciding_versions(),
    }


def _measured(
    run: Run, parts: int, names: Sequence[str], task: Task, problems: Sequence[Problem], plan: InterpolatePlan
) -> list[Measured]:
    rollouts, spaces = run.rollouts(parts), {}
    if isinstance(task, Enumerable):
        spaces = {problem.id: space for problem in problems if (space := task.space(problem)) is not None}
    return [
        measure(
            name,
            rollouts.of(name),
            ks=None,
            rule=Rule(),
            seed=plan.sampling.seed,
            temperature=plan.sampling.temperature,
            spaces=spaces,
        )
        for name in names
    ]


def _conclude(
    run: Run,
    plan: InterpolatePlan,
    cells: Mapping[str, Cell],
    measured: Sequence[Measured],
    task: Task,
    progress: Progress,
) -> Analysis:
    """Mark the cells, compare all arms with late, and write all files."""
    seed, late = plan.sampling.seed, measured[0].summary
    by_name = {one.name: {metric.metric: metric for metric in one.summary.metrics} for one in measured}
    breadth = _breadth(by_name[plan.late])
    points = {name: (metrics[ACCURACY], metrics[breadth]) for name, metrics in by_name.items()}
    front = dict(zip(points, pareto([[_number(axis) for axis in axes] for axes in points.values()]), strict=True))
    rows = {
        name: {"name": name, **{axis.metric: _plain(axis) for axis in axes}, "pareto": bool(front[name])}
        for name, axes in points.items()
    }
    run.note(
        axes=[ACCURACY, breadth],
        cells=[rows[name] | {"layers": cell.block, "alpha": cell.alpha} for name, cell in cells.items()],
        ends=[rows[plan.late], rows[plan.early]],
    )
    differences = [row for one in measured[1:] for row in compare(one.summary, late, seed=seed)]
    spoken, marked = metric_name(breadth, early_tokens=0), ", ".join(name for name in front if front[name]) or "none"
    drawing = scatter(
        "interpolation",
        f"{spoken} against {ACCURACY}",
        "Filled: dominated by no other arm, by the point estimates.",
        [Point(name, *axes, marked=bool(front[name])) for name, axes in points.items()],
        xlabel=ACCURACY,
        ylabel=spoken,
    )
    diagnosis = Diagnosis(
        title=f"{plan.late} interpolated with {plan.early}",
        task=task.name,
        checkpoints=tuple(_shown(one, seed, whole=one.name not in cells) for one in measured),
        differences=tuple(replace(row, metric=row.metric.removeprefix("difference.")) for row in differences),
        settings=run.record,
        notes=(
            "A cell is START:STOP @ α: layers START to STOP − 1 are (1 − α)·late + α·early, the rest is late's; "
            "global is all weights, embeddings and head included. Differences are the arm minus late.",
            f"On the Pareto front, dominated by no other arm in ({ACCURACY}, {spoken}): {marked}. This goes by point "
            "estimates; arms whose intervals overlap may change places.",
        ),
        drawings=() if drawing is None else (drawing,),
    )
    problem_ids = [str(problem) for problem in late.problems]
    return publish(run, diagnosis, problem_ids, {one.name: one.summary.per_problem for one in measured}, progress)


def _breadth(metrics: Mapping[str, Metric]) -> str:
    if "coverage.family" in metrics:
        return "coverage.family"
    return max((name for name in metrics if name.startswith("pass@")), key=lambda name: int(name.removeprefix("pass@")))


def _number(metric: Metric) -> float:
    return float("nan") if metric.value is None else metric.value


def _plain(metric: Metric) -> dict[str, Any]:
    return {"value": metric.value, "low": metric.low, "high": metric.high, "n": metric.n}


def _shown(measured: Measured, seed: int, whole: bool) -> CheckpointDiagnosis:
    """The two ends with their curves; the cells as numbers only, or a large grid would hide the ends' curves."""
    metrics = (*measured.summary.metrics, *decision_metrics(measured, seed))
    shown = diagnosis_of(measured, metrics, (), ())
    if whole:
        return shown
    return CheckpointDiagnosis.of_metrics(measured.name, metrics, shown.problems, shown.samples, shown.trajectory_count)
