"""`entropy-lab probe`: measurements of the machinery itself, on a checkpoint's own trajectories."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import Device, Json, Out, PromptMode, Seed, TrustRemoteCode

if TYPE_CHECKING:
    from rich.table import Table

    from entropy_lab.workflows.probe_numerics import Probe

app = typer.Typer(help="Measure the number formats a run would use.", no_args_is_help=True, rich_markup_mode=None)

SECTIONS = {
    "ratio": "Importance ratio r: bias E[r_obs/r] − 1, theory; |r − 1| of identical weights",
    "clip": "Clip decisions unlike those of float32, and what the upper clip rate gains",
    "softmax": "Tokens so certain that float32 loses their gradient (softmax_fix keeps it)",
    "gap": "Log-prob of the sampler against a teacher-forced pass, by the pass's format",
}


@app.callback()
def probe() -> None:
    """Keep `numerics` a command of its own name."""


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
