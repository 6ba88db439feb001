"""A checkpoint ready to sample and score; what can be checked before the heavy load is, so errors come in seconds."""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entropy_lab.checkpoints.end_tokens import end_ids
from entropy_lab.checkpoints.gguf_file import inspect_gguf
from entropy_lab.checkpoints.placement import check_memory, choose_device, choose_dtype
from entropy_lab.checkpoints.quiet import quiet_libraries, shared_gguf_tables
from entropy_lab.checkpoints.source import Source, check_folder, find_source
from entropy_lab.checkpoints.weights import Weights, inspect_folder
from entropy_lab.errors import InputError

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

BENIGN = re.compile(r"rotary_emb\.inv_freq$|\battn\.(masked_)?bias$|^v_head\.")
"""Stored tensors that a policy does without: derived rotary and mask buffers, a trainer's value head."""
SAMPLING_FIELDS = (
    *("do_sample", "temperature", "top_p", "top_k", "min_p", "typical_p", "epsilon_cutoff", "eta_cutoff"),
    *("repetition_penalty", "no_repeat_ngram_size", "suppress_tokens", "begin_suppress_tokens", "bad_words_ids"),
    *("num_beams", "guidance_scale", "max_length", "max_new_tokens"),
)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A loaded policy.

    `model` is in eval mode on `device` in `dtype`; `fingerprint` is the sha256 (hex) of the weights' content;
    `end_ids` are all tokens that end a completion; `folder` holds the files (None for a GGUF file).
    `generation_defaults` is what its generation_config.json says about sampling: recorded, never applied.
    """

    name: str
    model: "PreTrainedModel" = field(repr=False)
    tokenizer: "PreTrainedTokenizerBase" = field(repr=False)
    fingerprint: str
    device: "torch.device"
    dtype: "torch.dtype"
    end_ids: tuple[int, ...]
    folder: Path | None = None
    generation_defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def vocabulary_size(self) -> int:
        """Rows of the language-model head, V; may exceed `tokenizer_size` (padded rows)."""
        return int(self.model.get_output_embeddings().weight.shape[0])

    @cached_property
    def tokenizer_size(self) -> int:
        """Ids that the tokenizer reaches: its largest id, added tokens included, plus one."""
        return max(self.tokenizer.get_vocab().values()) + 1

    @property
    def has_chat_template(self) -> bool:
        """Whether messages can be written in the checkpoint's own chat format."""
        return bool(self.tokenizer.chat_template)

    def describe(self) -> str:
        """One line for people: name, size, device, dtype."""
        short = Path(self.name).name.removesuffix(".gguf") or self.name
        dtype = str(self.dtype).removeprefix("torch.")
        return f"{short}, {_short_count(self.model.num_parameters())} parameters on {self.device}, {dtype}"


def load_checkpoint(
    name: str | Path, *, device: str = "auto", dtype: str = "auto", trust_remote_code: bool = False
) -> Checkpoint:
    """Load `builtin:NAME`, a folder (safetensors), a `.gguf` file or a hub id.

    `device` is auto, cpu, cuda, cuda:N or mps; `dtype` is auto, float32, bfloat16, float16 or float64 (auto: bfloat16
    for 16-bit weights on CUDA, else float32). Code that comes with a checkpoint runs only with `trust_remote_code`.
    Raises `InputError` for all that is wrong with the files: within seconds, but for weights that do not match the
    configuration or are not finite, which show once they are loaded.
    """
    name = str(name)
    source = find_source(name, trust_remote_code)
    place = choose_device(device)
    weights = _inspect(source, trust_remote_code)
    kind = choose_dtype(dtype, place, weights.sixteen_bit)
    check_memory(name, weights, place, kind)
    with quiet_libraries(), shared_gguf_tables() if source.gguf else contextlib.nullcontext():
        config = _load_config(source, trust_remote_code)
        tokenizer = _load_tokenizer(source, trust_remote_code)
        _check_vocabulary(name, tokenizer, getattr(config.get_text_config(), "vocab_size", None))
        model, loading = _load_model(source, config, place, kind, trust_remote_code)
    _check_loading(name, loading)
    _check_model(name, model)
    _check_vocabulary(name, tokenizer, model.get_output_embeddings().weight.shape[0])
    defaults = model.generation_config.to_diff_dict() if model.generation_config is not None else {}
    return Checkpoint(
        name=name,
        model=model.eval(),
        tokenizer=tokenizer,
        fingerprint=weights.fingerprint,
        device=place,
        dtype=kind,
        end_ids=end_ids(model, tokenizer),
        folder=None if source.gguf else source.path,
        generation_defaults={key: defaults[key] for key in SAMPLING_FIELDS if key in defaults},
    )


def _inspect(source: Source, trust_remote_code: bool) -> Weights:
    try:
        if source.gguf:
            return inspect_gguf(source.path)
        check_folder(source, trust_remote_code)
        return inspect_folder(source.path, source.name)
    except OSError as error:
        raise InputError(f"{source.name}: {error.filename} cannot be read ({error.strerror}); check it.") from error


def _arguments(source: Source, trust_remote_code: bool) -> dict[str, Any]:
    folder = source.path.parent if source.gguf else source.path
    arguments = {
        "pretrained_model_name_or_path": str(folder),
        "local_files_only": True,
        "trust_remote_code": trust_remote_code,
    }
    return arguments | ({"gguf_file": source.path.name} if source.gguf else {})


def _load_config(source: Source, trust_remote_code: bool) -> "PreTrainedConfig":
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, AutoConfig

    with _naming(source.name, "configuration"):
        config = AutoConfig.from_pretrained(**_arguments(source, trust_remote_code))
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING and not (trust_remote_code and hasattr(config, "auto_map")):
        raise InputError(
            f"{source.name} is a {config.model_type} model, not a causal language model; nothing to sample."
        )
    return config


def _load_tokenizer(source: Source, trust_remote_code: bool) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    with _naming(source.name, "tokenizer"):
        return AutoTokenizer.from_pretrained(**_arguments(source, trust_remote_code))


def _load_model(
    source: Source, config: "PreTrainedConfig", device: "torch.device", dtype: "torch.dtype", trust_remote_code: bool
) -> "tuple[PreTrainedModel, dict[str, Any]]":
    import transformers

    arguments = _arguments(source, trust_remote_code) | {"config": config, "dtype": dtype}
    if device.type != "cpu":
        arguments["device_map"] = {"": device}  # straight to the device, without a copy in host memory
    if source.gguf:
        # Exact scoring needs plain weights; a transformers without GgufConfig unpacks them without being asked.
        packing = getattr(transformers, "GgufConfig", None)
        arguments["quantization_config"] = packing and packing(dequantize=True)
    else:
        arguments["use_safetensors"] = True
    with _naming(source.name, "model"):
        # Sizes that differ are let through here and reported by `_check_loading` with their names.
        return transformers.AutoModelForCausalLM.from_pretrained(  # type: ignore[return-value]
            **arguments, output_loading_info=True, ignore_mismatched_sizes=True
        )


@contextlib.contextmanager
def _naming(name: str, part: str) -> Iterator[None]:
    """Turn what a library raises while it reads a checkpoint's files into an `InputError` that names them."""
    import torch
    import transformers

    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise InputError(
            f"{name} does not fit into memory; use a 16-bit dtype, another device or a smaller one."
        ) from error
    except Exception as error:  # the files come from outside, and the libraries raise all kinds on bad ones
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"{name}: its {part} cannot be loaded with transformers {transformers.__version__} "
            f"({type(error).__name__}: {reason}); check its files, or try a newer transformers."
        ) from error


def _check_vocabulary(name: str, tokenizer: "PreTrainedTokenizerBase", rows: int | None) -> None:
    """Fewer tokens than rows is common (padding); more would index past the embedding."""
    largest = max(tokenizer.get_vocab().values(), default=-1)
    if largest < 0:
        raise InputError(f"{name} has an empty tokenizer; copy its base model's tokenizer files into the folder.")
    if rows is not None and largest >= rows:
        raise InputError(
            f"{name}: its tokenizer has ids up to {largest}, its model only {rows} embedding rows; use the tokenizer "
            "it was trained with, or resize the embeddings and save again."
        )


def _check_loading(name: str, loading: Mapping[str, Any]) -> None:
    """Weights that do not match the configuration are an error: the model would be partly random."""
    unexpected = [key for key in loading["unexpected_keys"] if not BENIGN.search(key)]
    mismatched = [f"{key} {tuple(stored)} for {tuple(wanted)}" for key, stored, wanted in loading["mismatched_keys"]]
    problems = [
        f"{len(keys)} {what} ({', '.join(sorted(keys)[:3])}{', …' if len(keys) > 3 else ''})"
        for what, keys in (
            ("missing", loading["missing_keys"]),
            ("unknown to the model", unexpected),
            ("of another shape", mismatched),
            ("unreadable", loading.get("error_msgs") or []),
        )
        if keys
    ]
    if problems:
        raise InputError(
            f"{name}: its weights do not match its config.json: {'; '.join(problems)}; fetch or save both anew."
        )


def _check_model(name: str, model: "PreTrainedModel") -> None:
    import torch

    if model.get_output_embeddings() is None:
        raise InputError(f"{name} has no language-model head; it cannot be sampled.")
    for key, tensor in model.named_parameters():
        if tensor.is_floating_point() and tensor.element_size() > 1 and not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"{name}: {key} holds NaN or infinity in {str(tensor.dtype).removeprefix('torch.')}; its training "
                "diverged, use an earlier checkpoint (or a wider dtype)."
            )


def _short_count(count: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count)
