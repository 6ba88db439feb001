"""`entropy-lab analyze`: a checkpoint, or rollouts made elsewhere, in; a diagnosis out."""

from pathlib import Path
from typing import Annotated, Any

import typer

from .options import Device, Dtype, EngineName, Json, Ks, MaskUnused, Out, PromptMode, Seed, TrustRemoteCode, chosen_ks

app = typer.Typer(help="Measure entropy, decision points and pass@k.", no_args_is_help=True, rich_markup_mode=None)

RuleName = Annotated[
    str, typer.Option("--decisions", help="How decision points are picked: quantile, top-k, threshold, low-logprob.")
]
RuleValue = Annotated[
    float | None, typer.Option("--decisions-at", help="The rule's quantile, count or nats [default: 0.8, 4, 0.693, 4].")
]


@app.command()
def checkpoint(
    checkpoint: Annotated[
        str, typer.Argument(help="builtin:NAME, a folder, a .gguf file or a hub id.", metavar="[CHECKPOINT]")
    ] = "builtin:sft",
    against: Annotated[str | None, typer.Option(help="A second checkpoint, compared problem by problem.")] = None,
    task: Annotated[
        str, typer.Option(help="countdown, a .jsonl or .parquet of problems, a hub set, or path/to/file.py:Name.")
    ] = "countdown",
    problems: Annotated[int, typer.Option(min=1, help="How many problems, from the first.")] = 100,
    samples: Annotated[int, typer.Option(min=1, help="Trajectories a problem.")] = 16,
    k: Ks = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest completion, in tokens.")] = 512,
    temperature: Annotated[float, typer.Option(min=0, help="Divides the logits, sampling and scoring alike.")] = 1.0,
    top_p: Annotated[float, typer.Option(help="Keep the likeliest tokens of this mass; 1 keeps all.")] = 1.0,
    top_k: Annotated[int, typer.Option(min=0, help="Keep this many likeliest tokens; 0 keeps all.")] = 0,
    mask_unused: MaskUnused = False,
    decisions: RuleName = "quantile",
    decisions_at: RuleValue = None,
    engine: EngineName = "auto",
    prompt: PromptMode = "auto",
    device: Device = "auto",
    dtype: Dtype = "auto",
    trust_remote_code: TrustRemoteCode = False,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Sample a checkpoint on a task and diagnose it; the same command continues an interrupted run."""
    from entropy_lab.engines.protocol import Sampling
    from entropy_lab.workflows.analyze_checkpoint import Plan, analyze_checkpoint

    from .terminal import TerminalProgress, show

    plan = Plan(
        checkpoint=checkpoint,
        against=against,
        task=task,
        problems=problems,
        samples=samples,
        ks=chosen_ks(k),
        sampling=Sampling(temperature, top_p, top_k, max_new_tokens, seed, mask_unused),
        engine=engine,
        prompt=prompt,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
        rule=_rule(decisions, decisions_at),
    )
    show(analyze_checkpoint(plan, out, TerminalProgress()), json)


@app.command()
def rollouts(
    source: Annotated[Path, typer.Argument(help="A run directory, a Parquet or a JSONL file.")],
    checkpoint: Annotated[str | None, typer.Option(help="Scores rows without entropies; shows tokens as text.")] = None,
    task: Annotated[str | None, typer.Option(help="Grades rows without a verdict.")] = None,
    k: Ks = None,
    mask_unused: MaskUnused = False,
    decisions: RuleName = "quantile",
    decisions_at: RuleValue = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    trust_remote_code: TrustRemoteCode = False,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Diagnose trajectories that exist already."""
    from entropy_lab.workflows.analyze_rollouts import analyze_rollouts
    from entropy_lab.workflows.outcome import Reading

    from .terminal import TerminalProgress, show

    reading = Reading(chosen_ks(k), _rule(decisions, decisions_at), seed, mask_unused)
    progress = TerminalProgress()
    show(analyze_rollouts(source, checkpoint, task, reading, out, progress, device, dtype, trust_remote_code), json)


def _rule(kind: str, value: float | None) -> Any:
    from entropy_lab.diagnostics.decision_points import Rule
    from entropy_lab.errors import InputError

    defaults = {"quantile": 0.8, "top-k": 4.0, "threshold": 0.693, "low-logprob": 4.0}
    if kind not in defaults:
        raise InputError(f"--decisions is {kind!r}; choose one of {', '.join(defaults)}.")
    return Rule(kind, defaults[kind] if value is None else value)  # type: ignore[arg-type]
