"""Where a model runs and in which dtype; whether it fits there."""

from typing import TYPE_CHECKING

from entropy_lab.checkpoints.weights import Weights
from entropy_lab.errors import InputError

if TYPE_CHECKING:
    import torch

DTYPES = ("float32", "bfloat16", "float16", "float64")


def choose_device(asked: str) -> "torch.device":
    """`auto` is the GPU where CUDA sees one, else the CPU (ours: MPS only when asked for by name)."""
    import torch

    if asked == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(asked)
    except RuntimeError as error:
        raise InputError(f"device {asked!r} is not a device; use auto, cpu, cuda, cuda:N or mps.") from error
    count = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}.get(
        device.type, 0
    )
    if (device.index or 0) >= count:
        raise InputError(f"device {asked!r} is not there: torch sees {count} {device.type} device(s); use auto or cpu.")
    return device


def choose_dtype(asked: str, device: "torch.device", sixteen_bit: bool) -> "torch.dtype":
    """`auto` is bfloat16 for 16-bit (or quantised) weights on a GPU, else float32."""
    import torch

    if asked == "auto":
        return torch.bfloat16 if device.type == "cuda" and sixteen_bit else torch.float32
    if asked not in DTYPES:
        raise InputError(f"dtype {asked!r} is not offered; use auto, {', '.join(DTYPES)}.")
    return getattr(torch, asked)


def check_memory(name: str, weights: Weights, device: "torch.device", dtype: "torch.dtype") -> None:
    """`InputError` if the weights alone exceed the free memory: an error now rather than a killed process later."""
    import psutil
    import torch

    needed = weights.parameters * dtype.itemsize
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    if needed > free:
        raise InputError(
            f"{name} needs {needed / 2**30:.1f} GiB for its weights in {str(dtype).removeprefix('torch.')}, "
            f"{free / 2**30:.1f} GiB are free on {device}; use a 16-bit dtype, another device or a smaller checkpoint."
        )
