"""A pipeline's boundaries: every checkpoint between stages, measured once on each task and kept as a file."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.group_signal import critical_rate, degenerate_estimate, variance_estimate
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.tabulate import join_notes, mean_metrics, metric
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.files import write_json
from entropy_lab.training.pipeline import Boundaries
from entropy_lab.training.recipe import Recipe
from entropy_lab.training.recipe_files import with_field
from entropy_lab.workflows.training_evaluation import Evaluator

SHOWN = (
    *("pass@1", "pass@8", "pass@32", "coverage.family", "coverage.solution"),
    *("entropy.token_mean", "entropy.early", "entropy.first_calculation"),
)


@dataclass(frozen=True)
class Boundary:
    """A boundary on one task; `values` hold each metric by problem, in the order of `problems`."""

    metrics: tuple[Metric, ...]
    problems: tuple[str, ...]
    values: Mapping[str, tuple[float, ...]]

    def value(self, name: str) -> float:
        """A metric's value, NaN where it has none."""
        found = next((one.value for one in self.metrics if one.metric == name), None)
        return float("nan") if found is None else found


def measure_boundary(
    checkpoint: str, task: str, name: str, recipe: Recipe, settings: Boundaries, kept: Path
) -> Boundary:
    """Measure `checkpoint` on `task` under `name`, or read what an earlier start measured.

    Beside pass@k, coverage and entropies it has the numbers of triage for groups of g: pass@1/p*(g), the share of
    groups that teach nothing, the expected variance of rewards within a group; both unbiased from the samples.
    """
    if not kept.is_file():
        evaluation = {"task": task, "problems": settings.problems, "samples": settings.samples}
        for field, value in evaluation.items():
            recipe = with_field(recipe, f"evaluation.{field}", value)
        loaded = load_checkpoint(checkpoint, device=recipe.start.device, dtype="float32")
        summary = Evaluator(recipe).measured(loaded, TransformersEngine(loaded), name).summary
        found = [one for one in summary.metrics if one.metric in SHOWN]
        rows = [*found, *_triage(summary.correct_P, summary.graded_P, settings.group, name), *_ratio(found, settings)]
        columns = {one: summary.per_problem[one] for one in SHOWN if one in summary.per_problem}
        write_json(
            kept,
            {
                "metrics": [asdict(row) for row in rows],
                "problems": [str(problem) for problem in summary.problems],
                "values": {
                    one: [None if np.isnan(value) else float(value) for value in column]
                    for one, column in columns.items()
                },
            },
        )
    stored = json.loads(kept.read_text(encoding="utf-8"))
    return Boundary(
        tuple(Metric(**row) for row in stored["metrics"]),
        tuple(stored["problems"]),
        {
            one: tuple(float("nan") if value is None else value for value in column)
            for one, column in stored["values"].items()
        },
    )


def _triage(correct_P: NDArray[np.integer], graded_P: NDArray[np.integer], group: int, name: str) -> tuple[Metric, ...]:
    columns = [
        Column(
            "triage.degenerate", "share", degenerate_estimate(correct_P, graded_P, group), f"fewer than {group} samples"
        ),
        Column(
            "triage.group_variance", "reward^2", variance_estimate(correct_P, graded_P, group), "fewer than two samples"
        ),
    ]
    note = f"groups of {group}"
    return tuple(replace(row, note=join_notes(row.note, note)) for row in mean_metrics(columns, name))


def _ratio(metrics: list[Metric], settings: Boundaries) -> list[Metric]:
    """pass@1 in units of p*(g), where half the groups of g are all wrong."""
    critical = critical_rate(settings.group)
    note = f"pass@1 over p*({settings.group}) = {critical:.4f}"
    rows = []
    for one in metrics:
        if one.metric == "pass@1" and one.value is not None:
            value, low, high = (np.nan if end is None else end / critical for end in (one.value, one.low, one.high))
            rows.append(metric("triage.pass_ratio", value, low, high, "", one.n, checkpoint=one.checkpoint, note=note))
    return rows
