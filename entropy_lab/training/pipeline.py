"""A pipeline: training runs that begin where others ended, as one TOML file of stages."""

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from entropy_lab.errors import InputError
from entropy_lab.training.piece import Section
from entropy_lab.training.recipe import Positive, Recipe, RungName
from entropy_lab.training.recipe_fields import suggestion
from entropy_lab.training.recipe_files import checked, load_recipe, recipe_text, value_of

STAGES = "stages"


class Stage(Section):
    """One training run: a recipe with changes, from where another stage ended or from the recipe's own start."""

    name: RungName
    recipe: str
    """A shipped recipe or a .toml file."""
    set: tuple[str, ...] = ()
    """Changes of the recipe, as `--set` takes them."""
    after: str | None = None
    """`STAGE` or `STAGE/RUNG`; without it the stage before, and the first begins as its recipe says."""


class Boundaries(Section):
    """How every checkpoint between stages is measured, each on the same problems with the same draws."""

    tasks: Annotated[tuple[str, ...], Field(min_length=1)] = ("countdown",)
    problems: Positive = 80
    samples: Positive = 32
    group: Positive = 8
    """Group size g of the numbers about what groups can teach."""


class Pipeline(Section):
    """Stages in order, run once for each seed."""

    name: RungName
    seeds: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] = (0,)
    stages: Annotated[tuple[Stage, ...], Field(min_length=1)]
    boundaries: Boundaries = Boundaries()

    @model_validator(mode="after")
    def _stages_follow(self) -> Self:
        names = [stage.name for stage in self.stages]
        twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
        if twice is not None:
            raise ValueError(f"two stages are called {twice}; give each its own name")
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError("a seed is named twice")
        for place, stage in enumerate(self.stages):
            before = stage.after.partition("/")[0] if stage.after is not None else None
            if before is not None and before not in names[:place]:
                raise ValueError(f"stage {stage.name} begins after {before!r}, which is no stage before it")
        return self

    def begins_after(self, stage: Stage) -> str | None:
        """`STAGE` or `STAGE/RUNG` whose checkpoint a stage begins from."""
        place = self.stages.index(stage)
        return stage.after or (self.stages[place - 1].name if place else None)

    def recipe_of(self, stage: Stage, seed: int, checkpoint: str | None) -> Recipe:
        """A stage's recipe, from `checkpoint` where that is given."""
        start = [] if checkpoint is None else [f"start={{checkpoint = {value_of(checkpoint)}}}"]
        return load_recipe(stage.recipe, [*stage.set, f"seed={seed}", *start])


def is_pipeline(source: str | Path) -> bool:
    """Whether a recipe file or shipped name holds stages."""
    try:
        return STAGES in tomllib.loads(recipe_text(source))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
        return False


def load_pipeline(source: str | Path, overrides: Sequence[str] = ()) -> Pipeline:
    """Read a pipeline; an override `STAGE.FIELD=VALUE` changes that stage's recipe, others `seeds` or `boundaries.…`.

    Every stage's recipe is read, so that what is wrong is said before anything trains.

    Raises:
        InputError: no such file, or a field that is unknown or out of range, here or in a stage's recipe.
    """
    tables: dict[str, Any] = tomllib.loads(recipe_text(source))
    stages = {str(stage.get("name")): stage for stage in tables.get(STAGES, []) if isinstance(stage, dict)}
    for override in overrides:
        key, equals, text = override.partition("=")
        first, _, rest = key.strip().partition(".")
        if not equals:
            raise InputError(f"--set {override}: write KEY=VALUE.")
        if first in stages and rest:
            stages[first]["set"] = [*stages[first].get("set", []), f"{rest}={text}"]
        elif first == "boundaries" and rest in Boundaries.model_fields:
            tables.setdefault("boundaries", {})[rest] = _parsed(text)
        elif key.strip() == "seeds":
            tables["seeds"] = _parsed(text)
        else:
            known = [
                *(f"{name}.FIELD" for name in stages),
                "seeds",
                *(f"boundaries.{n}" for n in Boundaries.model_fields),
            ]
            raise InputError(f"Pipeline {source}: --set {override}: {suggestion(key.strip(), known)}")
    try:
        pipeline = checked(Pipeline, tables)
        for stage in pipeline.stages:
            _check(pipeline, stage)
    except InputError as error:
        raise InputError(f"Pipeline {source}: {error}") from error
    return pipeline


def _check(pipeline: Pipeline, stage: Stage) -> None:
    """A stage's recipe loads, and the rung it begins from will be kept by then."""
    after = pipeline.begins_after(stage)
    pipeline.recipe_of(stage, pipeline.seeds[0], None if after is None else "builtin:sft")
    if after is not None and "/" in after:
        before, _, rung = after.partition("/")
        earlier = next(one for one in pipeline.stages if one.name == before)
        recipe = pipeline.recipe_of(earlier, pipeline.seeds[0], None)
        kept = {name for name, step in recipe.save.rungs.items() if step <= recipe.steps}
        if rung not in kept:
            raise InputError(f"stage {stage.name} begins at {after}; {suggestion(rung, sorted(kept))}")


def _parsed(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
