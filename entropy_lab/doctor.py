"""What this machine offers and lacks: Python, libraries, devices, memory, disk, engines, built-in checkpoints.

Never fails on what is missing: that is what it reports. Only torch is imported, and only to see devices.
"""

import importlib.metadata
import os
import platform
import shutil
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from entropy_lab.checkpoints.source import builtin_names

PACKAGE = "entropy-lab"
OPTIONAL = {
    "vllm": "optional: samples faster on a GPU; `pip install vllm`",
    "ray": "optional: samples on more than one machine; `pip install ray`",
}
GIB = 2**30
LOW_MEMORY, LOW_DISK = 2 * GIB, 2 * GIB
"""Free bytes under which the built-in checkpoints themselves get tight (ours)."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at: `ok`, `missing` (optional and not there) or `problem`, with what to do about it."""

    name: str
    state: Literal["ok", "missing", "problem"]
    value: str
    remedy: str = ""


def examine() -> list[Finding]:
    """Look at everything; the order is fixed."""
    return [_python(), *_libraries(), *_optional(), _device(), _memory(), _disk(), _builtin()]


def _python() -> Finding:
    version = platform.python_version()
    try:
        wanted = importlib.metadata.metadata(PACKAGE)["Requires-Python"]
    except importlib.metadata.PackageNotFoundError:
        return Finding("python", "problem", version, f"{PACKAGE} is not installed; `pip install .` in its folder")
    if _within(version, wanted):
        return Finding("python", "ok", version)
    return Finding("python", "problem", version, f"install Python {wanted}")


def _libraries() -> Iterator[Finding]:
    """Each required library against the range that the package's metadata asks for."""
    try:
        lines = importlib.metadata.requires(PACKAGE) or []
        from packaging.requirements import Requirement
    except ImportError as error:  # PackageNotFoundError is one too
        yield Finding("libraries", "problem", f"ranges unknown ({error})", f"install {PACKAGE} and packaging with pip")
        return
    for requirement in map(Requirement, lines):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        remedy, version = f"`pip install '{requirement}'`", _version(requirement.name)
        if version is None:
            yield Finding(requirement.name, "problem", "not installed", remedy)
        elif requirement.specifier.contains(version, prereleases=True):
            yield Finding(requirement.name, "ok", version)
        else:
            yield Finding(requirement.name, "problem", f"{version}, needs {requirement.specifier}", remedy)


def _optional() -> Iterator[Finding]:
    for name, remedy in OPTIONAL.items():
        version = _version(name)
        yield Finding(name, "missing", "not installed", remedy) if version is None else Finding(name, "ok", version)


def _device() -> Finding:
    try:
        import torch
    except Exception as error:  # a broken installation raises ImportError, OSError or worse from native code
        return Finding("device", "problem", f"torch cannot be imported ({error})", "install torch again")
    with warnings.catch_warnings(record=True) as caught:  # a driver too old for this torch is only a warning
        warnings.simplefilter("always")
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        cards = [torch.cuda.get_device_properties(index) for index in range(count)]
    if cards:
        text = "; ".join(
            f"cuda:{index} {card.name}, {card.total_memory / GIB:.0f} GiB" for index, card in enumerate(cards)
        )
        return Finding("device", "ok", text)
    if caught:
        return Finding("device", "problem", f"cpu only: {caught[0].message}", "update the GPU's driver")
    return Finding("device", "ok", f"cpu, {torch.get_num_threads()} threads, no GPU")


def _memory() -> Finding:
    try:
        import psutil
    except ImportError:
        return Finding("memory", "problem", "unknown", "`pip install psutil`")
    memory = psutil.virtual_memory()
    value = f"{memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB free"
    if memory.available < LOW_MEMORY:
        return Finding("memory", "problem", value, "close other programs before a run")
    return Finding("memory", "ok", value)


def _disk() -> Finding:
    """The folder that runs are written to."""
    try:
        folder = Path.cwd()
        free = shutil.disk_usage(folder).free
    except OSError as error:
        return Finding("disk", "problem", f"no working folder ({error})", "change to a folder that exists")
    value = f"{free / GIB:.1f} GiB free in {folder}"
    if not os.access(folder, os.W_OK):
        return Finding("disk", "problem", f"{value}, which cannot be written", "change folder, or give --out")
    if free < LOW_DISK:
        return Finding("disk", "problem", value, "free some space, or give --out on another disk")
    return Finding("disk", "ok", value)


def _builtin() -> Finding:
    names = builtin_names()
    if not names:
        return Finding("built-in checkpoints", "problem", "none", f"install {PACKAGE} again")
    return Finding("built-in checkpoints", "ok", ", ".join(names))


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _within(version: str, wanted: str) -> bool:
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:
        return True  # reported with the libraries
    return SpecifierSet(wanted).contains(version, prereleases=True)
