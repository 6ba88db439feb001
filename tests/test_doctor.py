"""The doctor reports what is missing and never falls ill of it."""

import importlib.metadata
import subprocess
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from entropy_lab import doctor
from entropy_lab.doctor import Finding, examine


def found(name: str) -> Finding:
    return next(finding for finding in examine() if finding.name == name)


def test_this_machine_is_described() -> None:
    findings = {finding.name: finding for finding in examine()}
    assert len(findings) == len(examine())
    assert {"python", "torch", "transformers", "vllm", "ray", "device", "memory", "disk"} <= set(findings)
    assert findings["torch"] == Finding("torch", "ok", importlib.metadata.version("torch"))
    assert "pytest" not in findings  # the developers' extra is nobody else's problem
    assert all(finding.value for finding in findings.values())
    assert all(finding.remedy for finding in findings.values() if finding.state != "ok")


def test_versions_outside_the_supported_range(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        if name == "scipy":
            raise importlib.metadata.PackageNotFoundError(name)
        return {"transformers": "4.57.0", "vllm": "0.12.0"}.get(name) or real(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert (found("transformers").state, found("transformers").value[:13]) == ("problem", "4.57.0, needs")
    assert "pip install 'transformers" in found("transformers").remedy
    assert (found("scipy").state, found("scipy").value) == ("problem", "not installed")
    assert found("vllm") == Finding("vllm", "ok", "0.12.0")
    monkeypatch.setattr("platform.python_version", lambda: "3.8.0")
    assert found("python").state == "problem"
    assert ">=3.11" in found("python").remedy


def test_nothing_installed_is_reported_not_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise importlib.metadata.PackageNotFoundError(name)

    for function in ("version", "requires", "metadata"):
        monkeypatch.setattr(importlib.metadata, function, absent)
    for module in ("torch", "psutil", "packaging.requirements", "packaging.specifiers"):
        monkeypatch.setitem(sys.modules, module, None)
    states = {finding.name: finding.state for finding in examine()}
    assert states["python"] == states["libraries"] == states["device"] == states["memory"] == "problem"
    assert states["vllm"] == states["ray"] == "missing"


def test_gpus_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    card = SimpleNamespace(name="Test Card", total_memory=80 * 2**30)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: card)
    assert found("device") == Finding("device", "ok", "cuda:0 Test Card, 80 GiB; cuda:1 Test Card, 80 GiB")


def test_a_driver_that_is_too_old_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable() -> bool:
        warnings.warn("The NVIDIA driver on your system is too old", UserWarning, stacklevel=2)
        return False

    monkeypatch.setattr(torch.cuda, "is_available", unavailable)
    assert found("device").state == "problem"
    assert "driver on your system is too old" in found("device").value


def test_a_full_or_closed_disk_is_a_problem(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    assert "cannot be written" in found("disk").value
    monkeypatch.undo()
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: SimpleNamespace(free=5))
    assert found("disk").state == "problem"
    monkeypatch.undo()
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os, sys; os.chdir(sys.argv[1]); os.rmdir(sys.argv[1])\n"
    code += "from entropy_lab.doctor import _disk; print(_disk().state)"
    run = subprocess.run([sys.executable, "-c", code, str(gone)], capture_output=True, text=True, check=True)
    assert run.stdout == "problem\n"


def test_builtin_checkpoints_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "builtin_names", lambda: ["base", "sharp"])
    assert found("built-in checkpoints") == Finding("built-in checkpoints", "ok", "base, sharp")
    monkeypatch.setattr(doctor, "builtin_names", list)
    assert found("built-in checkpoints").state == "problem"
