"""What a checkpoint's name means: a built-in rung, a folder, a GGUF file or a hub id becomes a path on this disk.

Knows names and file names only; what is inside the files is `weights.py` and `gguf_file.py`.
"""

import difflib
import json
import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from entropy_lab.checkpoints.weights import weight_files
from entropy_lab.errors import InputError

BUILTIN = "builtin:"
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl"}
TOKENIZER_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json")
HUB_TIMEOUT = 10.0
"""Seconds to wait for the hub's first answer."""


@dataclass(frozen=True)
class Source:
    """Where a checkpoint lies: a folder in Hugging Face layout, or one GGUF file."""

    name: str
    path: Path
    gguf: bool


def find_source(name: str, trust_remote_code: bool = False) -> Source:
    """Turn a checkpoint's name into a path; `InputError` if there is nothing of that name."""
    path = Path(os.path.expanduser(name))  # unlike Path.expanduser, leaves an unknown ~user as it is
    if name.startswith(BUILTIN):
        return Source(name, _builtin(name), gguf=False)
    if not name.strip():
        raise InputError(f"The checkpoint's name is empty; give a folder, a .gguf file, a hub id or {BUILTIN}NAME.")
    try:
        folder, file = path.is_dir(), path.is_file()
    except OSError as error:
        raise InputError(
            f"{name} cannot be looked up ({error.strerror}); check the path and its permissions."
        ) from error
    if folder:
        return Source(name, path, gguf=False)
    if file:
        return Source(name, _single_file(path), gguf=True)
    if _looks_like_path(name):
        raise InputError(f"There is no checkpoint at {name}: no such file or folder; check the path.")
    return Source(name, _hub_folder(name, trust_remote_code), gguf=False)


def builtin_folder() -> Path:
    """The folder of the checkpoints that come with the package."""
    return Path(str(resources.files("entropy_lab"))) / "builtin" / "checkpoints"


def builtin_names() -> list[str]:
    """The built-in rungs present, sorted."""
    folder = builtin_folder()
    return sorted(entry.parent.name for entry in folder.glob("*/config.json")) if folder.is_dir() else []


def check_folder(source: Source, trust_remote_code: bool) -> None:
    """Find what would stop this folder from loading, from its small files alone.

    `InputError` for: no config.json, an adapter, no tokenizer, code of its own that was not allowed.
    """
    folder, name = source.path, source.name
    if (folder / "adapter_config.json").exists():
        raise InputError(
            f"{name} is an adapter (adapter_config.json); merge it into its base model and save the result."
        )
    if not (folder / "config.json").exists():
        raise InputError(f"{name} has no config.json; {_instead_of(folder)}.")
    config = read_json(folder / "config.json")
    if not isinstance(config.get("model_type"), str):
        raise InputError(f"{folder / 'config.json'} has no model_type; it is not a transformers model's configuration.")
    if "transformers_weights" in config:
        raise InputError(
            f"{folder / 'config.json'} moves the weights to {config['transformers_weights']!r} (transformers_weights); "
            "rename that file to model.safetensors and drop the field."
        )
    if not any((folder / file).exists() for file in TOKENIZER_FILES) and not trust_remote_code:
        raise InputError(f"{name} has no tokenizer (looked for {', '.join(TOKENIZER_FILES)}); copy its base model's.")
    if not trust_remote_code:
        _check_own_code(name, config)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; `InputError` naming the file where it is not one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not valid JSON ({error}); fetch or write the file again.") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a JSON {type(content).__name__} where an object is needed.")
    return content


def _builtin(name: str) -> Path:
    rung, names = name.removeprefix(BUILTIN), builtin_names()
    if rung in names:
        return builtin_folder() / rung
    if not names:
        raise InputError(f"{name} is not there: this installation holds no built-in checkpoints; install it again.")
    near = difflib.get_close_matches(rung, names, n=1, cutoff=0.0)
    hint = f"; did you mean {BUILTIN}{near[0]}?" if near else "."
    raise InputError(f"There is no built-in checkpoint {rung!r}; available: {', '.join(names)}{hint}")


def _single_file(path: Path) -> Path:
    if path.suffix.lower() == ".gguf":
        return path
    if path.suffix.lower() in PICKLES:
        raise InputError(f"{path} is a pickle, which can run code when read; convert it to safetensors first.")
    raise InputError(f"{path} is a single file that is not a .gguf; give the folder that holds the whole checkpoint.")


def _looks_like_path(name: str) -> bool:
    return name.startswith((".", "/", "~")) or name.endswith((".gguf", "/")) or name.count("/") > 1 or "\\" in name


def _instead_of(folder: Path) -> str:
    """What to name instead of a folder that is not a checkpoint."""
    inner = sorted(str(entry.parent) for entry in folder.glob("*/config.json"))
    ggufs = sorted(str(entry) for entry in folder.glob("*.gguf"))
    if inner or ggufs:
        return f"name one of the checkpoints in it: {', '.join((inner + ggufs)[:5])}"
    return "give the folder that a trainer's save_pretrained wrote"


def _check_own_code(name: str, config: dict[str, Any]) -> None:
    """A checkpoint with code of its own is fine where transformers has the model too; else it needs permission."""
    if not config.get("auto_map"):
        return
    from transformers import CONFIG_MAPPING

    if config["model_type"] not in CONFIG_MAPPING:
        raise InputError(
            f"{name} brings model code of its own (auto_map in config.json), which is not run unless asked; "
            "read it, then pass trust_remote_code."
        )


def _hub_folder(name: str, trust_remote_code: bool) -> Path:
    """The snapshot folder of a hub id: the cached one if it is whole, else downloaded.

    The cache comes first, so that the same command reads the same weights and needs no network the second time.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        cached = Path(snapshot_download(name, local_files_only=True))
        if (cached / "config.json").exists() and weight_files(cached, name):
            return cached
    except HFValidationError as error:
        raise InputError(f"{name!r} is neither a file, a folder nor a possible hub id{_near(name)}.") from error
    except (LocalEntryNotFoundError, InputError):
        pass  # not cached, or only in part
    return _download(name, trust_remote_code)


def _download(name: str, trust_remote_code: bool) -> Path:
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        # One request without retries: what is there, and whether anyone answers at all.
        files = [entry.rfilename for entry in HfApi().model_info(name, timeout=HUB_TIMEOUT).siblings or []]
        if not any(file.endswith(".safetensors") for file in files):
            raise InputError(f"{name} has no safetensors weights on the hub (pickle and GGUF are not downloaded).")
        patterns = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"] + ["*.py"] * trust_remote_code
        return Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=["*/*"]))
    except GatedRepoError as error:
        raise InputError(
            f"{name} is gated on the hub; accept its terms there and log in with `hf auth login`."
        ) from error
    except RepositoryNotFoundError as error:
        raise InputError(f"There is no file or folder {name}, and no such model on the hub{_near(name)}.") from error
    except InputError:
        raise
    except Exception as error:  # the hub's client may speak through any HTTP library
        raise InputError(
            f"There is no file or folder {name}, and the hub could not be reached "
            f"({type(error).__name__}: {error}){_near(name)}; check the path, or the network."
        ) from error


def _near(name: str) -> str:
    near = difflib.get_close_matches(name, builtin_names(), n=1, cutoff=0.75)
    return f"; did you mean {BUILTIN}{near[0]}?" if near else ""
