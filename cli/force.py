"""`entropy-lab force`: how well a checkpoint finishes the entrances it is made to begin with."""

from typing import Annotated

import typer

from .options import Device, Dtype, EngineName, Json, MaskUnused, Out, PromptMode, Seed, TrustRemoteCode


def force(
    checkpoint: Annotated[
        str, typer.Argument(help="builtin:NAME, a folder, a .gguf file or a hub id.", metavar="[CHECKPOINT]")
    ] = "builtin:sft",
    task: Annotated[str, typer.Option(help="countdown, or a .jsonl or .parquet of Countdown problems.")] = "countdown",
    problems: Annotated[int, typer.Option(min=1, help="How many problems, from the first.")] = 50,
    samples: Annotated[int, typer.Option(min=1, help="Free trajectories a problem, for access and solve rate.")] = 64,
    continuations: Annotated[int, typer.Option(min=1, help="Forced trajectories a family, at each level.")] = 16,
    scaffold: Annotated[
        str | None,
        typer.Option(help="Text before every entrance [default: none for steps, <answer> for expressions]."),
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest completion, in tokens.")] = 512,
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
    """Force each entrance family of Countdown problems, and its value; measure access, execution and controls.

    The same command continues an interrupted run.
    """
    from entropy_lab.engines.protocol import Sampling
    from entropy_lab.workflows.force import ForcePlan
    from entropy_lab.workflows.force import force as run

    from .terminal import TerminalProgress, show

    plan = ForcePlan(
        checkpoint=checkpoint,
        task=task,
        problems=problems,
        samples=samples,
        continuations=continuations,
        scaffold=scaffold,
        sampling=Sampling(temperature, max_new_tokens=max_new_tokens, seed=seed, mask_unused=mask_unused),
        engine=engine,
        prompt=prompt,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )
    show(run(plan, out, TerminalProgress()), json)
