"""`entropy-lab shift`: which tokens of a solution a later checkpoint moved, its entrance or the rest."""

from typing import Annotated

import typer

from .options import Device, Dtype, EngineName, Json, MaskUnused, Out, PromptMode, Seed, TrustRemoteCode


def shift(
    early: Annotated[
        str, typer.Argument(help="builtin:NAME, a folder, a .gguf file or a hub id.", metavar="[EARLY]")
    ] = "builtin:sft-early",
    late: Annotated[
        str, typer.Argument(help="The later checkpoint of the same tokenizer.", metavar="[LATE]")
    ] = "builtin:sft",
    task: Annotated[str, typer.Option(help="countdown, or a .jsonl or .parquet of Countdown problems.")] = "countdown",
    problems: Annotated[int, typer.Option(min=1, help="How many problems, from the first.")] = 100,
    texts: Annotated[
        str, typer.Option(help="What is scored: witnesses of the solver, or traces sampled from early or late.")
    ] = "witnesses",
    samples: Annotated[int, typer.Option(min=1, help="Sampled traces a problem.")] = 8,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest sampled trace, in tokens.")] = 512,
    temperature: Annotated[float, typer.Option(min=0, help="Divides the logits, sampling and scoring alike.")] = 1.0,
    mask_unused: MaskUnused = False,
    engine: EngineName = "auto",
    prompt: PromptMode = "auto",
    device: Device = "auto",
    dtype: Dtype = "auto",
    trust_remote_code: TrustRemoteCode = False,
    seed: Seed = 0,
    out: Out = None,
    json: Json = False,
) -> None:
    """Score the same solutions at an early and a late checkpoint; split the shift at the first operator."""
    from entropy_lab.engines.protocol import Sampling
    from entropy_lab.workflows.shift import ShiftPlan
    from entropy_lab.workflows.shift import shift as run_shift

    from .terminal import TerminalProgress, show

    plan = ShiftPlan(
        early=early,
        late=late,
        task=task,
        problems=problems,
        texts=texts,
        samples=samples,
        sampling=Sampling(temperature, max_new_tokens=max_new_tokens, seed=seed, mask_unused=mask_unused),
        engine=engine,
        prompt=prompt,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )
    show(run_shift(plan, out, TerminalProgress()), json)
