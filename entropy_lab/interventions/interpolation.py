"""Interpolate two checkpoints of one training run in a block of layers: θ = (1 − α)·late + α·early.

Works on the safetensors files, a few million elements at a time, so that neither model is ever in memory. What is not
interpolated (other layers, embeddings, final norm, head, files beside the weights) is late's, byte for byte.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from entropy_lab.checkpoints.source import PICKLES
from entropy_lab.checkpoints.weights import INDEX, WEIGHTS, StoredTensor
from entropy_lab.errors import InputError
from entropy_lab.files import whole_folder
from entropy_lab.interventions.checkpoint_pair import FLOATS, Cell, Pair, stored_bytes

if TYPE_CHECKING:
    import torch

CHUNK = 1 << 22
"""Elements in memory at a time (ours)."""
STRAY = PICKLES | {".safetensors", ".gguf", ".h5", ".msgpack", ".onnx"}
"""Suffixes of files that hold other weights or a trainer's state; they are not carried over."""
TEMPLATES = "additional_chat_templates"


def write_cell(pair: Pair, cell: Cell, folder: Path) -> Path:
    """Write the interpolated checkpoint to `folder`, whole or not at all; gives the folder back.

    Arithmetic is in float32, or float64 where either tensor is, and the result is cast to late's type. alpha = 0 gives
    late's bytes, alpha = 1 early's values in the block. An older checkpoint in `folder` is replaced only if every file
    in it is written anew.

    Raises:
        InputError: the cell does not fit the pair, weights are not finite, or `folder` cannot be written or replaced.
    """
    moved = pair.moved(cell)
    folder = Path(os.path.abspath(folder))
    for source in (pair.early, pair.late):
        if folder.resolve() == source.path.resolve():
            raise InputError(f"--out is {source.name} itself, which would be overwritten; choose another folder.")
    shards = list(dict.fromkeys(tensor.path for tensor in pair.tensors))
    files = [*_companions(pair.late.path, sharded=shards[0].name != WEIGHTS), *shards]
    try:
        with whole_folder(folder) as partial:
            for path in files:
                if path.is_dir():
                    shutil.copytree(path, partial / path.name)
                else:
                    shutil.copyfile(path, partial / path.name)
            for tensor in pair.tensors:
                _finish(tensor, moved.get(tensor.name), partial / tensor.path.name, pair, cell.alpha)
    except OSError as error:
        raise InputError(f"{folder} cannot be written ({error.strerror}); give an --out that can.") from error
    return folder


def _finish(late: StoredTensor, early: StoredTensor | None, path: Path, pair: Pair, alpha: float) -> None:
    """Put one tensor's new values in place of the copied ones in `path`; see that all values are finite."""
    import torch

    if late.dtype not in FLOATS:
        return
    if early is None:
        for late_C in _chunks(late):
            _check_finite(late_C, late, pair.late.name)
        return
    with path.open("r+b") as file:
        file.seek(late.start)
        for late_C, early_C in zip(_chunks(late), _chunks(early), strict=True):
            _check_finite(late_C, late, pair.late.name)
            _check_finite(early_C, early, pair.early.name)
            if alpha in (0, 1):  # a product with 0 would lose the sign of −0
                mixed_C = (early_C if alpha else late_C).to(late_C.dtype)
            else:
                wide = torch.promote_types(torch.promote_types(late_C.dtype, early_C.dtype), torch.float32)
                mixed_C = ((1 - alpha) * late_C.to(wide) + alpha * early_C.to(wide)).to(late_C.dtype)
            _check_finite(mixed_C, late, f"{pair.early.name}, cast to {late.dtype},")
            file.write(mixed_C.view(torch.uint8).numpy().data)


def _check_finite(values_C: "torch.Tensor", tensor: StoredTensor, name: str) -> None:
    if not bool(values_C.isfinite().all()):
        raise InputError(f"{name}: {tensor.name} holds NaN or infinity; use an earlier checkpoint or a wider dtype.")


def _chunks(tensor: StoredTensor) -> "Iterator[torch.Tensor]":
    """The tensor's elements in order, at most `CHUNK` at a time."""
    import torch

    dtype = getattr(torch, FLOATS[tensor.dtype])
    for raw in stored_bytes(tensor, CHUNK * dtype.itemsize):
        yield torch.frombuffer(raw, dtype=dtype)


def _companions(folder: Path, sharded: bool) -> list[Path]:
    """Late's files beside its weights: all but other weights, their indices, hidden files and folders."""
    kept = []
    for path in sorted(folder.iterdir()):
        index = path.name.endswith(".index.json") and not (sharded and path.name == INDEX)
        weights = index or path.suffix.lower() in STRAY
        if (path.is_file() and not weights and not path.name.startswith(".")) or path.name == TEMPLATES:
            kept.append(path)
    return kept
