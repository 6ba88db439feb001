"""Checkpoints: `builtin:NAME`, a folder, a GGUF file or a hub id in; model, tokenizer and fingerprint out."""

from entropy_lab.checkpoints.load import Checkpoint, load_checkpoint
from entropy_lab.checkpoints.save import save_checkpoint
from entropy_lab.checkpoints.source import builtin_names

__all__ = ["Checkpoint", "builtin_names", "load_checkpoint", "save_checkpoint"]
