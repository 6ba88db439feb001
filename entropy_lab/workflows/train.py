"""`train`: a recipe in; a run directory with checkpoints, metrics and rollouts out."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from entropy_lab.errors import InputError
from entropy_lab.files import write_bytes
from entropy_lab.progress import Progress, Silent
from entropy_lab.runs import open_run
from entropy_lab.tasks.loading import load_task
from entropy_lab.training import state
from entropy_lab.training.assembly import assemble, starting_checkpoint
from entropy_lab.training.loop import Loop, Trained
from entropy_lab.training.recipe import Recipe
from entropy_lab.training.recipe_files import dump_recipe
from entropy_lab.training.stopping import StopRule
from entropy_lab.training.trackers import open_trackers
from entropy_lab.training.view import SilentView, View
from entropy_lab.workflows.asked import chosen_problems, deciding_versions, task_settings
from entropy_lab.workflows.training_evaluation import Evaluator


def train(
    recipe: Recipe,
    out: Path | None = None,
    *,
    resume: bool = False,
    stop_on: Sequence[str] = (),
    view: View | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train by `recipe` in a run directory, continuing where an earlier run of the same recipe stopped.

    Leaves `recipe.toml` (every effective field), `metrics.jsonl` (one line an iteration), `evaluations/step-*.json`
    (metrics with intervals), `rollouts/part-*.parquet`, `checkpoints/step-*` and `checkpoints/<rung>`. With `resume`
    a run must be there to continue. `stop_on` holds rules such as `entropy.problem_mean<0.05`.

    Raises:
        InputError: anything wrong with recipe, checkpoint, task or run directory, or weights that diverge.
    """
    progress = progress or Silent()
    rules = [StopRule.parse(text) for text in stop_on]
    checkpoint = starting_checkpoint(recipe)
    progress.note(checkpoint.describe())
    task = load_task(recipe.data.task)
    problems = chosen_problems(task, recipe.data.problems)
    settings = {
        "recipe": recipe_settings(recipe),
        "fingerprint": checkpoint.fingerprint,
        "task": task_settings(task, recipe.data.task, len(problems)),
        "versions": deciding_versions(),
    }
    with open_run(f"train {recipe.name}", settings, out) as run:
        last = state.latest(run.folder)
        if resume and last is None:
            raise InputError(f"{run.folder} holds no checkpoint to continue from; leave --resume out to begin.")
        write_bytes(run.folder / "recipe.toml", dump_recipe(recipe).encode())
        parts = assemble(recipe, checkpoint, task, problems, run, progress)
        done = 0 if last is None else state.step_of(last)
        with view or SilentView() as shown, open_trackers(recipe, run.folder, done) as trackers:
            loop = Loop(
                recipe,
                parts,
                run.folder,
                evaluate=Evaluator(recipe) if recipe.evaluation.every else None,
                rules=rules,
                view=shown,
                trackers=trackers,
            )
            return loop.run(last)


def recipe_settings(recipe: Recipe) -> dict[str, Any]:
    """What of a recipe decides the weights; how many checkpoints stay and who is told do not."""
    tables = tomllib.loads(dump_recipe(recipe))
    for name in ("keep", "trackers"):
        tables.get("save", {}).pop(name, None)
    return tables
