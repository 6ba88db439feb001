"""The output head of a transformers model as tensors and numbers, and proof that it is the model's own."""

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
        z_NV = (hidden_NH.to(dtype) * self.scale) @ self.weight_VH.to(dtype).T
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


def hidden_states(model: "PreTrainedModel", ids_BL: Tensor, cache: "Cache | None" = None) -> "tuple[Tensor, Cache]":
    """Last hidden states (B, L, H) of `ids_BL` after whatever `cache` holds, and the grown cache; no padding."""
    output = model.base_model(input_ids=ids_BL, past_key_values=cache, use_cache=True)
    return output.last_hidden_state, output.past_key_values


@torch.inference_mode()
def check_head(model: "PreTrainedModel") -> Head:
    """Return `head_of(model)` once it has reproduced the model's own logits on eight ids.

    The hidden states come in two steps through the cache, as the teacher-forced pass computes them, so that a
    model whose cache cannot be continued by several tokens is found out too. Logits that are not finite are left to
    the pass, which knows their position.

    Raises `InputError` if the logits differ by more than the rounding of the model's type.
    """
    head = head_of(model)
    if model.base_model is model:
        raise InputError(f"{type(model).__name__} has no base model that gives hidden states; it cannot be scored.")
    ids_BL = (torch.arange(8, device=model.device) % head.vocabulary_size).unsqueeze(0)
    expected = model(input_ids=ids_BL).logits[0].to(torch.promote_types(model.dtype, torch.float32))
    first, cache = hidden_states(model, ids_BL[:, :4])
    second, _ = hidden_states(model, ids_BL[:, 4:], cache)
    ours = head.logits(torch.cat((first, second), 1)[0].to(head.weight_VH.device)).to(expected.device)
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
