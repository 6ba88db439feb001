"""The training runs of `collapse_in_a_bottle.py`: which recipes with which changes, run some at a time, resumable."""

import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from entropy_lab.errors import InputError
from entropy_lab.files import write_json
from entropy_lab.training.recipe_files import dump_recipe, load_recipe

START = "builtin:sft"
SUPERVISED_STEPS = 100
SUPERVISED_RATE = 2e-4
"""Where the schedule that made the start ended, so that more of the same teaching goes on at the same pace (ours)."""


@dataclass(frozen=True)
class BottleRun:
    """One recipe × seed: what is trained, and where."""

    recipe: str
    name: str
    seed: int
    steps: int
    overrides: tuple[str, ...]
    folder: Path

    @property
    def label(self) -> str:
        return self.folder.name

    def finished(self) -> bool:
        """Whether the last step's checkpoint is there; it is written last.

        Raises:
            InputError: the directory holds another recipe.
        """
        if not (self.folder / "checkpoints" / f"step-{self.steps:05d}" / "config.json").is_file():
            return False
        written = (self.folder / "recipe.toml").read_text(encoding="utf-8")
        if written != dump_recipe(load_recipe(self.recipe, self.overrides)):
            raise InputError(f"{self.folder} holds a finished run of another recipe; give another --out.")
        return True


def bottle_run(
    recipe: str, seed: int, steps: int | None, evaluations: int, overrides: list[str], out: Path
) -> BottleRun:
    """The recipe from `builtin:sft`, evaluated and kept so many times at equal distances.

    It takes its own number of steps unless `steps` says otherwise. A recipe that begins with a fresh model goes on from
    the start instead, `SUPERVISED_STEPS` steps at a low constant learning rate.

    Raises:
        InputError: no such recipe, or a change that it does not take.
    """
    shipped = load_recipe(recipe)
    steps = steps or (shipped.steps if shipped.start.fresh is None else SUPERVISED_STEPS)
    every = max(1, steps // evaluations)
    kept = sorted({*range(every, steps + 1, every), steps})
    changes = [
        f"steps={steps}",
        f"seed={seed}",
        f'start={{checkpoint = "{START}"}}',
        f"evaluation.every={every}",
        f"save.every={every}",
        f"save.rungs={{{', '.join(f'at-{step} = {step}' for step in kept)}}}",
        "save.rollouts_every=0",
        "save.trackers=[]",
    ]
    if shipped.start.fresh is not None:
        changes.append(f"optimizer={{learning_rate = {SUPERVISED_RATE}}}")
    every_change = (*changes, *overrides)
    load_recipe(recipe, every_change)  # what is wrong shows before anything trains
    return BottleRun(recipe, shipped.name, seed, steps, every_change, (out / f"{shipped.name}-{seed}").resolve())


def train_all(runs: list[BottleRun], jobs: int, minutes_file: Path) -> dict[str, float]:
    """Train what is not finished, `jobs` at a time on one thread each; gives minutes by run, interrupted ones summed.

    Raises:
        SystemExit: a run failed; the others are finished first.
    """
    minutes = json.loads(minutes_file.read_text()) if minutes_file.is_file() else {}
    waiting = [run for run in runs if not run.finished()]
    lock = Lock()

    def one(run: BottleRun) -> bool:
        run.folder.parent.mkdir(parents=True, exist_ok=True)
        command = [str(Path(sys.executable).with_name("entropy-lab")), "train"]
        command += ["--recipe", run.recipe] if run.recipe.endswith(".toml") else [run.recipe]
        command += ["--out", str(run.folder), *(part for change in run.overrides for part in ("--set", change))]
        began = time.monotonic()
        try:
            with run.folder.with_suffix(".log").open("w") as log:
                done = subprocess.run(
                    command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, "OMP_NUM_THREADS": "1"}
                )
        finally:
            with lock:
                minutes[run.label] = minutes.get(run.label, 0.0) + (time.monotonic() - began) / 60
                write_json(minutes_file, minutes)
        print(f"{run.label}: {minutes[run.label]:.1f} minutes" + (" FAILED" if done.returncode else ""), flush=True)
        return done.returncode == 0

    with ThreadPoolExecutor(jobs) as pool:
        well = list(pool.map(one, waiting))
    failed = [run for run, good in zip(waiting, well, strict=True) if not good]
    for run in failed:
        tail = run.folder.with_suffix(".log").read_text(errors="replace")[-2000:]
        print(f"\n{run.label} failed:\n{tail}", file=sys.stderr)
    if failed:
        sys.exit(1)
    return {run.label: minutes.get(run.label, float("nan")) for run in runs}
