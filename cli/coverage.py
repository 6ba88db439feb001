"""`entropy-lab coverage`: which solutions and entrances checkpoints still reach, and what prompting and forcing add."""

from typing import Annotated

import typer

from .options import Device, Dtype, EngineName, Json, Ks, MaskUnused, Out, PromptMode, Seed, TrustRemoteCode, chosen_ks


def coverage(
    checkpoints: Annotated[
        list[str] | None,
        typer.Argument(
            help="builtin:NAME, folders, .gguf files or hub ids, early ones first.",
            metavar="[CHECKPOINT]...",
            show_default="builtin:sft-early builtin:sft-middle builtin:sft",
        ),
    ] = None,
    task: Annotated[str, typer.Option(help="countdown, or a .jsonl or .parquet of Countdown problems.")] = "countdown",
    problems: Annotated[int, typer.Option(min=1, help="How many problems, from the first.")] = 100,
    samples: Annotated[int, typer.Option(min=1, help="Trajectories a problem, in every arm.")] = 64,
    k: Ks = None,
    prompt_variant: Annotated[
        list[str] | None,
        typer.Option(
            help="Ask each checkpoint with one more sentence too: another-way, begin-with, many-ways, or the sentence "
            "itself, {number} in it being one of the problem's numbers. May be given several times.",
        ),
    ] = None,
    forced: Annotated[
        bool, typer.Option("--forced", help="Force each checkpoint to begin with every entrance in turn, too.")
    ] = False,
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
    """Sample checkpoints on Countdown and measure the solutions and entrance families they reach.

    Every number comes for all problems and for those solved by all. The same command continues an interrupted run.
    """
    from entropy_lab.engines.protocol import Sampling
    from entropy_lab.workflows.coverage import LADDER, CoveragePlan
    from entropy_lab.workflows.coverage import coverage as run

    from .terminal import TerminalProgress, show

    plan = CoveragePlan(
        checkpoints=tuple(checkpoints or LADDER),
        task=task,
        problems=problems,
        samples=samples,
        ks=chosen_ks(k),
        prompt_variants=tuple(prompt_variant or ()),
        forced=forced,
        sampling=Sampling(temperature, max_new_tokens=max_new_tokens, seed=seed, mask_unused=mask_unused),
        engine=engine,
        prompt=prompt,
        device=device,
        dtype=dtype,
        trust_remote_code=trust_remote_code,
    )
    show(run(plan, out, TerminalProgress()), json)
