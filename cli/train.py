"""`entropy-lab train`: run a recipe."""

from pathlib import Path
from typing import Annotated

import typer

from .options import Json, Out

app = typer.Typer(help="Train by a recipe.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def sft(
    recipe: Annotated[Path | None, typer.Option(help="A recipe file instead of the one shipped as `sft`.")] = None,
    out: Out = None,
    json: Json = False,
) -> None:
    """Supervised training of the embedded ladder's first rungs; run it again to continue."""
    from entropy_lab.training.recipe import load_recipe
    from entropy_lab.training.supervised import train_supervised

    from .terminal import TerminalProgress, console, print_json

    chosen = load_recipe(recipe if recipe is not None else "sft")
    folder = out or Path("runs") / f"train-{chosen.name}"
    rungs = train_supervised(chosen, folder, TerminalProgress())
    if json:
        print_json({"out": str(folder), "rungs": [str(rung) for rung in rungs]})
    else:
        console().print("\n".join(f"checkpoint {rung}" for rung in rungs), markup=False)
