"""The weights of a folder in safetensors: which files, whether they are whole, and a fingerprint of their content.

Reads headers and hashes bytes; loads no tensor. Pickles are never opened.
"""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import prod
from pathlib import Path

from entropy_lab.errors import InputError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
CHUNK = 1 << 22
"""Bytes hashed at a time."""


@dataclass(frozen=True)
class StoredTensor:
    """One tensor as it lies in a file: `length` bytes from byte `start` of `path`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    start: int
    length: int


@dataclass(frozen=True)
class Weights:
    """What a checkpoint's weight files hold: parameter count, whether most are 16 bits or fewer, content hash."""

    parameters: int
    sixteen_bit: bool
    fingerprint: str


def inspect_folder(folder: Path, name: str) -> Weights:
    """Check all weight files of a folder and fingerprint them.

    `InputError` for pickles, no weights, a missing shard, and truncated or corrupt files.
    """
    files = weight_files(folder, name)
    tensors = [tensor for file in files for tensor in read_header(file)]
    repeated = [tensor for tensor, count in Counter(tensor.name for tensor in tensors).items() if count > 1]
    if repeated:
        raise InputError(f"{name} holds the tensor {repeated[0]} in more than one shard; save the checkpoint again.")
    if (folder / INDEX).exists() and len(files) > 1:
        _check_index(folder, tensors)
    sizes: Counter[str] = Counter()
    for tensor in tensors:
        sizes[tensor.dtype] += prod(tensor.shape)
    sixteen_bit = sum(sizes.values()) < 2 * sum(sizes[dtype] for dtype in ("F16", "BF16"))
    return Weights(sum(sizes.values()), sixteen_bit, fingerprint(tensors))


def weight_files(folder: Path, name: str) -> list[Path]:
    """The safetensors files of a folder, in order: `model.safetensors`, else the shards that the index names."""
    if (folder / WEIGHTS).exists():
        return [folder / WEIGHTS]
    if (folder / INDEX).exists():
        return _shards(folder)
    stray = sorted(path.name for path in folder.glob("*.safetensors"))
    if stray:
        raise InputError(
            f"{name} has {stray[0]} but neither {WEIGHTS} nor {INDEX}; save it again with save_pretrained."
        )
    pickles = sorted(path.name for kind in ("*.bin", "*.pt", "*.pth", "*.ckpt") for path in folder.glob(kind))
    if pickles:
        raise InputError(
            f"{name} holds its weights as a pickle ({pickles[0]}), which can run code when read; convert it to "
            "safetensors (load it where you trust it, then save_pretrained)."
        )
    raise InputError(f"{name} holds no weights: neither {WEIGHTS} nor {INDEX} is in the folder.")


def read_header(path: Path) -> list[StoredTensor]:
    """The tensors of one safetensors file, from its header; `InputError` if the file is not whole."""
    from safetensors import SafetensorError, safe_open

    size = path.stat().st_size
    with path.open("rb") as file:
        first = file.read(8)
        length = int.from_bytes(first, "little")
        if first == b"version ":
            raise InputError(f"{path} is a git-lfs pointer, not the weights; run `git lfs pull`.")
        if size < 8 or length > size - 8:
            raise InputError(f"{path} is truncated or corrupt: {size} bytes cannot hold its header; fetch it again.")
        raw = file.read(length)
    try:
        tensors = _parse_header(raw, path, 8 + length)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} has a corrupt header ({error}); fetch or save the file again.") from error
    needed = max((tensor.start + tensor.length for tensor in tensors), default=8 + length)
    if needed > size:
        raise InputError(f"{path} is truncated: {size} bytes, its header promises {needed}; fetch it again.")
    try:
        with safe_open(str(path), framework="pt"):
            pass  # the library's own check of offsets, dtypes and shapes
    except SafetensorError as error:
        raise InputError(f"{path} is corrupt ({error}); fetch or save the file again.") from error
    return tensors


def _parse_header(raw: bytes, path: Path, data_start: int) -> list[StoredTensor]:
    tensors = []
    for name, entry in json.loads(raw).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            tensors.append(
                StoredTensor(name, entry["dtype"], tuple(entry["shape"]), path, data_start + begin, end - begin)
            )
    return tensors


def fingerprint(tensors: Sequence[StoredTensor]) -> str:
    """sha256 (hex) of the weights' content: name, dtype, shape and bytes of each tensor, in name order.

    The bytes enter as their own sha256, so that tensors are hashed in parallel; file names, shards and the order
    of tensors in them change nothing.
    """
    ordered = sorted(tensors, key=lambda tensor: tensor.name)
    total = hashlib.sha256()
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for tensor, digest in zip(ordered, pool.map(_digest, ordered), strict=True):
            total.update(json.dumps([tensor.name, tensor.dtype, tensor.shape, digest]).encode() + b"\n")
    return total.hexdigest()


def _digest(tensor: StoredTensor) -> str:
    digest, left = hashlib.sha256(), tensor.length
    with tensor.path.open("rb") as file:
        file.seek(tensor.start)
        while left and (chunk := file.read(min(CHUNK, left))):
            digest.update(chunk)
            left -= len(chunk)
    if left:
        raise InputError(f"{tensor.path} became shorter while it was read; wait until it is written, then try again.")
    return digest.hexdigest()


def _weight_map(folder: Path) -> dict[str, str]:
    path = folder / INDEX
    try:
        weight_map = json.loads(path.read_text(encoding="utf-8"))["weight_map"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is not an index of shards ({error}); fetch or save it again.") from error
    if not isinstance(weight_map, dict) or not weight_map or not all(isinstance(v, str) for v in weight_map.values()):
        raise InputError(
            f"{path} has a weight_map that does not name a file for each tensor; save the checkpoint again."
        )
    return weight_map


def _shards(folder: Path) -> list[Path]:
    names = sorted(set(_weight_map(folder).values()))
    for name in names:
        if Path(name).name != name or not name.endswith(".safetensors"):
            raise InputError(
                f"{folder / INDEX} names the shard {name!r}; a shard is a .safetensors file of the same folder."
            )
        if not (folder / name).exists():
            raise InputError(f"{folder} lacks the shard {name}, one of {len(names)} that {INDEX} names; fetch it.")
    return [folder / name for name in names]


def _check_index(folder: Path, tensors: Sequence[StoredTensor]) -> None:
    held = {(tensor.name, tensor.path.name) for tensor in tensors}
    for name, shard in _weight_map(folder).items():
        if (name, shard) not in held:
            raise InputError(
                f"{folder / shard} lacks the tensor {name}, which {INDEX} says it holds; fetch both again."
            )
