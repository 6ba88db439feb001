"""`train` of a pipeline: its stages one after another for every seed, then all boundaries in one table and page."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from entropy_lab.progress import Progress, Silent
from entropy_lab.runs import open_run
from entropy_lab.training.pipeline import Pipeline, Stage
from entropy_lab.training.recipe import Recipe
from entropy_lab.training.recipe_files import dump_recipe
from entropy_lab.training.view import View
from entropy_lab.workflows.asked import deciding_versions
from entropy_lab.workflows.outcome import Analysis
from entropy_lab.workflows.pipeline_boundaries import Boundary, measure_boundary
from entropy_lab.workflows.pipeline_table import Key, label_of, publish_pipeline
from entropy_lab.workflows.train import train

START = "start"


@dataclass(frozen=True)
class Ran:
    """One stage of one seed: where it is, the boundary that it began from, and its recipe."""

    stage: Stage
    seed: int
    recipe: Recipe
    folder: Path
    begins: str

    @property
    def checkpoint(self) -> Path:
        """Its last checkpoint."""
        return self.folder / "checkpoints" / f"step-{self.recipe.steps:05d}"

    @property
    def asks_policy(self) -> bool:
        """Whether it learned from its own samples."""
        return self.recipe.exploration.asks_policy


def run_pipeline(
    pipeline: Pipeline, out: Path | None = None, *, view: Callable[[], View], progress: Progress | None = None
) -> Analysis:
    """Train what is not yet trained, measure every boundary, and tell what changed along the way.

    Stages are ordinary training runs in `seed-<seed>/<stage>/`; a finished one is not run again, and a killed one
    continues. `boundaries/` holds what was measured at each.

    Raises:
        InputError: anything wrong with a stage's recipe, checkpoint or task.
    """
    progress = progress or Silent()
    settings = {"pipeline": pipeline.model_dump(mode="json"), "versions": deciding_versions()}
    with open_run(f"train {pipeline.name}", settings, out) as run:
        ran = [one for seed in pipeline.seeds for one in _stages(pipeline, seed, run.folder, view, progress)]
        boundaries = _boundaries(pipeline, ran, run.folder, progress)
        return publish_pipeline(run, pipeline, ran, boundaries, progress)


def _stages(pipeline: Pipeline, seed: int, folder: Path, view: Callable[[], View], progress: Progress) -> list[Ran]:
    done: dict[str, Ran] = {}
    for stage in pipeline.stages:
        after = pipeline.begins_after(stage)
        checkpoint = None
        if after is not None:
            before, _, rung = after.partition("/")
            checkpoint = done[before].folder / "checkpoints" / rung if rung else done[before].checkpoint
        recipe = pipeline.recipe_of(stage, seed, None if checkpoint is None else str(checkpoint))
        one = Ran(stage, seed, recipe, folder / f"seed-{seed}" / stage.name, after or START)
        if not _finished(one):
            progress.note(f"seed {seed}, stage {stage.name}: {recipe.name}, {recipe.steps} steps")
            train(recipe, one.folder, view=view(), progress=progress)
        done[stage.name] = one
    return list(done.values())


def _finished(one: Ran) -> bool:
    """Whether its last checkpoint, which is written last, is there; a run of another recipe is refused by `train`."""
    written = one.folder / "recipe.toml"
    return (
        (one.checkpoint / "config.json").is_file()
        and written.is_file()
        and written.read_text(encoding="utf-8") == dump_recipe(one.recipe)
    )


def _boundaries(pipeline: Pipeline, ran: list[Ran], folder: Path, progress: Progress) -> dict[Key, Boundary]:
    """What was measured of each (seed, boundary, task); boundaries in the order in which they were reached.

    A stage that begins with a fresh model has no beginning worth measuring.
    """
    wanted: dict[tuple[int, str], tuple[str, Recipe]] = {}
    for one in ran:
        if one.recipe.start.fresh is None:
            wanted.setdefault((one.seed, one.begins), (one.recipe.start.checkpoint, one.recipe))
        wanted.setdefault((one.seed, one.stage.name), (str(one.checkpoint), one.recipe))
    settings = pipeline.boundaries
    found = {}
    with progress.stage("measure boundaries", len(wanted) * len(settings.tasks), "boundary") as stage:
        for (seed, name), (checkpoint, recipe) in wanted.items():
            for task in settings.tasks:
                key = (seed, name, task)
                kept = folder / "boundaries" / f"seed-{seed} {name.replace('/', ' ')} {Path(task).name}.json"
                found[key] = measure_boundary(checkpoint, task, label_of(pipeline, *key), recipe, settings, kept)
                stage.advance()
    return found
