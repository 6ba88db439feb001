"""One GGUF file: whether it is whole, how many parameters it holds, and a fingerprint of its content.

Walks the header and the tensor table (GGUF versions 2 and 3, little-endian); reads no tensor.
Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import hashlib
import mmap
import struct
from math import prod
from pathlib import Path
from typing import Any

from entropy_lab.checkpoints.weights import Weights
from entropy_lab.errors import InputError

STRING, ARRAY = 8, 9
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Value type number → struct format."""
FULL_WIDTH = {0, 28}
"""Tensor types of 32 bits and more: F32, F64. All others are 16 bits or fewer."""


class _Cut(Exception):
    """The header points past the end of the file."""


class _Reader:
    """Reads the header forwards, never past the end of the file."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.position = data, 0

    def skip(self, count: int) -> int:
        """Move on by `count` bytes; the position before."""
        start = self.position
        if count > len(self.data) - start:
            raise _Cut
        self.position = start + count
        return start

    def scalar(self, form: str) -> Any:
        """One number."""
        return struct.unpack_from("<" + form, self.data, self.skip(struct.calcsize("<" + form)))[0]

    def string(self) -> str:
        """One length-prefixed string."""
        length = self.scalar("Q")
        start = self.skip(length)
        return self.data[start : start + length].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """One metadata value; arrays are walked over and given back as None."""
        if kind in SCALARS:
            return self.scalar(SCALARS[kind])
        if kind == STRING:
            return self.string()
        if kind != ARRAY:
            raise ValueError(f"metadata of the unknown type {kind}")
        inner, count = self.scalar("I"), self.scalar("Q")
        if inner in SCALARS:
            self.skip(count * struct.calcsize("<" + SCALARS[inner]))
        elif inner == STRING:
            for _ in range(count):
                self.skip(self.scalar("Q"))
        else:
            raise ValueError(f"an array of the unknown type {inner}")
        return None


def inspect_gguf(path: Path) -> Weights:
    """Check that a GGUF file is whole and fingerprint it: the sha256 of its bytes, whatever its name.

    `InputError` if the file is truncated, corrupt, one part of several, or of a kind that cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(4)
        if start != b"GGUF":
            pointer = "is a git-lfs pointer; run `git lfs pull`" if start == b"vers" else "does not start with GGUF"
            raise InputError(f"{path} is not a GGUF file: it {pointer}.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                parameters, wide, end = _walk(_Reader(data))
            except _Cut as error:
                raise InputError(
                    f"{path} is truncated: its header runs past its {size} bytes; fetch it again."
                ) from error
            except ValueError as error:
                raise InputError(f"{path} is not a GGUF file that can be read: it holds {error}.") from error
        if end > size:
            raise InputError(f"{path} is truncated: {size} bytes, its tensor table needs {end}; fetch it again.")
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Weights(parameters, sixteen_bit=2 * wide < parameters, fingerprint=digest)


def _walk(reader: _Reader) -> tuple[int, int, int]:
    """Parameter count, how many of them are stored in 32 bits or more, and the byte where the last tensor ends."""
    from gguf import GGML_QUANT_SIZES

    block_sizes = {int(kind): size for kind, size in GGML_QUANT_SIZES.items()}
    reader.skip(4)
    version = reader.scalar("I")
    if version not in (2, 3):
        raise ValueError(f"version {version} (2 and 3 are read)")
    tensor_count, field_count = reader.scalar("Q"), reader.scalar("Q")
    fields = {}
    for _ in range(field_count):
        key = reader.string()
        fields[key] = reader.value(reader.scalar("I"))
    if fields.get("split.count") not in (None, 0, 1):
        raise ValueError(f"one part of {fields['split.count']}; join them with `llama-gguf-split --merge`")
    alignment = fields.get("general.alignment", 32)
    if not isinstance(alignment, int) or alignment < 1:
        raise ValueError(f"the alignment {alignment!r}")
    parameters, wide, end = 0, 0, 0
    for _ in range(tensor_count):
        name = reader.string()
        shape = [reader.scalar("Q") for _ in range(_dimensions(reader.scalar("I"), name))]
        kind, offset = reader.scalar("I"), reader.scalar("Q")
        if kind not in block_sizes:
            raise ValueError(f"the tensor {name} in the unknown type {kind}")
        block, block_bytes = block_sizes[kind]
        parameters += prod(shape)
        wide += prod(shape) if kind in FULL_WIDTH else 0
        end = max(end, offset + prod(shape) // block * block_bytes)
    return parameters, wide, -(-reader.position // alignment) * alignment + end


def _dimensions(count: int, name: str) -> int:
    if count > 4:
        raise ValueError(f"the tensor {name} of {count} dimensions")
    return count
