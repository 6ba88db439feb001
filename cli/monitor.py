"""`entropy-lab monitor`: watch a training log, of this or another trainer, for a collapse or an explosion."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .options import Json

if TYPE_CHECKING:
    from entropy_lab.workflows.monitor import Monitored

EXIT = {"pass": 0, "fail": 1, "not enough": 3}
BARS = "▁▂▃▄▅▆▇█"
WIDTH = 40


def monitor(
    log: Annotated[
        Path,
        typer.Argument(
            help="metrics.jsonl or other JSON lines, trainer_state.json, TensorBoard events, or a folder of these."
        ),
    ],
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=KEY", help="What the log calls entropy, reward or step; repeatable."),
    ] = None,
    first_step: Annotated[float, typer.Option(help="Where the early-drop rule begins.")] = 10,
    last_step: Annotated[float, typer.Option(help="Where it ends.")] = 150,
    drop: Annotated[float, typer.Option(min=0, max=1, help="Largest relative drop between them.")] = 0.5,
    follow: Annotated[bool, typer.Option("--follow", help="Read on as the log grows, until an alarm rings.")] = False,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks of --follow.")] = 5.0,
    json: Json = False,
) -> None:
    """Judge the entropy of a training run: early drop, collapse, explosion, and the ceiling of its reward.

    Exit codes: 0 pass, 1 an alarm rings, 2 wrong usage or broken input, 3 not enough logged yet.
    """
    from entropy_lab.monitoring.curves import read_keys
    from entropy_lab.workflows.monitor import MonitorPlan
    from entropy_lab.workflows.monitor import follow as watch
    from entropy_lab.workflows.monitor import monitor as look

    from .terminal import print_json

    plan = MonitorPlan(log, read_keys(key or []), first_step, last_step, drop)
    found: Monitored | None = None
    if follow:
        try:
            for found in watch(plan, every):
                sys.stderr.write(f"step {found.entropy.steps[-1]:g}: entropy {found.entropy.values[-1]:.4g}\n")
                sys.stderr.flush()
        except KeyboardInterrupt:
            if found is None:
                raise
    else:
        found = look(plan)
    if found is None:
        return
    if json:
        print_json(found.document())
    else:
        _show(found)
    raise typer.Exit(EXIT[found.verdict])


def _show(found: "Monitored") -> None:
    from rich.table import Table
    from rich.text import Text

    from .terminal import console

    out = console()
    for name, one in (("entropy", found.entropy), ("reward", found.reward)):
        if one is not None and len(one.steps):
            bars = _sparkline(one.values.tolist()) if out.encoding.lower().startswith("utf") else ""
            out.print(
                f"{name} ({one.key})  {one.values[0]:.4g} → {one.values[-1]:.4g}  steps {one.steps[0]:g} to "
                f"{one.steps[-1]:g}  {bars}",
                markup=False,
                soft_wrap=True,
            )
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in ("rule", "verdict", ""):
        table.add_column(column, overflow="fold")
    for alarm in found.alarms:
        style = {"fail": "bold red", "pass": "green"}.get(alarm.verdict, "yellow")
        table.add_row(alarm.name, Text(alarm.verdict, style=style), Text(alarm.said))
    out.print(table)
    law = found.ceiling
    if isinstance(law, str):
        out.print(f"ceiling law: {law}", markup=False)
    else:
        out.print(
            f"ceiling law R = −a·e^H + b: a {law.a.value:.4g} [{law.a.low:.4g}, {law.a.high:.4g}], "
            f"b {law.b.value:.4g} [{law.b.low:.4g}, {law.b.high:.4g}], "
            f"ceiling b − a {law.ceiling.value:.4g} [{law.ceiling.low:.4g}, {law.ceiling.high:.4g}], R² {law.r2:.2f}, "
            f"n {law.n}",
            markup=False,
            soft_wrap=True,
        )
    for note in found.notes:
        out.print(note, markup=False, soft_wrap=True)
    out.print(Text(f"verdict: {found.verdict}", style="bold"))


def _sparkline(values: list[float]) -> str:
    shown = values if len(values) <= WIDTH else [values[len(values) * place // WIDTH] for place in range(WIDTH)]
    low, high = min(shown), max(shown)
    scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(BARS[round((value - low) * scale)] for value in shown)
