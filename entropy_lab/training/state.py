"""A training run's state: Hugging Face folders that any tool loads, each with what continuing exactly needs beside it.

No pickle: tensors in one safetensors file, numbers in its metadata. A folder appears whole or not at all.
"""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from entropy_lab.checkpoints import save_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.files import whole_folder

STATE_FILE = "training_state.safetensors"
_STEP = re.compile(r"step-\d{5,}")


@dataclass
class Progressed:
    """Where a run stands: finished iterations, position in the problems' order, controllers' memories, tokens."""

    step: int = 0
    position: int = 0
    sampled_tokens: int = 0
    memories: dict[str, dict[str, float]] = field(default_factory=dict)


def step_folder(folder: Path, step: int) -> Path:
    """Where the checkpoint after `step` iterations is kept."""
    return folder / "checkpoints" / f"step-{step:05d}"


def step_of(target: Path) -> int:
    """The step of a folder named by `step_folder`."""
    return int(target.name.removeprefix("step-"))


def save_state(
    target: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    parameters: Mapping[str, Tensor],
    optimizer: torch.optim.Optimizer,
    progressed: Progressed,
    extra: Mapping[str, Tensor],
) -> None:
    """Write `model` in Hugging Face layout with the state beside it.

    `parameters` are all that the optimizer trains, by name; `extra` are other tensors to keep (lagged weights).
    """
    names = {id(parameter): name for name, parameter in parameters.items()}
    tensors = {f"parameter/{name}": parameter.detach() for name, parameter in parameters.items()}
    tensors |= {f"extra/{name}": tensor for name, tensor in extra.items()}
    for parameter, moments in optimizer.state.items():
        for key, value in moments.items():
            tensors[f"moment/{key}/{names[id(parameter)]}"] = torch.as_tensor(value)
    with whole_folder(target) as partial:
        save_checkpoint(model, tokenizer, partial / "model")
        for file in (partial / "model").iterdir():
            file.rename(partial / file.name)
        (partial / "model").rmdir()
        content = {name: tensor.contiguous() for name, tensor in tensors.items()}
        save_file(content, partial / STATE_FILE, {"progressed": json.dumps(vars(progressed), sort_keys=True)})


def load_state(
    target: Path, parameters: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> tuple[Progressed, dict[str, Tensor]]:
    """Restore parameters and moments in place; gives where the run stood and the extra tensors.

    Raises:
        InputError: the file is damaged or belongs to another run.
    """
    path = target / STATE_FILE
    extra: dict[str, Tensor] = {}
    try:
        with safe_open(path, "pt") as file, torch.no_grad():
            progressed = Progressed(**json.loads(file.metadata()["progressed"]))
            for key in file.keys():  # noqa: SIM118  (safe_open is no mapping)
                kind, name = key.split("/", 1)
                if kind == "parameter":
                    parameters[name].copy_(file.get_tensor(key))
                elif kind == "extra":
                    extra[name] = file.get_tensor(key)
                else:
                    moment, name = name.split("/", 1)
                    parameter = parameters[name]
                    value = file.get_tensor(key)
                    optimizer.state[parameter][moment] = value if moment == "step" else value.to(parameter.device)
    except (SafetensorError, OSError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is not a state of this run ({type(error).__name__}: {error}); delete {target} to continue from an "
            "earlier checkpoint, or give another --out."
        ) from error
    return progressed, extra


def latest(folder: Path) -> Path | None:
    """The newest step that can be continued from."""
    kept = [step for step in _steps(folder) if (step / STATE_FILE).is_file()]
    return kept[-1] if kept else None


def prune(folder: Path, keep: int) -> None:
    """Delete all but the newest `keep` steps; folders of any other name are somebody's own."""
    for old in _steps(folder)[:-keep]:
        shutil.rmtree(old)


def _steps(folder: Path) -> list[Path]:
    """Folders named by `step_folder`, oldest first."""
    found = [path for path in (folder / "checkpoints").glob("step-*") if _STEP.fullmatch(path.name)]
    return sorted(found, key=step_of)
