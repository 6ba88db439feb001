"""`entropy-lab interpolate`: weights between an early and a late checkpoint, written once or measured on a grid."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Device, Dtype, EngineName, Json, PromptMode, Seed, TrustRemoteCode

if TYPE_CHECKING:
    from rich.table import Table

    from entropy_lab.interventions.checkpoint_pair import Cell


def interpolate(
    early: Annotated[
        str | None,
        typer.Argument(help="The checkpoint moved towards.", metavar="[EARLY]", show_default="builtin:sft-early"),
    ] = None,
    late: Annotated[
        str | None,
        typer.Argument(help="The checkpoint that the rest is of.", metavar="LATE", show_default="builtin:sft"),
    ] = None,
    layers: Annotated[
        str,
        typer.Option(help="Blocks START:STOP, counted from 0, STOP not included, as 0:2,2:4; global is all weights."),
    ] = "0:2,2:4",
    alpha: Annotated[
        str, typer.Option(help="Early's share in the block, from 0 to 1; several as .1,.3,.5.")
    ] = ".1,.3,.5",
    out: Annotated[
        Path | None,
        typer.Option(help="One cell: the checkpoint's folder. Several: the run directory [default: in runs/]."),
    ] = None,
    task: Annotated[str, typer.Option(help="What a grid is measured on, as for analyze checkpoint.")] = "countdown",
    problems: Annotated[int, typer.Option(min=1, help="How many problems, from the first.")] = 100,
    samples: Annotated[int, typer.Option(min=1, help="Trajectories a problem.")] = 64,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest completion, in tokens.")] = 512,
    temperature: Annotated[float, typer.Option(min=0, help="Divides the logits, sampling and scoring alike.")] = 1.0,
    engine: EngineName = "auto",
    prompt: PromptMode = "auto",
    device: Device = "auto",
    dtype: Dtype = "auto",
    trust_remote_code: TrustRemoteCode = False,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Write (1 − α)·late + α·early in a block of layers, or measure a grid of blocks and α.

    One block and one α write a checkpoint to --out. Several are sampled on the task together with both checkpoints;
    the arms that none other beats in both pass@1 and family coverage are marked.
    """
    from entropy_lab.errors import InputError
    from entropy_lab.workflows.interpolate import DEFAULT_EARLY, DEFAULT_LATE

    if early is not None and late is None:
        raise InputError(f"interpolate got one checkpoint ({early}); give both, EARLY and LATE.")
    pair = (early or DEFAULT_EARLY, late or DEFAULT_LATE)
    cells = _cells(layers, alpha)
    if len(cells) == 1:
        _write_one(*pair, cells[0], out, trust_remote_code, json)
        return
    from entropy_lab.engines.protocol import Sampling
    from entropy_lab.workflows.interpolate import InterpolatePlan, interpolate_grid

    from .terminal import TerminalProgress

    plan = InterpolatePlan(
        cells=cells,
        early=pair[0],
        late=pair[1],
        task=task,
        problems=problems,
        samples=samples,
        sampling=Sampling(temperature, max_new_tokens=max_new_tokens, seed=seed),
        engine=engine,
        prompt=prompt,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )
    _show(interpolate_grid(plan, out, TerminalProgress()), json)


def _cells(layers: str, alpha: str) -> "tuple[Cell, ...]":
    """Every block with every α, each pair once."""
    from entropy_lab.errors import InputError
    from entropy_lab.interventions.checkpoint_pair import Cell

    blocks: list[tuple[int, int] | None] = []
    for text in layers.split(","):
        start, colon, stop = text.strip().partition(":")
        if text.strip() == "global":
            blocks.append(None)
        elif colon and start.isdecimal() and stop.isdecimal():
            blocks.append((int(start), int(stop)))
        else:
            raise InputError(f"--layers has {text!r}; write START:STOP, as 2:4 (several as 0:2,2:4), or global.")
    alphas = []
    for text in alpha.split(","):
        try:
            alphas.append(float(text))
        except ValueError as error:
            raise InputError(f"--alpha has {text!r}; write numbers from 0 to 1 separated by commas.") from error
    return tuple(dict.fromkeys(Cell(block, share) for block in blocks for share in alphas))


def _write_one(early: str, late: str, cell: "Cell", out: Path | None, trust_remote_code: bool, json: bool) -> None:
    from entropy_lab.errors import InputError
    from entropy_lab.interventions.checkpoint_pair import open_pair
    from entropy_lab.interventions.interpolation import write_cell

    from .terminal import console, print_json

    if out is None:
        raise InputError(
            "One block and one alpha write a checkpoint: give its folder with --out, or several to measure."
        )
    folder = write_cell(open_pair(early, late, trust_remote_code), cell, out)
    if json:
        print_json({"checkpoint": str(folder), "early": early, "late": late, "layers": cell.block, "alpha": cell.alpha})
    else:
        console().print(f"checkpoint {folder}", markup=False, soft_wrap=True)


def _show(analysis: Any, json: bool) -> None:
    """The cells with their marks for a person; or the metrics and the cells as one JSON document."""
    from .terminal import console, document, print_json

    settings = analysis.diagnosis.settings
    if json:
        print_json({**document(analysis), "cells": settings["cells"], "ends": settings["ends"]})
        return
    out = console()
    out.print(analysis.diagnosis.title, style="bold", markup=False)
    out.print(_table(analysis))
    for note in analysis.diagnosis.notes:
        out.print(f"Note: {note}", markup=False)
    out.print(f"report {analysis.report}", markup=False, soft_wrap=True)


def _table(analysis: Any) -> "Table":
    """Each arm with pass@1, breadth, n and its mark; below it the difference from late, paired by problem."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from entropy_lab.reports.names import metric_name
    from entropy_lab.reports.visible import short_name
    from entropy_lab.reports.wording import parts

    settings = analysis.diagnosis.settings
    (late, early), (accuracy, breadth) = settings["ends"], settings["axes"]
    of = {(metric.checkpoint, metric.metric): metric for metric in analysis.metrics}
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(Text("arm"), overflow="fold", max_width=17)
    for heading in (accuracy, metric_name(breadth, analysis.diagnosis.early_tokens), "n", "front"):
        table.add_column(Text(heading), justify="right", no_wrap=True)

    def add(label: str, found: list[Any], mark: str) -> None:
        counts = dict.fromkeys(str(metric.n) for metric in found)
        table.add_row(
            *(Text(cell) for cell in (label, *(" ".join(parts(metric)) for metric in found), "/".join(counts), mark))
        )

    for row in (late, early, *settings["cells"]):
        name = row["name"]
        add(short_name(name, 34), [of[name, axis] for axis in (accuracy, breadth)], "yes" if row["pareto"] else "")
        if name != late["name"]:
            pair = f"{name} - {late['name']}"
            add("  − late", [of[pair, f"difference.{axis}"] for axis in (accuracy, breadth)], "")
    return table
