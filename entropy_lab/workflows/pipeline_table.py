"""What a pipeline shows: its boundaries, the entropy along its stages, and whether that entropy tells the outcome."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.rank_agreement import mean_height, rank_agreement
from entropy_lab.diagnostics.tabulate import metric
from entropy_lab.progress import Progress
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis
from entropy_lab.reports.drawings import levels
from entropy_lab.reports.style import Drawing
from entropy_lab.runs import Run
from entropy_lab.training.metrics_log import read
from entropy_lab.training.pipeline import Pipeline
from entropy_lab.workflows.outcome import Analysis, publish
from entropy_lab.workflows.pipeline_boundaries import Boundary

if TYPE_CHECKING:
    from entropy_lab.workflows.pipeline import Ran

Key = tuple[int, str, str]
"""Seed, boundary, task."""
DRAWN = {"pass@1": "pass@1", "coverage.family": "family coverage", "entropy.token_mean": "entropy (nats)"}
OUTCOMES = ("pass@1", "coverage.family")


def label_of(pipeline: Pipeline, seed: int, boundary: str, task: str) -> str:
    """How a boundary is called: seed and task only where there are several."""
    seeds = f"seed {seed} " if len(pipeline.seeds) > 1 else ""
    tasks = f" on {Path(task).name}" if len(pipeline.boundaries.tasks) > 1 else ""
    return f"{seeds}{boundary}{tasks}".strip()


def publish_pipeline(
    run: Run, pipeline: Pipeline, ran: "Sequence[Ran]", boundaries: Mapping[Key, Boundary], progress: Progress
) -> Analysis:
    """Write metrics, figures and page of a pipeline.

    Stages that begin at several checkpoints of one earlier stage are set against their beginnings (does entropy before
    RL tell the outcome?); with several seeds the entropy along a seed's stages against what it ends with.
    """
    along = [*_areas(pipeline, ran), *_agreements(pipeline, ran, boundaries)]
    shown = [
        CheckpointDiagnosis.of_metrics(
            label_of(pipeline, *key), one.metrics, len(one.problems), pipeline.boundaries.samples
        )
        for key, one in boundaries.items()
    ]
    diagnosis = Diagnosis(
        title=f"Pipeline {pipeline.name}",
        task=", ".join(pipeline.boundaries.tasks),
        checkpoints=tuple(shown),
        settings=run.record,
        notes=tuple(map(told, along)),
        drawings=_drawings(pipeline, boundaries),
    )
    problem_ids = sorted({problem for one in boundaries.values() for problem in one.problems})
    per_problem = {}
    for key, one in boundaries.items():
        rows = {problem: place for place, problem in enumerate(one.problems)}
        per_problem[label_of(pipeline, *key)] = {
            name: np.array([column[rows[problem]] if problem in rows else np.nan for problem in problem_ids])
            for name, column in one.values.items()
        }
    analysis = publish(run, diagnosis, problem_ids, per_problem, progress)
    metrics = (*analysis.metrics, *along)
    run.write_metrics(metrics)
    return replace(analysis, metrics=metrics)


def told(one: Metric) -> str:
    """A number of the pipeline as a whole, in a sentence."""
    value = "—" if one.value is None else f"{one.value:.3f}{' nats' if one.unit == 'nats' else ''}"
    return f"{one.metric}: {value} (n = {one.n}; {one.note})"


def _areas(pipeline: Pipeline, ran: "Sequence[Ran]") -> list[Metric]:
    """Mean entropy along each stage that samples: the area under its curve over the steps, divided by their number."""
    rows = []
    for one in ran:
        if one.asks_policy:
            seeds = f" of seed {one.seed}" if len(pipeline.seeds) > 1 else ""
            name, height = f"entropy.area {one.stage.name}{seeds}", _height(one)
            note = "mean over steps of the policy's entropy on the tokens it trained on"
            if np.isnan(height):
                note = "fewer than two steps were trained"
            rows.append(metric(name, height, np.nan, np.nan, "nats", one.recipe.steps, note=note))
    return rows


def _height(one: "Ran") -> float:
    log = [row for row in read(one.folder / "metrics.jsonl") if row.get("entropy.token_mean") is not None]
    return mean_height([row["step"] for row in log], [row["entropy.token_mean"] for row in log])


def _agreements(pipeline: Pipeline, ran: "Sequence[Ran]", boundaries: Mapping[Key, Boundary]) -> list[Metric]:
    """Rank agreement of entropy with outcomes: before sibling stages, and along the stages of each seed."""
    rows: list[Metric] = []
    siblings = [one for one in ran if one.asks_policy and "/" in one.begins]
    last = [one for one in ran if one.stage.name == pipeline.stages[-1].name]
    for task in pipeline.boundaries.tasks:
        suffix = f" on {Path(task).name}" if len(pipeline.boundaries.tasks) > 1 else ""
        for outcome in OUTCOMES:
            if siblings:
                before = [boundaries[one.seed, one.begins, task].value("entropy.token_mean") for one in siblings]
                after = [boundaries[one.seed, one.stage.name, task].value(outcome) for one in siblings]
                rows += rank_agreement(f"agreement.entropy_before.{outcome}{suffix}", before, after)
            if len(pipeline.seeds) > 1 and all(one.asks_policy for one in ran):
                heights = [float(np.mean([_height(one) for one in ran if one.seed == seed])) for seed in pipeline.seeds]
                ends = [boundaries[one.seed, one.stage.name, task].value(outcome) for one in last]
                rows += rank_agreement(f"agreement.entropy_area.{outcome}{suffix}", heights, ends)
    return rows


def _drawings(pipeline: Pipeline, boundaries: Mapping[Key, Boundary]) -> tuple[Drawing, ...]:
    """What each boundary has, boundary by boundary, one line a seed and task."""
    names = list(dict.fromkeys(name for _, name, _ in boundaries))
    lines = [(seed, task) for seed in pipeline.seeds for task in pipeline.boundaries.tasks]
    drawn = []
    for measured, label in DRAWN.items():
        series = {}
        for seed, task in lines:
            found = [boundaries.get((seed, name, task)) for name in names]
            series[label_of(pipeline, seed, "", task) or label] = [
                None if one is None else next((each for each in one.metrics if each.metric == measured), None)
                for one in found
            ]
        drawn.append(
            levels(
                f"boundaries_{measured.replace('@', '_').replace('.', '_')}",
                f"{label} at the boundaries",
                "Every checkpoint between stages on the same problems.",
                names,
                series,
                ylabel=label,
            )
        )
    return tuple(one for one in drawn if one is not None)
