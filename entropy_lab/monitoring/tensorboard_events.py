"""TensorBoard event files: records of a length, a checksum, a message and its checksum; scalars are taken out.

The last record of a file that is still written, or was torn, is left out.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

from entropy_lab.errors import InputError

_HEADER = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")


def event_files(folder: Path) -> list[Path]:
    """All event files below `folder`, by name, which is by time of their start."""
    return sorted(folder.rglob("*tfevents*"), key=lambda path: path.name)


def read_events(files: Sequence[Path]) -> Iterator[tuple[int, str, float]]:
    """Step, tag and value of every scalar, file by file.

    Raises:
        InputError: a record whose checksum is wrong, before the last one.
    """
    from tensorboardX.proto.event_pb2 import Event

    for path in files:
        for record in _records(path):
            event = Event.FromString(record)
            for value in event.summary.value:
                scalar = _scalar(value)
                if scalar is not None:
                    yield event.step, value.tag, scalar


def _records(path: Path) -> Iterator[bytes]:
    from tensorboardX.crc32c import crc32c

    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); check the path.") from error
    start = 0
    while start + _HEADER.size <= len(content):
        length, checksum = _HEADER.unpack_from(content, start)
        first = start + _HEADER.size
        stop = first + length + _CHECKSUM.size
        if _masked(crc32c(content[start : start + 8])) != checksum:
            raise InputError(f"{path}: the record at byte {start} is damaged; give another copy of the log.")
        if stop > len(content):
            return
        if _masked(crc32c(content[first : first + length])) != _CHECKSUM.unpack_from(content, first + length)[0]:
            raise InputError(f"{path}: the record at byte {start} is damaged; give another copy of the log.")
        yield content[first : first + length]
        start = stop


def _masked(checksum: int) -> int:
    """The masking of the record format, which keeps checksums of checksums apart."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def _scalar(value: object) -> float | None:
    """A summary's number: a plain one, or a tensor of one, as newer writers have it."""
    kind = value.WhichOneof("value")  # type: ignore[attr-defined]
    if kind == "simple_value":
        return float(value.simple_value)  # type: ignore[attr-defined]
    if kind == "tensor":
        tensor = value.tensor  # type: ignore[attr-defined]
        if len(tensor.float_val) == 1:
            return float(tensor.float_val[0])
        if tensor.dtype == 1 and len(tensor.tensor_content) == 4:
            return float(struct.unpack("<f", tensor.tensor_content)[0])
    return None
