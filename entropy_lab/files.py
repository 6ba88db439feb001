"""Files written whole or not at all, and JSON without NaN."""

import json
import os
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text under a temporary name and rename it into place."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def write_json(path: Path, content: Any) -> None:
    """Write strict JSON: a NaN or an infinity raises ValueError instead of reaching the file."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
