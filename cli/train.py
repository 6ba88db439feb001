"""`entropy-lab train`: run a recipe, or list the recipes and the pieces that they are put together from."""

from collections.abc import Mapping, Sequence
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Json, Out

if TYPE_CHECKING:
    from rich.console import RenderableType

    from entropy_lab.training.loop import Trained
    from entropy_lab.training.recipe import Recipe

STOPPED = 4
"""Exit code of a run that a stop rule ended."""

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a field, as optimizer.learning_rate=1e-4; repeatable."),
]
Rules = Annotated[
    list[str] | None,
    typer.Option(
        "--stop-on", metavar="RULE", help='End a run, as "entropy.problem_mean<0.05" (exit code 4); repeatable.'
    ),
]


def train(
    name: Annotated[str | None, typer.Argument(help="A recipe shipped with the package.", metavar="[RECIPE]")] = None,
    recipe: Annotated[Path | None, typer.Option(help="A recipe file (.toml) of your own.")] = None,
    overrides: Overrides = None,
    checkpoint: Annotated[str | None, typer.Option(help="What to begin from: sets start.checkpoint.")] = None,
    task: Annotated[str | None, typer.Option(help="What to train on: sets data.task.")] = None,
    steps: Annotated[int | None, typer.Option(help="Iterations: sets steps.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random draws: sets seed.")] = None,
    keep: Annotated[int | None, typer.Option(help="Checkpoints that stay: sets save.keep.")] = None,
    stop_on: Rules = None,
    resume: Annotated[bool, typer.Option("--resume", help="Only continue a run; refuse to begin one.")] = False,
    out: Out = None,
    list_: Annotated[bool, typer.Option("--list", help="List recipes and pieces, and train nothing.")] = False,
    json: Json = False,
) -> None:
    """Train by a recipe; the same command continues an interrupted run.

    Exit codes: 0 trained to the last step, 2 wrong usage or broken input, 4 stopped by a rule of --stop-on.
    """
    if list_:
        _list(json)
        return
    from entropy_lab.training.pipeline import is_pipeline
    from entropy_lab.training.recipe_files import load_recipe
    from entropy_lab.training.stopping import StopRule

    source = _source(name, recipe)
    if is_pipeline(source):
        refused = {"--task": task, "--steps": steps, "--keep": keep, "--stop-on": stop_on, "--resume": resume or None}
        _pipeline(source, overrides or [], checkpoint, seed, refused, out, json)
        return
    shorthands = {
        "start.checkpoint": checkpoint,
        "data.task": task,
        "steps": steps,
        "seed": seed,
        "save.keep": keep,
    }
    given = [f"{field}={_toml(value)}" for field, value in shorthands.items() if value is not None]
    chosen = load_recipe(source, [*(overrides or ()), *given])
    _check(chosen, checkpoint, [StopRule.parse(rule) for rule in stop_on or ()])
    from entropy_lab.workflows.train import train as run

    from .training_view import TrainingView

    view = TrainingView()
    trained = run(chosen, out, resume=resume, stop_on=stop_on or (), view=view, progress=view)
    _show(chosen, trained, json)
    if trained.stopped is not None:
        raise typer.Exit(STOPPED)


def _pipeline(
    source: str | Path,
    overrides: list[str],
    checkpoint: str | None,
    seed: int | None,
    refused: Mapping[str, object],
    out: Path | None,
    json: bool,
) -> None:
    """Run the stages of a pipeline, each under a view of its own, and show its boundaries."""
    from entropy_lab.errors import InputError
    from entropy_lab.training.pipeline import load_pipeline
    from entropy_lab.workflows.pipeline import run_pipeline

    from .pipeline_view import show_pipeline
    from .terminal import document, print_json
    from .training_view import TrainingView

    given = next((option for option, value in refused.items() if value is not None), None)
    if given is not None:
        raise InputError(f"{source} is a pipeline of stages, and takes no {given}; use --set STAGE.FIELD=VALUE.")
    if checkpoint is not None:
        first = load_pipeline(source).stages[0].name
        overrides = [*overrides, f"{first}.start={{checkpoint = {_toml(checkpoint)}}}"]
    if seed is not None:
        overrides = [*overrides, f"seeds=[{seed}]"]
    pipeline = load_pipeline(source, overrides)
    analysis = run_pipeline(pipeline, out, view=TrainingView, progress=TrainingView())
    if json:
        print_json(document(analysis))
    else:
        show_pipeline(analysis)


def _source(name: str | None, recipe: Path | None) -> str | Path:
    from entropy_lab.errors import InputError
    from entropy_lab.training.recipe_files import shipped_names

    if name is not None and recipe is not None:
        raise InputError(f"train got the recipe {name} and --recipe {recipe}; give one of them.")
    source = name if name is not None else recipe
    if source is None:
        raise InputError(f"train needs a recipe: {', '.join(shipped_names())}, or --recipe FILE; --list tells more.")
    if recipe is not None and recipe.suffix != ".toml":
        raise InputError(f"--recipe {recipe} is no .toml file; shipped recipes are named without --recipe.")
    return source


def _toml(value: str | int) -> str:
    """A value as TOML; a string always as a string, even where it looks like a number."""
    return dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _check(recipe: "Recipe", checkpoint: str | None, rules: Sequence[Any]) -> None:
    """Refuse what would be ignored without a word."""
    from entropy_lab.errors import InputError

    if checkpoint is not None and recipe.start.fresh is not None:
        raise InputError(
            f"--checkpoint {checkpoint} has no place in recipe {recipe.name}, which begins from a fresh model "
            "(start.fresh); leave it out, or give a recipe file without [start.fresh]."
        )
    evaluated = [rule for rule in rules if rule.evaluated]
    if evaluated and not recipe.evaluation.every:
        raise InputError(f"--stop-on {evaluated[0]} looks at evaluations, and evaluation.every is 0; set it.")


def _show(recipe: "Recipe", trained: "Trained", json: bool) -> None:
    """The run's last numbers and checkpoints on stdout."""
    from entropy_lab.training.metrics_log import read

    from .terminal import console, print_json
    from .training_view import Seen

    rows = read(trained.folder / "metrics.jsonl")
    if json:
        print_json(
            {
                "run": str(trained.folder),
                "recipe": recipe.name,
                "step": trained.step,
                "steps": recipe.steps,
                "stopped": trained.stopped,
                "checkpoints": [str(path) for path in trained.checkpoints],
                "metrics": rows[-1] if rows else {},
            }
        )
        return
    seen = Seen()
    for row in rows:
        seen.add({name: value for name, value in row.items() if name != "notes"})
    out = console()
    ending = f", stopped by {trained.stopped}" if trained.stopped is not None else ""
    out.print(f"{recipe.name}: {trained.step} of {recipe.steps} steps{ending}", style="bold", markup=False)
    out.print(seen.table(out.encoding.lower().startswith("utf")))
    for path in trained.checkpoints:
        out.print(f"checkpoint {path}", markup=False, soft_wrap=True)
    out.print(f"run {trained.folder}", markup=False, soft_wrap=True)


def _list(json: bool) -> None:
    from entropy_lab.training.recipe_files import catalogue

    from .terminal import console, print_json

    found = catalogue()
    if json:
        print_json(found)
        return
    out = console()
    for block in _listing(found):
        out.print(block)


def _listing(found: Mapping[str, Any]) -> "list[RenderableType]":
    """Recipes with what they are made of, then the pieces of each kind with their fields and defaults."""
    from rich.table import Table
    from rich.text import Text

    blocks: list[RenderableType] = [Text("recipes", style="bold")]

    def add(table: Table, name: str, *lines: str) -> None:
        table.add_row(Text(name, style="bold"), Text("\n".join(line for line in lines if line)))

    table = _two_columns()
    for entry in found["recipes"]:
        if "stages" in entry:
            add(table, entry["name"], entry["summary"], f"{entry['steps']} steps: {' → '.join(entry['stages'])}")
            continue
        made = [entry[section] for section in ("exploration", "advantage", "objective", "penalties", "controllers")]
        pieces = [piece for part in made for piece in (part if isinstance(part, list) else [part])]
        add(table, entry["name"], entry["summary"], f"{entry['steps']} steps: {' → '.join(pieces)}")
    blocks.append(table)
    for kind, entries in found["pieces"].items():
        blocks += [Text(f"\n{kind}", style="bold"), table := _two_columns()]
        for entry in entries:
            fields = ", ".join(_field(name, field) for name, field in entry["fields"].items())
            add(table, entry["name"], entry["summary"], fields)
    blocks.append(Text("\nAny field can be changed: --set optimizer.learning_rate=1e-4, --set exploration.prompts=8"))
    return blocks


def _two_columns() -> Any:
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _field(name: str, field: Mapping[str, Any]) -> str:
    """`low = 0.2`, or `limit (int, required)`."""
    return f"{name} = {_value(field['default'])}" if "default" in field else f"{name} ({field['type']}, required)"


def _value(default: object) -> str:
    return "none" if default is None else dumps(default, ensure_ascii=False, default=str)
