"""Two checkpoints of one training run, compared without loading either: same architecture, same tokenizer, same layers.

Says which of their tensors belong to a block of layers, for what combines the two file by file.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from entropy_lab.checkpoints.load import BENIGN
from entropy_lab.checkpoints.quiet import quiet_libraries
from entropy_lab.checkpoints.source import Source, check_folder, find_source
from entropy_lab.checkpoints.weights import CHUNK, StoredTensor, inspect_folder, read_header, weight_files
from entropy_lab.errors import InputError

FLOATS = {"F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64"}
"""Stored types that can be interpolated, with their torch names; tensors of other types must be equal on both sides."""
ESSENTIALS = (
    *("model_type", "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads"),
    *("rope_parameters", "tie_word_embeddings"),
)
"""Fields of the configuration that must agree, or the same weights would mean something else."""
_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks)\.(\d+)\.")
_HEAD = re.compile(r"(?:^|\.)(?:lm_head|embed_out|output)\.weight$")
_ONE_RUN = "interpolation needs two checkpoints of one training run"


@dataclass(frozen=True)
class Cell:
    """What moves towards the early checkpoint, and how far: layers [start, stop), None for all weights, by `alpha`.

    With None, embeddings and head are interpolated too (ours). `InputError` unless 0 ≤ start < stop, 0 ≤ alpha ≤ 1.
    """

    layers: tuple[int, int] | None
    alpha: float

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:  # also refuses NaN
            raise InputError(f"--alpha is {self.alpha}; it is early's share of the weights, a number from 0 to 1.")
        if self.layers is not None and not 0 <= self.layers[0] < self.layers[1]:
            raise InputError(
                f"--layers is {self.block}; write START:STOP with 0 ≤ START < STOP, counted from 0, STOP not included."
            )

    @property
    def block(self) -> str:
        """`2:4`, or `global`."""
        return "global" if self.layers is None else f"{self.layers[0]}:{self.layers[1]}"

    @property
    def name(self) -> str:
        """`2:4 @ 0.3`; the name under which the cell is sampled and shown."""
        return f"{self.block} @ {str(self.alpha).removesuffix('.0')}"


@dataclass(frozen=True)
class Pair:
    """Two checkpoints that fit together.

    `tensors` are late's, in file order; `partners` maps their names to early's, without those that stay late's in any
    case (derived buffers, a trainer's value head). `fingerprints` are early's and late's.
    """

    early: Source
    late: Source
    tensors: tuple[StoredTensor, ...]
    partners: Mapping[str, StoredTensor]
    fingerprints: tuple[str, ...]

    @cached_property
    def depth(self) -> int:
        """Number of layers; `InputError` where tensor names do not tell them."""
        stacks: dict[str, set[int]] = {}
        for name in self.partners:
            if layer := _LAYER.search(name):
                stacks.setdefault(name[: layer.start(1)], set()).add(int(layer.group(1)))
        if len(stacks) != 1:
            found = f"several stacks ({', '.join(sorted(stacks))})" if stacks else "no .layers.N., .h.N. or .blocks.N."
            raise InputError(
                f"{self.late.name}: its layers cannot be told from the names of its tensors: {found}; "
                "--layers global interpolates all weights."
            )
        ((prefix, numbers),) = stacks.items()
        if numbers != set(range(len(numbers))):
            raise InputError(f"{self.late.name} has tensors of {prefix}{max(numbers)} but not of all layers before it.")
        return len(numbers)

    def moved(self, cell: Cell) -> dict[str, StoredTensor]:
        """Late's tensor names in the block of `cell`, with early's tensors.

        Raises:
            InputError: the block reaches past the last layer, or holds tensors that cannot be interpolated.
        """
        if cell.layers is None:
            moved = dict(self.partners)
        else:
            start, stop = cell.layers
            if stop > self.depth:
                raise InputError(
                    f"--layers {cell.block} reaches past the last layer: {self.late.name} has {self.depth} layers, "
                    f"so 0:{self.depth} is all of them."
                )
            moved = {
                name: tensor
                for name, tensor in self.partners.items()
                if (layer := _LAYER.search(name)) and start <= int(layer.group(1)) < stop
            }
        for late in self.tensors:
            early = moved.get(late.name)
            if early and not {late.dtype, early.dtype} <= FLOATS.keys():
                if late.dtype != early.dtype or any(
                    a != b for a, b in zip(stored_bytes(late), stored_bytes(early), strict=True)
                ):
                    raise InputError(
                        f"{late.name} is stored as {late.dtype} in {self.late.name} and {early.dtype} in "
                        f"{self.early.name}: only {', '.join(FLOATS)} can be interpolated; give checkpoints that are "
                        "not quantised."
                    )
                del moved[late.name]
        return moved


def open_pair(early: str, late: str, trust_remote_code: bool = False) -> Pair:
    """Find both checkpoints and check that they fit together; hashes both, loads neither.

    A tied head that only one of them stores is no difference.

    Raises:
        InputError: what is wrong with either (a GGUF file, damaged weights), or the first thing in which they differ:
            configuration, tensor names or shapes, tokenizer vocabulary.
    """
    first, second = (find_source(name, trust_remote_code) for name in (early, late))
    for source in (first, second):
        if source.gguf:
            raise InputError(
                f"{source.name} is a GGUF file, whose packed weights cannot be interpolated; give the safetensors "
                "checkpoint it was made from, or load_checkpoint it and save_checkpoint the result."
            )
        check_folder(source, trust_remote_code)
    fingerprints = tuple(inspect_folder(source.path, source.name).fingerprint for source in (first, second))
    if fingerprints[0] == fingerprints[1]:
        raise InputError(f"{early} and {late} hold the same weights; between them there is nothing to interpolate.")
    tied = _check_alike(first, second, trust_remote_code)
    tensors = _tensors(second)
    return Pair(first, second, tensors, _partners(first, second, _tensors(first), tensors, tied), fingerprints)


def _tensors(source: Source) -> tuple[StoredTensor, ...]:
    return tuple(tensor for file in weight_files(source.path, source.name) for tensor in read_header(file))


def _check_alike(early: Source, late: Source, trust_remote_code: bool) -> bool:
    """Compare configurations and vocabularies; gives back whether the head is tied to the embeddings."""
    (first, words), (second, other_words) = (_described(source, trust_remote_code) for source in (early, late))
    for field in ESSENTIALS:
        values = [getattr(config, field, None) for config in (first, second)]
        if values[0] != values[1]:
            raise InputError(
                f"{early.name} and {late.name} differ in {field} ({values[0]} and {values[1]}); {_ONE_RUN}."
            )
    if words != other_words:
        token = min(token for token in words.keys() | other_words.keys() if words.get(token) != other_words.get(token))
        raise InputError(
            f"{early.name} and {late.name} have different vocabularies (token {token!r} is {words.get(token)} and "
            f"{other_words.get(token)}); {_ONE_RUN} and one tokenizer."
        )
    return bool(second.tie_word_embeddings)


def _described(source: Source, trust_remote_code: bool) -> tuple[Any, dict[str, int]]:
    """The text model's configuration and the tokenizer's vocabulary."""
    from transformers import AutoConfig, AutoTokenizer

    arguments = {"local_files_only": True, "trust_remote_code": trust_remote_code}
    try:
        with quiet_libraries():
            config = AutoConfig.from_pretrained(str(source.path), **arguments)
            return config.get_text_config(), AutoTokenizer.from_pretrained(str(source.path), **arguments).get_vocab()
    except Exception as error:  # the files come from outside, and the library raises all kinds on bad ones
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            f"{source.name}: its configuration or tokenizer cannot be loaded ({type(error).__name__}: {reason})."
        ) from error


def _partners(
    early: Source, late: Source, early_tensors: Sequence[StoredTensor], late_tensors: Sequence[StoredTensor], tied: bool
) -> dict[str, StoredTensor]:
    """Late's tensor names with early's tensors; a tied head that early does not store is early's embedding."""
    firsts, seconds = (
        {tensor.name: tensor for tensor in tensors if not BENIGN.search(tensor.name)}
        for tensors in (early_tensors, late_tensors)
    )
    for name in sorted(firsts.keys() ^ seconds.keys()):
        holder, other = (early, late) if name in firsts else (late, early)
        if not (tied and _HEAD.search(name)):
            raise InputError(f"{holder.name} has the tensor {name}, {other.name} does not; {_ONE_RUN}.")
    for name in sorted(firsts.keys() & seconds.keys()):
        shapes = firsts[name].shape, seconds[name].shape
        if shapes[0] != shapes[1]:
            raise InputError(f"{name} has shape {shapes[0]} in {early.name}, {shapes[1]} in {late.name}; {_ONE_RUN}.")
    partners = {name: firsts[name] for name in seconds if name in firsts}
    for head in seconds.keys() - firsts.keys():
        embeddings = [
            tensor for name, tensor in firsts.items() if tensor.shape == seconds[head].shape and not _LAYER.search(name)
        ]
        if len(embeddings) != 1:
            raise InputError(f"{late.name} has the tensor {head}, {early.name} does not; {_ONE_RUN}.")
        partners[head] = embeddings[0]
    return partners


def stored_bytes(tensor: StoredTensor, size: int = CHUNK) -> Iterator[bytearray]:
    """The tensor's bytes in order, `size` at a time; `InputError` if the file became shorter."""
    with tensor.path.open("rb") as file:
        file.seek(tensor.start)
        for start in range(0, tensor.length, size):
            raw = bytearray(file.read(min(size, tensor.length - start)))
            if len(raw) < min(size, tensor.length - start):
                raise InputError(f"{tensor.path} became shorter while it was read; wait until it is written.")
            yield raw
