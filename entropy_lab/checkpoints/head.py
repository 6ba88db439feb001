"""The output head of a transformers model as tensors and numbers, and proof that it is the model's own."""

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from entropy_lab.errors import InputError

if TYPE_CHECKING:
    from transformers import Cache, PreTrainedModel

_TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Largest difference from the model's own logits, relative to the largest logit. Ours: a few roundings of the type."""

_MULTIPLIERS = ("logit_scale", "lm_head_multiplier", "output_multiplier")
_SOFT_CAPS = ("final_logit_softcapping", "logits_soft_cap")
_CACHE_ARGUMENTS = ("cache", "past_key_values")
"""Names under which decoders take a cache; transformers renamed it."""
_CAST_ROWS = 8192


@dataclass(frozen=True)
class Head:
    """What turns last hidden states into logits: soft_cap·tanh((scale·(hidden @ weightᵀ) + bias)/soft_cap)."""

    weight_VH: Tensor
    bias: Tensor | None = None
    soft_cap: float | None = None
    scale: float = 1.0

    @property
    def vocabulary_size(self) -> int:
        """V, the rows of the head, which may exceed the tokenizer's size."""
        return self.weight_VH.shape[0]

    def logits(self, hidden_NH: Tensor) -> Tensor:
        """Logits (N, V) in float32 or better, for a decode step's few rows; temperature 1."""
        dtype = torch.promote_types(self.weight_VH.dtype, torch.float32)
        scaled_NH = hidden_NH.to(dtype) * self.scale
        z_NV = torch.cat([scaled_NH @ rows.to(dtype).T for rows in self.weight_VH.split(_CAST_ROWS)], dim=1)
        if self.bias is not None:
            z_NV = z_NV + self.bias.to(dtype)
        return z_NV if self.soft_cap is None else self.soft_cap * torch.tanh(z_NV / self.soft_cap)


def head_of(model: "PreTrainedModel") -> Head:
    """Read the head from the output embeddings and from the scale and soft cap in the (text) configuration.

    Raises `InputError` for a model without output embeddings.
    """
    embeddings: Any = model.get_output_embeddings()
    if embeddings is None:
        raise InputError(f"{type(model).__name__} has no output head; load the checkpoint as a causal language model.")
    config = model.config.get_text_config()
    scale = 1.0
    for name in _MULTIPLIERS:
        scale *= getattr(config, name, None) or 1.0
    divisor = getattr(config, "logits_scaling", None) or 1.0
    # HyperCLOVA X multiplies by the number that Granite, under the same name, divides by.
    scale = scale * divisor if config.model_type.startswith("hyperclovax") else scale / divisor
    caps = [getattr(config, name, None) for name in _SOFT_CAPS]
    bias = getattr(embeddings, "bias", None)
    return Head(
        weight_VH=embeddings.weight,
        # transformers scales the linear layer's output, bias included.
        bias=bias if bias is None or scale == 1.0 else bias * scale,
        soft_cap=next((float(cap) for cap in caps if cap), None),
        scale=scale,
    )


def hidden_states(model: "PreTrainedModel", ids_BL: Tensor, cache: "Cache") -> Tensor:
    """Last hidden states (B, L, H) of `ids_BL`, unpadded, after what `cache` holds; the cache grows in place.

    Raises `InputError` for a model that has no decoder of its own or whose decoder takes no cache.
    """
    decoder = model.get_decoder()
    accepted = inspect.signature(decoder.forward).parameters
    argument = next((name for name in _CACHE_ARGUMENTS if name in accepted), None)
    if decoder is model or argument is None:
        raise InputError(
            f"{type(model).__name__} has no decoder that gives hidden states and takes a cache; it cannot be scored."
        )
    return decoder(input_ids=ids_BL, use_cache=True, **{argument: cache}).last_hidden_state


def new_cache(model: "PreTrainedModel") -> "Cache":
    """An empty cache for `model`."""
    from transformers import DynamicCache

    return DynamicCache(config=model.config.get_text_config())


@torch.inference_mode()
def check_head(model: "PreTrainedModel") -> Head:
    """Return `head_of(model)` once it has reproduced the model's own logits on eight ids.

    The hidden states come in two steps through the cache, as the teacher-forced pass computes them, so that a
    model whose cache cannot be continued by several tokens is found out too. Logits that are not finite are left to
    the pass, which knows their position.

    Raises `InputError` if the logits differ by more than the rounding of the model's type.
    """
    head = head_of(model)
    ids_BL = (torch.arange(8, device=model.device) % head.vocabulary_size).unsqueeze(0)
    expected = model(input_ids=ids_BL).logits[0].to(torch.promote_types(model.dtype, torch.float32))
    cache = new_cache(model)
    hidden_LH = torch.cat([hidden_states(model, part, cache)[0] for part in ids_BL.split(4, dim=1)])
    ours = head.logits(hidden_LH.to(head.weight_VH.device)).to(expected.device)
    finite = expected.isfinite()
    largest = torch.where(finite, expected, 0).abs().max().clamp(min=1e-6)
    error = float(torch.where(finite, ours - expected, 0).abs().max() / largest)
    limit = _TOLERANCE[model.dtype]
    if not error <= limit:
        raise InputError(
            f"{type(model).__name__}: logits computed from its hidden states and head differ from its own by "
            f"{error:.2g} of the largest (limit {limit:g} for {model.dtype}); it transforms its logits or its cache in "
            "a way entropy-lab does not know, so its entropy would be wrong."
        )
    return head
