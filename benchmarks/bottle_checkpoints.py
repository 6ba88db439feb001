"""Kept checkpoints of training runs measured again, on more problems and fresh samples: coverage, cohort, shift.

A checkpoint chosen because its small evaluation was high looks better there than it is; here it does not.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.frontier import over_seeds
from entropy_lab.diagnostics.intervals import bootstrap_means
from entropy_lab.engines.protocol import Sampling
from entropy_lab.runs import settings_hash
from entropy_lab.workflows.coverage import CoveragePlan, coverage
from entropy_lab.workflows.shift import ShiftPlan, shift

Columns = dict[str, NDArray[np.float64]]
SHIFT = "shift.ratio"
LONGEST = 40
"""Tokens a completion may have, as in training."""
METRICS = (
    *("pass@1", "pass@16", "pass@32", "coverage.family", "coverage.solution"),
    *("cohort.coverage.family", "cohort.coverage.solution", "entropy.problem_mean"),
)


def measure(checkpoints: Sequence[str], out: Path, problems: int, samples: int) -> dict[str, Any]:
    """Coverage of all checkpoints on the same problems: checkpoint → metric → values by problem, in one order.

    Also `cohort`, the number of problems that each of them solved.
    """
    sampling = Sampling(max_new_tokens=LONGEST, seed=1)
    folder = out / "coverage" / settings_hash({"checkpoints": list(checkpoints), "asked": [problems, samples]})
    folder.parent.mkdir(parents=True, exist_ok=True)
    plan = CoveragePlan(tuple(checkpoints), problems=problems, samples=samples, sampling=sampling)
    found = coverage(plan, folder)
    table = pq.read_table(folder / "problems.parquet").to_pydict()
    values: dict[str, dict[str, dict[str, float]]] = {}
    for problem, metric, name, value in zip(
        table["problem_id"], table["metric"], table["checkpoint"], table["value"], strict=True
    ):
        if metric in METRICS:
            column = values.setdefault(name, {}).setdefault(metric, {})
            column[problem] = np.nan if value is None else value
    order = sorted(set(table["problem_id"]))
    cohort = next((one.value for one in found.metrics if one.metric == "cohort.size"), None)
    return {
        "cohort": cohort,
        "columns": {
            name: {metric: np.array([column[problem] for problem in order]) for metric, column in columns.items()}
            for name, columns in values.items()
        },
    }


def shift_ratio(start: str, late: str, out: Path, problems: int) -> float:
    """Early-step share of the likelihood shift: mean |Δ log p| a token through the first operator ÷ after it.

    NaN between equal checkpoints.
    """
    folder = out / "shift" / settings_hash({"start": start, "late": late, "problems": problems})
    folder.parent.mkdir(parents=True, exist_ok=True)
    metrics = {one.metric: one.value for one in shift(ShiftPlan(start, late, problems=problems), folder).metrics}
    ratio = metrics[SHIFT]
    return np.nan if ratio is None else ratio


def mean_over_problems(seeds: Sequence[Columns]) -> dict[str, dict[str, Any]]:
    """Each metric's mean over problems and seeds with the BCa interval over problems, and its range over seeds."""
    return {
        metric: _summary(np.array([columns[metric] for columns in seeds]))
        for metric in METRICS
        if all(metric in columns for columns in seeds)
    }


def paired(ours: Sequence[Columns], theirs: Sequence[Columns]) -> dict[str, dict[str, Any]]:
    """As `mean_over_problems` for ours − theirs, paired by problem and seed."""
    return {
        metric: _summary(np.array([first[metric] - second[metric] for first, second in zip(ours, theirs, strict=True)]))
        for metric in METRICS
        if all(metric in columns for columns in (*ours, *theirs))
    }


def _summary(values_SP: NDArray[np.float64]) -> dict[str, Any]:
    """A problem counts with its mean over the seeds that have it (a cohort differs from seed to seed)."""
    known_P = np.isfinite(values_SP).any(axis=0)
    mean_P = np.full(values_SP.shape[1], np.nan)
    mean_P[known_P] = np.nanmean(values_SP[:, known_P], axis=0)
    found = bootstrap_means(mean_P)
    by_seed = [float(np.nanmean(row)) if np.isfinite(row).any() else np.nan for row in values_SP]
    seeds = over_seeds(by_seed)
    return {
        "value": float(found.value[0]),
        "low": float(found.low[0]),
        "high": float(found.high[0]),
        "n": int(found.n[0]),
        "least": seeds.least,
        "most": seeds.most,
    }
