"""Keys and values of a batch in which every prompt is computed and held once, however many rows continue it.

A row's attention has two parts: over the prompt that it shares with its siblings, where all rows of a prompt form one
matrix product, and over its own completion. Each part is a softmax of its own; their log-sum-exps say how to mix
them. A prompt that begins another one is not computed again: causal attention gives it the other's keys and values.
Knows plain causal attention only, and raises `NotPlainAttention` where a model asks for anything else.

Shape letters: R rows, C contexts (prompts) of a bucket, K key-value heads, G query heads a key-value head, D head size,
T completion length, H hidden size.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AttentionInterface, DynamicCache
from transformers.cache_utils import DynamicLayer

from entropy_lab.engines.policy import Policy
from entropy_lab.engines.prompt_buckets import Bucket, bucketed, leaves, product

ATTENTION = "entropy_lab_shared_prompt"
GROWTH = 64  # completion positions allotted at a time; ours
UNDERSTOOD = {"position_ids", "position_embeddings", "cache_position"}  # arguments that change no attention weight

NO_ARGUMENTS = "it does not hand arguments on to its attention"


class NotPlainAttention(Exception):
    """The model's attention is more than a causal softmax over all earlier positions."""


class Pass(NamedTuple):
    """What a forward pass over contexts leaves behind: keys and values, a layer each, [contexts, K, longest, D]."""

    keys: list[Tensor]
    values: list[Tensor]


class SharedPromptCache:
    """One batch's keys and values; see `engines.decoding.DecodeCache` for the protocol.

    `forward_tokens` counts the tokens that went through the model, padding included.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._layers = plain_layers(policy)
        self._buckets: list[Bucket] = []
        self._filling: Pass | None = None
        self._context_R = np.zeros(0, np.int64)  # context of each row, ascending
        self._position_R = torch.empty(0, dtype=torch.int64)  # of the next token to be fed
        self.forward_tokens = 0
        self._length = 0  # completion tokens held
        self._keys: list[Tensor] = []  # a layer: [R or more, K, T or more, D]
        self._values: list[Tensor] = []

    def prefill(self, contexts: Sequence[Sequence[int]], counts: Sequence[int]) -> Tensor:
        """Compute every token of a context once; the final hidden state [R, H] of its last one for each of its rows.

        A context that begins another one takes its part of what is computed for the longest of them.
        """
        leaf_C, length_C = leaves(contexts), np.array([len(context) for context in contexts])
        runs = bucketed(contexts, counts)
        members = np.split(np.arange(len(contexts)), np.cumsum([len(run) for run, _ in runs])[:-1])
        passes: dict[int, tuple[Pass, int]] = {}  # of a leaf, and its row there
        last: dict[int, Tensor] = {}
        for run_C in members:
            own_C = run_C[leaf_C[run_C] == run_C]
            if len(own_C):
                computed, hidden = self._compute([contexts[one] for one in own_C])
                passes |= {int(one): (computed, row) for row, one in enumerate(own_C)}
                served_C = np.flatnonzero(np.isin(leaf_C, own_C))
                row_C = np.searchsorted(own_C, leaf_C[served_C])
                taken = hidden[self._tensor(row_C), self._tensor(length_C[served_C] - 1)]
                last |= dict(zip(served_C.tolist(), taken, strict=True))
        for (run, rows), run_C in zip(runs, members, strict=True):
            bucket = Bucket([len(context) for context in run], self._policy.device)
            bucket.place(np.array(rows))
            held = [passes[leaf] for leaf in leaf_C[run_C].tolist()]
            if (leaf_C[run_C] == run_C).all():
                bucket.keys, bucket.values = held[0][0]
            else:
                bucket.keys, bucket.values = (
                    [bucket.gather([of[part][layer][row] for of, row in held]) for layer in range(self._layers)]
                    for part in (0, 1)
                )
            self._buckets.append(bucket)
        self._context_R = np.repeat(np.arange(len(contexts)), counts)
        self._position_R = self._tensor(np.repeat(length_C, counts))
        return torch.stack([last[one] for one in range(len(contexts))])[self._tensor(self._context_R)]

    def _compute(self, contexts: Sequence[Sequence[int]]) -> tuple[Pass, Tensor]:
        """One forward pass over contexts padded to the longest; also the final hidden states [contexts, longest, H]."""
        ids = np.zeros((len(contexts), max(map(len, contexts))), np.int64)
        for row, context in zip(ids, contexts, strict=True):
            row[: len(context)] = context
        computed = self._filling = Pass([], [])
        hidden = self._forward(self._tensor(ids), torch.arange(ids.shape[1], device=self._policy.device)[None])
        self._filling = None
        if len(computed.keys) != self._layers:
            raise NotPlainAttention(
                f"{len(computed.keys)} of its {self._layers} layers let their attention be replaced"
            )
        return computed, hidden

    def step(self, token_R: Tensor) -> Tensor:
        """Feed one token a row; its final hidden state, [R, H]."""
        if self._length % GROWTH == 0:
            self._grow()
        hidden = self._forward(token_R[:, None], self._position_R[:, None])
        self._position_R = self._position_R + 1
        self._length += 1
        return hidden[:, 0]

    def keep(self, kept_R: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Drop the other rows; which old row stands where now.

        Rows stay together by context. Only rows that must move are copied, so that dropping a few rows of a large
        batch costs a few rows.
        """
        context_R = self._context_R[kept_R]
        order = np.arange(len(context_R))
        stays = kept_R[: len(order)] & (self._context_R[: len(order)] == context_R)
        moved = kept_R.copy()
        moved[: len(order)] &= ~stays
        order[~stays] = np.flatnonzero(moved)  # both ascending, with as many rows of each context
        if not stays.all():
            target, source = self._tensor(np.flatnonzero(~stays)), self._tensor(order[~stays])
            for tensor in (*self._keys, *self._values):
                held = tensor[:, :, : self._length]
                held[target] = held[source]
        self._position_R = self._position_R[self._tensor(order)]
        self._context_R = context_R
        sizes = [len(bucket.lengths_C) for bucket in self._buckets]
        rows_C = np.bincount(context_R, minlength=sum(sizes))
        for bucket, rows in zip(self._buckets, np.split(rows_C, np.cumsum(sizes)[:-1]), strict=True):
            bucket.place(rows)
        return order

    def _tensor(self, array: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(array).to(self._policy.device)

    def _forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        self.forward_tokens += ids.numel()
        return self._policy.hidden(ids, positions, use_cache=False, shared_prompt_cache=self)

    def _grow(self) -> None:
        """Make room for `GROWTH` more completion positions, a layer at a time."""
        rows = len(self._context_R)
        prompt = self._buckets[0]
        for own, prompts in ((self._keys, prompt.keys), (self._values, prompt.values)):
            for layer, like in enumerate(prompts):
                grown = like.new_empty(rows, like.shape[1], self._length + GROWTH, like.shape[3])
                if self._length == 0:
                    own.append(grown)
                else:
                    grown[:, :, : self._length] = own[layer][:rows, :, : self._length]
                    own[layer] = grown

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float) -> Tensor:
        """Store `key` and `value` of a layer, and attend from `query`; all [rows, heads, tokens, D]."""
        if self._filling is not None:
            return self._attend_prompt(self._filling, layer, query, key, value, scaling)
        R, K, _, D = key.shape
        T = self._length + 1
        keys, values = self._keys[layer][:R], self._values[layer][:R]
        keys[:, :, T - 1] = key[:, :, 0]
        values[:, :, T - 1] = value[:, :, 0]
        query_RKGD = query.reshape(R, K, -1, D).to(keys.dtype)
        scores = product(query_RKGD.flatten(0, 1), keys.flatten(0, 1)[:, :T].transpose(1, 2)).mul_(scaling)
        own = product(scores.softmax(-1), values.flatten(0, 1)[:, :T]).view(R, K, -1, values.shape[-1])
        own_mass = scores.logsumexp(-1).view(R, K, -1)
        parts, first = [], 0
        for bucket in self._buckets:
            if bucket.rows:
                parts.append(bucket.attend(layer, query_RKGD[first : first + bucket.rows], scaling))
                first += bucket.rows
        prompt = torch.cat([mixed for mixed, _ in parts])
        prompt_mass = torch.cat([mass for _, mass in parts])
        share = torch.sigmoid(own_mass - prompt_mass)[..., None]
        return torch.lerp(prompt, own, share).to(query.dtype).reshape(R, 1, -1, values.shape[-1])

    def _attend_prompt(
        self, computed: Pass, layer: int, query: Tensor, key: Tensor, value: Tensor, scaling: float
    ) -> Tensor:
        if layer != len(computed.keys) or query.shape[1] % key.shape[1]:
            raise NotPlainAttention(f"layer {layer} attends out of turn or with heads of its own arrangement")
        computed.keys.append(key.to(held_dtype(key)).contiguous())
        computed.values.append(value.to(held_dtype(key)).contiguous())
        # padding stands on the right, so a causal mask alone keeps real tokens from seeing it
        mixed = nn.functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=query.shape[1] != key.shape[1]
        )
        return mixed.transpose(1, 2).contiguous()


def held_dtype(like: Tensor) -> torch.dtype:
    """Dtype of stored keys: the model's where the device multiplies it into float32, else float32 or better."""
    return like.dtype if like.is_cuda else torch.promote_types(like.dtype, torch.float32)


def plain_layers(policy: Policy) -> int:
    """How many layers the model has, if all of them keep every position's keys and values.

    Raises:
        NotPlainAttention: a layer slides, chunks, shares, compresses or recurs instead, or cannot be told of a cache.
    """
    if not policy.hands_on:
        raise NotPlainAttention(NO_ARGUMENTS)
    layers = DynamicCache(config=policy.config).layers
    for index, layer in enumerate(layers):
        if type(layer) is not DynamicLayer:
            raise NotPlainAttention(f"layer {index} keeps a {type(layer).__name__}")
    return len(layers)


def shared_prompt_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    shared_prompt_cache: SharedPromptCache | None = None,
    **extras: Any,
) -> tuple[Tensor, None]:
    """The function transformers calls in every layer; returns [rows, tokens, heads, D] and no weights."""
    asked = {name for name, value in extras.items() if value is not None and value is not False}
    unknown = sorted(asked - UNDERSTOOD)
    if attention_mask is not None or is_causal is False or unknown:
        raise NotPlainAttention(f"its attention takes {', '.join(unknown) or 'a mask of its own'}")
    if shared_prompt_cache is None:
        raise NotPlainAttention(NO_ARGUMENTS)
    scaling = query.shape[-1] ** -0.5 if scaling is None else scaling
    return shared_prompt_cache.attend(cast(int, module.layer_idx), query, key, value, scaling), None


AttentionInterface.register(ATTENTION, shared_prompt_attention)
