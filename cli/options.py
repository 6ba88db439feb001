"""Options that several commands share, spelled and explained once."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else there.")]
Out = Annotated[Path | None, typer.Option("--out", help="Run directory [default: runs/, named by the settings].")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of all random draws.")]
EngineName = Annotated[str, typer.Option("--engine", help="Sampling engine: auto, transformers.")]
PromptMode = Annotated[str, typer.Option("--prompt", help="auto, chat or raw; auto is chat where there is a template.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, mps.")]
Dtype = Annotated[str, typer.Option("--dtype", help="auto, float32, bfloat16, float16.")]
TrustRemoteCode = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run Python code that comes with a checkpoint. Off for a reason.")
]
MaskUnused = Annotated[
    bool, typer.Option("--mask-unused", help="Drop head rows that the tokenizer does not have from the distribution.")
]
Ks = Annotated[str | None, typer.Option("--k", help="pass@k to report, as 1,4,16 [default: powers of two ≤ samples].")]


def chosen_ks(text: str | None) -> tuple[int, ...] | None:
    """The ks of `--k`; None where it is not given. Raises InputError for anything but whole numbers."""
    from entropy_lab.errors import InputError

    if text is None:
        return None
    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise InputError(f"--k is {text!r}; write whole numbers separated by commas, as 1,4,16.") from error
