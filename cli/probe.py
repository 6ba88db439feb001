"""`entropy-lab probe`: measurements of the machinery itself, on a checkpoint's own trajectories."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Device, Json, Out, PromptMode, Seed, TrustRemoteCode

if TYPE_CHECKING:
    from rich.table import Table

    from entropy_lab.workflows.outcome import Analysis
    from entropy_lab.workflows.probe_numerics import Probe

app = typer.Typer(
    help="Measure number formats, and what an update does to entropy.", no_args_is_help=True, rich_markup_mode=None
)

SECTIONS = {
    "ratio": "Importance ratio r: bias E[r_obs/r] − 1, theory; |r − 1| of identical weights",
    "clip": "Clip decisions unlike those of float32, and what the upper clip rate gains",
    "softmax": "Tokens so certain that float32 loses their gradient (softmax_fix keeps it)",
    "gap": "Log-prob of the sampler against a teacher-forced pass, by the pass's format",
}

CHANGES = {
    "change.predicted": "predicted to first order",
    "change.measured": "measured",
    "change.ratio": "predicted ÷ measured",
    "change.error": "Σ|predicted − measured| ÷ Σ|measured|",
    "correlation.predicted": "correlation a token, first order",
    "correlation.tabular": "correlation a token, tabular law",
    "boundary.below": "boundary s* lies below H by",
}
COLUMNS = ("tokens", "advantage", "tabular_share", "predicted", "measured", "measured_share")


@app.command()
def numerics(
    checkpoint: Annotated[
        str, typer.Argument(help="builtin:NAME, a folder, a .gguf file or a hub id.", metavar="[CHECKPOINT]")
    ] = "builtin:sft",
    task: Annotated[
        str, typer.Option(help="countdown, a .jsonl or .parquet of problems, a hub set, or path/to/file.py:Name.")
    ] = "countdown",
    problems: Annotated[int, typer.Option(min=1, help="How many problems, from the first.")] = 16,
    samples: Annotated[int, typer.Option(min=1, help="Trajectories a problem.")] = 8,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest completion, in tokens.")] = 512,
    prompt: PromptMode = "auto",
    device: Device = "auto",
    trust_remote_code: TrustRemoteCode = False,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Measure what bfloat16 and float16 do to importance ratios, clip decisions and log-probs of a checkpoint."""
    from entropy_lab.engines.protocol import Sampling
    from entropy_lab.workflows.probe_numerics import ProbePlan, probe_numerics

    from .terminal import TerminalProgress, print_json

    plan = ProbePlan(
        checkpoint=checkpoint,
        task=task,
        problems=problems,
        samples=samples,
        sampling=Sampling(max_new_tokens=max_new_tokens, seed=seed),
        prompt=prompt,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    found = probe_numerics(plan, out, TerminalProgress())
    if json:
        print_json(document(found))
    else:
        show(found)


def document(found: "Probe") -> dict[str, Any]:
    """What `--json` prints."""
    return {"run": str(found.folder), "metrics": [asdict(metric) for metric in found.metrics]}


def show(found: "Probe") -> None:
    """The metrics in sections for a person; notes stay in metrics.json."""
    from .terminal import console

    out = console()
    out.print(f"{found.trajectories:,} trajectories, {found.tokens:,} tokens", markup=False)
    for section, caption in SECTIONS.items():
        out.print()
        out.print(caption, markup=False, style="bold")
        out.print(_table(found, section))
    out.print("Intervals are 95% over problems; what each number is: the notes in metrics.json", markup=False)
    out.print(f"run {found.folder}", markup=False, soft_wrap=True)


def _table(found: "Probe", section: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from entropy_lab.reports.wording import parts, spoken_unit

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("metric", overflow="fold")
    for heading in ("value", "interval", "n"):
        table.add_column(heading, justify="right", no_wrap=True)
    for metric in found.metrics:
        name = metric.metric.removeprefix(f"{section}.")
        if name != metric.metric:
            value, interval = parts(metric)
            table.add_row(*map(Text, (name, value + spoken_unit(metric.unit), interval, f"{metric.n:,}")))
    return table


@app.command()
def entropy_change(
    checkpoint: Annotated[
        str, typer.Argument(help="builtin:NAME, a folder, a .gguf file or a hub id.", metavar="[CHECKPOINT]")
    ] = "builtin:sft",
    recipe: Annotated[
        str, typer.Option(help="Whose loss the step is on: a shipped recipe, or a .toml file of your own.")
    ] = "grpo",
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a field of the recipe; repeatable."),
    ] = None,
    rollouts: Annotated[
        Path | None, typer.Option(help="Stored rollouts in place of new ones: a run, a .parquet or .jsonl file.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="What is asked [default: the recipe's].")] = None,
    problems: Annotated[int | None, typer.Option(min=1, help="Problems [default: the recipe's, or all].")] = None,
    samples: Annotated[
        int | None, typer.Option(min=1, help="Trajectories a problem [default: the recipe's, or all].")
    ] = None,
    learning_rate: Annotated[float, typer.Option(help="η of the plain gradient step.")] = 5e-4,
    device: Device = "auto",
    trust_remote_code: TrustRemoteCode = False,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Predict how one small step of a recipe changes each token's entropy, take it, compare, and take it back."""
    from entropy_lab.workflows.probe_entropy_change import EntropyPlan, probe_entropy_change

    from .terminal import TerminalProgress, print_json
    from .terminal import document as of_analysis

    plan = EntropyPlan(
        checkpoint=checkpoint,
        recipe=recipe,
        overrides=tuple(overrides or ()),
        rollouts=rollouts,
        task=task,
        problems=problems,
        samples=samples,
        learning_rate=learning_rate,
        seed=seed,
        device=device,
        trust_remote_code=trust_remote_code,
    )
    found = probe_entropy_change(plan, out, TerminalProgress())
    if json:
        print_json(of_analysis(found))
    else:
        show_change(found)


def show_change(found: "Analysis") -> None:
    """Totals and the table of quadrants for a person."""
    from entropy_lab.diagnostics.entropy_change import QUADRANTS
    from entropy_lab.reports.wording import number, parts, spoken_unit
    from entropy_lab.workflows.probe_entropy_figures import SPOKEN

    from .terminal import console

    of = {metric.metric: metric for metric in found.metrics}
    out = console()
    out.print(found.diagnosis.title, markup=False, style="bold")
    out.print(found.diagnosis.notes[0], markup=False)
    out.print()
    out.print("Change of the mean entropy, and how well it was predicted", markup=False, style="bold")
    table = _grid("", "value", "interval")
    for name, spoken in CHANGES.items():
        value, interval = parts(of[name])
        table.add_row(spoken, value + spoken_unit(of[name].unit), interval)
    out.print(table)
    out.print()
    out.print(
        "By quadrant: A the advantage, s the surprisal, s* where the law changes sign", markup=False, style="bold"
    )
    table = _grid("quadrant", "tokens", "mean A", "law", "first order", "measured", "share")
    for quadrant in QUADRANTS:
        own = {what: of[f"quadrant.{quadrant}.{what}"] for what in COLUMNS}
        cells = (number(own[what].value) for what in COLUMNS)
        table.add_row(SPOKEN[quadrant], *cells)
    out.print(table)
    out.print("law, share: of the change, sign kept; first order, measured: nats a token", markup=False)
    out.print("Intervals are 95% over problems; those of the quadrants: metrics.json", markup=False)
    out.print(f"report {found.report}", markup=False, soft_wrap=True)


def _grid(*headings: str) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="right" if place else "left", no_wrap=True)
    return table
