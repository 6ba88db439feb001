"""A model as the decode loop sees it: token ids in, exact logits of the last positions out."""

import copy
import inspect
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from entropy_lab.checkpoints.head import head_of
from entropy_lab.errors import InputError

HEAD_TILE = 8192  # head rows cast to float32 at a time where a product cannot widen its result itself; ours


class Policy:
    """A twin of `model` that shares its weights and nothing else.

    The twin is in eval mode and may have an attention function of its own, while the model goes on training or
    scoring undisturbed; weights changed in place show in both. Logits are float32 or better whatever the model's
    dtype: the product of hidden states and head is widened, not its rounded result.

    Raises:
        InputError: the model has no head, or no decoder in front of it.
    """

    def __init__(self, model: PreTrainedModel, attention: str | None = None) -> None:
        shared = {id(tensor): tensor for tensor in chain(model.parameters(), model.buffers())}
        twin = copy.deepcopy(model, shared).eval()
        if attention is not None:
            twin.set_attn_implementation(attention)
        self.twin = twin
        self.decoder = twin.get_decoder()
        self.config = twin.config.get_text_config(decoder=True)
        self.device = next(model.parameters()).device
        self.dtype = next(model.parameters()).dtype
        if self.decoder is twin:
            raise InputError(
                f"{type(model).__name__} keeps its hidden states to itself, and the transformers engine cannot sample "
                "from it; sample elsewhere and read the rollouts."
            )
        self._head = head_of(twin)
        self._parameters = inspect.signature(self.decoder.forward).parameters
        self._workspace = torch.empty(0, device=self.device)

    @property
    def vocabulary_size(self) -> int:
        """Rows of the head, V."""
        return len(self._head.weight_VH)

    def accepts(self, argument: str) -> bool:
        """Whether the decoder's forward names this argument."""
        return argument in self._parameters

    @property
    def hands_on(self) -> bool:
        """Whether the decoder's forward takes arguments that it does not name, to hand them to its layers."""
        return any(parameter.kind is parameter.VAR_KEYWORD for parameter in self._parameters.values())

    def hidden(self, ids: Tensor, positions: Tensor, **cache: Any) -> Tensor:
        """Final hidden states of `ids` at `positions`, both shape (rows, tokens), in front of the head."""
        if self.accepts("position_ids"):
            cache["position_ids"] = positions
        return self.decoder(input_ids=ids, **cache).last_hidden_state

    def logits(self, hidden_NH: Tensor) -> Tensor:
        """Logits [N, V] in float32 or better; the tensor is overwritten by the next call."""
        head = self._head
        dtype = torch.promote_types(hidden_NH.dtype, torch.float32)
        size = len(hidden_NH) * self.vocabulary_size
        if self._workspace.numel() < size or self._workspace.dtype != dtype:
            self._workspace = torch.empty(size, dtype=dtype, device=hidden_NH.device)
        logits_NV = self._workspace[:size].view(len(hidden_NH), -1)
        if hidden_NH.dtype == dtype:
            torch.mm(hidden_NH, head.weight_VH.T, out=logits_NV)
        elif hidden_NH.is_cuda:
            torch.mm(hidden_NH, head.weight_VH.T, out_dtype=dtype, out=logits_NV)
        else:
            wide_NH = hidden_NH.to(dtype)
            for tile, part in zip(head.weight_VH.split(HEAD_TILE), logits_NV.split(HEAD_TILE, dim=1), strict=True):
                torch.mm(wide_NH, tile.to(dtype).T, out=part)
        if head.scale != 1:
            logits_NV.mul_(head.scale)
        if head.bias is not None:
            logits_NV.add_(head.bias)
        if head.soft_cap is not None:
            logits_NV.div_(head.soft_cap).tanh_().mul_(head.soft_cap)
        return logits_NV
