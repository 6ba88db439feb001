"""A training run's state on disk: weights, optimizer moments and the step, as one safetensors file, replaced whole.

A run killed at any instant finds the last complete state. No pickle: tensors, and a step number in the metadata.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from entropy_lab.errors import InputError
from entropy_lab.files import whole


def save_state(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, step: int) -> None:
    """Write the state after `step` steps under a temporary name, then rename it into place."""
    tensors = {f"model.{name}": parameter.detach() for name, parameter in model.named_parameters()}
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    for parameter, moments in optimizer.state.items():
        for key, value in moments.items():
            tensors[f"optimizer.{key}.{names[id(parameter)]}"] = torch.as_tensor(value)
    with whole(path) as partial:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial, {"step": str(step)})


def load_state(path: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Restore model and optimizer in place; returns the number of finished steps.

    Raises:
        InputError: the file is damaged or belongs to a model of another shape.
    """
    parameters = dict(model.named_parameters())
    try:
        with safe_open(path, "pt") as file, torch.no_grad():
            step = int(file.metadata()["step"])
            for name, parameter in parameters.items():
                parameter.copy_(file.get_tensor(f"model.{name}"))
            for key in file.keys():  # noqa: SIM118  (safe_open is no mapping)
                if key.startswith("optimizer."):
                    _, moment, name = key.split(".", 2)
                    optimizer.state[parameters[name]][moment] = file.get_tensor(key)
    except (SafetensorError, RuntimeError, KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} is not a state of this run ({error}); delete it to begin again, or give another --out."
        ) from error
    return step
