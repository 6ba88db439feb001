"""The training runs of `method_table.py`: every recipe from one start until it has sampled its tokens, then measured.

A run's results are one JSON file; what has one is not run again, and a killed run goes on.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.bottle_checkpoints import measure, shift_ratio
from benchmarks.bottle_runs import START, SUPERVISED_RATE, SUPERVISED_STEPS
from benchmarks.bottle_tables import plain
from benchmarks.frontier import Track, read_track
from entropy_lab.files import write_json
from entropy_lab.training.metrics_log import read
from entropy_lab.training.recipe_files import load_recipe

STOPPED = 4
EVALUATIONS = 12
"""Small evaluations in a recipe's own number of steps."""
TRACKED = ("pass@1", "pass@32", "coverage.family", "coverage.solution", "entropy.token_mean")


@dataclass(frozen=True)
class MethodRun:
    """One recipe × seed until `tokens` were sampled (`sft`, which samples nothing, for a fixed number of steps)."""

    recipe: str
    seed: int
    tokens: int
    problems: int
    samples: int
    runs: Path
    results: Path

    @property
    def label(self) -> str:
        return f"{Path(self.recipe).stem}-{self.seed}"

    @property
    def folder(self) -> Path:
        return (self.runs / self.label).resolve()

    @property
    def asked(self) -> dict[str, Any]:
        """What makes a result this run's; a file that says otherwise is made anew."""
        return {"tokens": self.tokens, "problems": self.problems, "samples": self.samples, "changes": self.changes()}

    def changes(self) -> list[str]:
        """What differs from the shipped recipe."""
        shipped = load_recipe(self.recipe)
        fresh = shipped.start.fresh is not None
        steps = SUPERVISED_STEPS if fresh else shipped.steps
        found = [
            f"steps={steps if fresh else 4 * steps}",  # an upper bound: the stop rule ends a run that samples
            f"seed={self.seed}",
            f'start={{checkpoint = "{START}"}}',
            f"evaluation.every={max(1, steps // EVALUATIONS)}",
            "save.every=1",
            "save.keep=1",
            "save.rungs={}",
            "save.rollouts_every=0",
            "save.trackers=[]",
        ]
        return [*found, f"optimizer={{learning_rate = {SUPERVISED_RATE}}}"] if fresh else found

    def result(self) -> dict[str, Any] | None:
        """The stored result, if there is one of what is asked now."""
        path = self.results / f"{self.label}.json"
        if not path.is_file():
            return None
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if found["asked"] == self.asked else None


def run_all(runs: Sequence[MethodRun], jobs: int) -> dict[str, dict[str, Any]]:
    """Results by label; `jobs` runs at a time, on one thread each.

    Raises:
        SystemExit: a run failed; the others are finished first.
    """
    waiting = [run for run in runs if run.result() is None]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        failed = [text for text in pool.map(_trained_and_measured, waiting) if text]
    if failed:
        print("\n\n".join(failed), file=sys.stderr)
        sys.exit(1)
    return {run.label: run.result() or {} for run in runs}


def _trained_and_measured(run: MethodRun) -> str:
    """One run from its start to its file of results; gives what went wrong, or nothing."""
    torch.set_num_threads(1)
    failed = _train(run)
    if not failed:
        write_json(run.results / f"{run.label}.json", plain(_measured(run)))
        print(f"{run.label}: measured", flush=True)
    return failed


def _train(run: MethodRun) -> str:
    """Train until the tokens are sampled; gives what went wrong, or nothing. CPU seconds of all starts are summed."""
    run.runs.mkdir(parents=True, exist_ok=True)
    spent = run.folder.with_suffix(".cpu.json")
    seconds = json.loads(spent.read_text()) if spent.is_file() else 0.0
    if (run.folder / "done").is_file():
        return ""
    command = [str(Path(sys.executable).with_name("entropy-lab")), "train", run.recipe, "--out", str(run.folder)]
    command += [part for change in run.changes() for part in ("--set", change)]
    command += ["--stop-on", f"sampled_tokens>={run.tokens}"] if load_recipe(run.recipe).start.fresh is None else []
    with run.folder.with_suffix(".log").open("w") as log:
        child = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "OMP_NUM_THREADS": "1"})
        _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    write_json(spent, seconds + used.ru_utime + used.ru_stime)
    if child.returncode not in (0, STOPPED):
        return f"{run.label} failed:\n{run.folder.with_suffix('.log').read_text(errors='replace')[-2000:]}"
    (run.folder / "done").touch()
    print(f"{run.label}: {(seconds + used.ru_utime + used.ru_stime) / 60:.1f} CPU minutes", flush=True)
    return ""


def _measured(run: MethodRun) -> dict[str, Any]:
    """The last checkpoint on fresh samples of more problems, and what the run was along its way."""
    checkpoint = str(max((run.folder / "checkpoints").glob("step-*")))
    steps = int(Path(checkpoint).name.removeprefix("step-"))
    row = next(row for row in read(run.folder / "metrics.jsonl") if row["step"] == steps)
    track = read_track(run.folder)
    columns = measure([checkpoint], run.runs, run.problems, run.samples)["columns"][checkpoint]
    return {
        "asked": run.asked,
        "recipe": run.recipe,
        "seed": run.seed,
        "steps": steps,
        "sampled tokens": row["sampled_tokens"],
        "CPU seconds": json.loads(run.folder.with_suffix(".cpu.json").read_text()),
        "shift ratio": shift_ratio(START, checkpoint, run.runs, min(100, run.problems)),
        "entropy area": entropy_area(track),
        "track": track_table(track),
        "by problem": {name: column.round(5) for name, column in columns.items()},
    }


def entropy_area(track: Track) -> float:
    """Mean token entropy along the run: the area under it over the run's steps, divided by their number; nats."""
    values = track.values["entropy.token_mean"]
    return float(np.trapezoid(values, track.steps_E) / (track.steps_E[-1] - track.steps_E[0]))


def track_table(track: Track) -> dict[str, Any]:
    return {
        "steps": track.steps_E.tolist(),
        "tokens": track.tokens_E.tolist(),
        "values": {name: track.values[name].tolist() for name in TRACKED},
    }


def track_of(result: Mapping[str, Any]) -> Track:
    """The evaluations of a stored result."""
    kept = result["track"]
    return Track(
        np.array(kept["steps"]),
        np.array(kept["tokens"], np.float64),
        {name: np.array(values, np.float64) for name, values in kept["values"].items()},
    )
