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
