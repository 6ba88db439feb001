"""Write a checkpoint in Hugging Face layout, all of it or nothing."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

from entropy_lab.checkpoints.quiet import quiet_libraries
from entropy_lab.files import whole_folder

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


def save_checkpoint(
    model: "PreTrainedModel",
    tokenizer: "PreTrainedTokenizerBase",
    folder: Path | str,
    dtype: "torch.dtype | None" = None,
) -> Path:
    """Save model and tokenizer to `folder` as safetensors, in `dtype` where given; gives the folder back.

    Written beside the folder under a temporary name and renamed when whole. An older checkpoint is replaced only if
    every file in it is written anew, so that a folder with anything else in it raises `InputError` and keeps it.
    """
    folder = Path(folder)
    with whole_folder(folder) as partial:
        with quiet_libraries():
            model.save_pretrained(partial, state_dict=None if dtype is None else _cast(model, dtype))
            tokenizer.save_pretrained(partial)
        if dtype is not None:
            _write_dtype(partial / "config.json", dtype)
    return folder


def _cast(model: "PreTrainedModel", dtype: "torch.dtype") -> "dict[str, torch.Tensor]":
    """The state in `dtype`; tied tensors stay one tensor, or they would be stored twice and load untied."""
    once: dict[int, torch.Tensor] = {}
    state = {}
    for name, tensor in model.state_dict().items():
        if tensor.is_floating_point():
            state[name] = once.setdefault(tensor.data_ptr(), tensor.to(dtype))
        else:
            state[name] = tensor
    return state


def _write_dtype(config: Path, dtype: "torch.dtype") -> None:
    content = json.loads(config.read_text(encoding="utf-8"))
    content["dtype"] = str(dtype).removeprefix("torch.")
    config.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
