import os
from pathlib import Path

import pytest

from entropy_lab.files import write_bytes


def test_a_file_appears_whole_in_a_folder_made_for_it(tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.html"
    write_bytes(path, b"whole")
    assert path.read_bytes() == b"whole"
    assert [entry.name for entry in path.parent.iterdir()] == ["page.html"]


def test_a_failed_write_keeps_the_old_file_and_leaves_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_bytes(path, b"new")
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]
