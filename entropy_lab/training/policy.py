"""The policy while it is trained: packed token ids in, log-probs and entropies with exact gradients out.

Every context is computed once for all the rows that continue it, contexts that begin alike once too, and nothing is
padded but inside attention. Models whose attention is not plain run padded rows through their own forward pass.
Shape letters: T packed tokens, R rows, C leaf contexts, P context length, L row length, N completion tokens, H hidden,
D head size.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel

from entropy_lab.checkpoints.head import Head, head_of
from entropy_lab.engines.policy import Policy
from entropy_lab.engines.shared_prompt_cache import UNDERSTOOD, NotPlainAttention, plain_layers
from entropy_lab.scoring.kernel import token_statistics
from entropy_lab.training.batch import Batch, Ids
from entropy_lab.training.tokens import Now

ATTENTION = "entropy_lab_packed"
TOLERANCE = 1e-3  # of the largest hidden state, between packed and padded passes; ours


@dataclass(frozen=True)
class Layout:
    """Where each packed token stands. Leaves come first, then every row's own tokens; the last of a row is never read.

    `context_CP` and `row_RL` hold packed positions (0 beyond a length), `predict_N` where each completion token is
    predicted, `visible_RK` which of its leaf's P tokens and its own L a row may see at all.
    """

    ids_T: Tensor
    position_T: Tensor
    context_CP: Tensor
    leaf_R: Tensor
    row_RL: Tensor
    mask_R1LK: Tensor
    context_valid_CP: Tensor
    row_valid_RL: Tensor
    predict_N: Tensor


def layout(contexts: Sequence[Ids], context_R: Ids, completions: Sequence[Ids], device: torch.device) -> Layout:
    """Pack contexts and completions; `context_R` names each row's context."""
    leaf_of, leaves = _leaves(contexts, sorted(set(context_R.tolist())))
    lengths_C = np.array([len(contexts[one]) for one in leaves])
    starts_C = np.cumsum(lengths_C) - lengths_C
    given_R = np.array([len(contexts[one]) for one in context_R])
    own_R = np.array([len(ids) - 1 for ids in completions])
    starts_R = lengths_C.sum() + np.cumsum(own_R) - own_R
    leaf_R = np.array([leaf_of[one] for one in context_R.tolist()])
    ids_T = np.concatenate([*(contexts[one] for one in leaves), *(ids[:-1] for ids in completions)])
    position_T = np.concatenate(
        [*map(np.arange, lengths_C), *(given + np.arange(own) for given, own in zip(given_R, own_R, strict=True))]
    )
    context_CP, context_valid_CP = _places(starts_C, lengths_C)
    row_RL, row_valid_RL = _places(starts_R, own_R)
    P, L = context_CP.shape[1], row_RL.shape[1]
    sees_context_RP = np.arange(P) < given_R[:, None]
    causal_LL = np.tril(np.ones((L, L), bool))
    mask_RLK = np.concatenate(
        [np.repeat(sees_context_RP[:, None], L, 1), np.repeat(causal_LL[None], len(given_R), 0)], axis=2
    )
    first_R = starts_C[leaf_R] + given_R - 1  # the context's last token predicts the first of the completion
    predict_N = np.concatenate(
        [
            np.concatenate([[first], start + np.arange(own)])
            for first, start, own in zip(first_R, starts_R, own_R, strict=True)
        ]
    )
    arrays = (
        ids_T,
        position_T,
        context_CP,
        leaf_R,
        row_RL,
        mask_RLK[:, None],
        context_valid_CP,
        row_valid_RL,
        predict_N,
    )
    return Layout(*(torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays))


def _leaves(contexts: Sequence[Ids], used: Sequence[int]) -> tuple[dict[int, int], list[int]]:
    """Contexts that no other one continues, and for each used context which of them holds it (by place)."""
    ordered = sorted(used, key=lambda one: contexts[one].tolist())
    leaves: list[int] = []
    leaf_of: dict[int, int] = {}
    for one in reversed(ordered):  # whatever continues a context stands right after it
        ids = contexts[one]
        if not leaves or not np.array_equal(contexts[leaves[-1]][: len(ids)], ids):
            leaves.append(one)
        leaf_of[one] = len(leaves) - 1
    return leaf_of, leaves


def _places(starts: NDArray[Any], lengths: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Packed positions on a padded grid, and which of its places are real."""
    steps = np.arange(max(int(lengths.max()), 1))
    valid = steps < lengths[:, None]
    return np.where(valid, starts[:, None] + steps, 0).astype(np.int64), valid


def packed_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    is_causal: bool | None = None,
    packed: Layout | None = None,
    **extras: Any,
) -> tuple[Tensor, None]:
    """The function transformers calls in every layer: [1, heads, T, D] in, [1, T, heads, D] out.

    Leaves attend causally among themselves; rows over what they were given and their own earlier tokens, in one
    softmax.
    """
    asked = {name for name, value in extras.items() if value is not None and value is not False}
    unknown = sorted(asked - UNDERSTOOD)
    if attention_mask is not None or is_causal is False or unknown:
        raise NotPlainAttention(f"its attention takes {', '.join(unknown) or 'a mask of its own'}")
    if packed is None:
        raise NotPlainAttention("it does not hand arguments on to its attention")
    q_TD, k_TD, v_TD = (one[0].transpose(0, 1) for one in (query, key, value))
    grouped = query.shape[1] != key.shape[1]

    def grid(one_TD: Tensor, places: Tensor) -> Tensor:
        return one_TD[places].transpose(1, 2)

    attend = nn.functional.scaled_dot_product_attention
    k_C, v_C = grid(k_TD, packed.context_CP), grid(v_TD, packed.context_CP)
    mixed_C = attend(grid(q_TD, packed.context_CP), k_C, v_C, is_causal=True, scale=scaling, enable_gqa=grouped)
    parts = [mixed_C.transpose(1, 2)[packed.context_valid_CP]]
    if packed.row_valid_RL.any():
        k_R = torch.cat([k_C[packed.leaf_R], grid(k_TD, packed.row_RL)], dim=2)
        v_R = torch.cat([v_C[packed.leaf_R], grid(v_TD, packed.row_RL)], dim=2)
        q_R = grid(q_TD, packed.row_RL)
        mixed_R = attend(q_R, k_R, v_R, attn_mask=packed.mask_R1LK, scale=scaling, enable_gqa=grouped)
        parts.append(mixed_R.transpose(1, 2)[packed.row_valid_RL])
    return torch.cat(parts)[None], None


AttentionInterface.register(ATTENTION, packed_attention)


class TrainedPolicy:
    """`model` as the update sees it: a twin that shares its weights, in packed or padded form.

    `value_head`, `uniform` and `twins` ask for those columns beside log-probs and entropies. `dtype` below float32 runs
    the decoder under autocast; head, log-probs and losses stay float32.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        temperature: float = 1.0,
        dtype: torch.dtype = torch.float32,
        softmax_fix: bool = False,
        value_head: nn.Linear | None = None,
        uniform: bool = False,
        twins: bool = False,
    ) -> None:
        self.model = model
        self.device = next(model.parameters()).device
        self.temperature = temperature
        self.dtype = dtype
        self.softmax_fix = softmax_fix
        self.value_head = value_head
        self.uniform = uniform
        self.twins = twins
        self.forward_tokens = 0
        """Tokens sent through the decoder so far, padding included."""
        self._plain = Policy(model)
        self._packed = self._packing_twin()

    @property
    def packs(self) -> bool:
        """Whether contexts are shared and nothing is padded."""
        return self._packed is not None

    def __call__(self, batch: Batch, rows: Ids) -> Now:
        """The columns of these rows' tokens, in their order; gradients as the caller's grad mode has it."""
        hidden_NH = self._hidden(batch.contexts, batch.context_R[rows], [batch.completions[row] for row in rows])
        targets_N = torch.from_numpy(np.concatenate([batch.completions[row] for row in rows])).to(self.device)
        head = head_of(self.model)
        found = token_statistics(
            hidden_NH,
            head.weight_VH,
            targets_N,
            temperature=self.temperature,
            bias=head.bias,
            soft_cap=head.soft_cap,
            scale=head.scale,
            softmax_fix=self.softmax_fix,
        )
        value_N = None if self.value_head is None else self.value_head(hidden_NH.float())[:, 0]
        uniform_N = None
        if self.uniform and head.soft_cap is None:  # the mean of capped logits is not that of the weights
            uniform_N = _uniform(head, hidden_NH, targets_N, found.logprob_N, self.temperature)
        gap_N = self._twin_gap(head, hidden_NH, targets_N, batch, rows) if self.twins else None
        return Now(found.logprob_N, found.entropy_N, uniform_N, value_N, gap_N)

    def _twin_gap(self, head: Head, hidden_NH: Tensor, targets_N: Tensor, batch: Batch, rows: Ids) -> Tensor | None:
        if batch.twins is None:
            return None
        twins_N = torch.from_numpy(np.concatenate([batch.twins[row] for row in rows])).to(self.device)
        gap_N = _logits_of(head, hidden_NH, targets_N) - _logits_of(head, hidden_NH, twins_N)
        return gap_N / self.temperature

    def _hidden(self, contexts: Sequence[Ids], context_R: Ids, completions: Sequence[Ids]) -> Tensor:
        with self._autocast():
            pass_ = self._packed_hidden if self._packed is not None else self._padded_hidden
            return pass_(contexts, context_R, completions)

    def _packed_hidden(self, contexts: Sequence[Ids], context_R: Ids, completions: Sequence[Ids]) -> Tensor:
        places = layout(contexts, context_R, completions, self.device)
        self.forward_tokens += len(places.ids_T)
        policy = cast(Policy, self._packed)
        hidden = policy.hidden(places.ids_T[None], places.position_T[None], use_cache=False, packed=places)
        return hidden[0][places.predict_N]

    def _padded_hidden(self, contexts: Sequence[Ids], context_R: Ids, completions: Sequence[Ids]) -> Tensor:
        """Rows as they are, padded on the right, where a causal model cannot see the padding."""
        rows = [np.concatenate((contexts[one], ids[:-1])) for one, ids in zip(context_R, completions, strict=True)]
        ids_RL = np.zeros((len(rows), max(map(len, rows))), np.int64)
        predicts_RL = np.zeros(ids_RL.shape, bool)
        for place, (row, completion) in enumerate(zip(rows, completions, strict=True)):
            ids_RL[place, : len(row)] = row
            predicts_RL[place, len(row) - len(completion) : len(row)] = True
        self.forward_tokens += ids_RL.size
        ids = torch.from_numpy(ids_RL).to(self.device)
        hidden = self._plain.hidden(ids, torch.arange(ids.shape[1], device=self.device)[None], use_cache=False)
        return hidden[torch.from_numpy(predicts_RL).to(self.device)]

    def _autocast(self) -> AbstractContextManager[Any]:
        if self.dtype == torch.float32:
            return nullcontext()
        return torch.autocast(self.device.type, self.dtype)

    def _packing_twin(self) -> Policy | None:
        """A twin with packed attention, if it gives the hidden states of padded rows."""
        contexts = [np.array(ids) % self._plain.vocabulary_size for ids in ([1, 8, 15, 22], [1, 8], [3, 5, 7])]
        completions = [np.array(ids) % self._plain.vocabulary_size for ids in ([2, 4, 6], [9], [4, 4], [11, 12, 13])]
        context_R = np.array([0, 1, 1, 2])
        try:
            twin = Policy(self.model, ATTENTION)
            plain_layers(twin)
            self._packed = twin
            with torch.no_grad():
                packed = self._packed_hidden(contexts, context_R, completions).float()
                padded = self._padded_hidden(contexts, context_R, completions).float()
        except NotPlainAttention:
            return None
        finally:
            self.forward_tokens = 0
        close = (packed - padded).abs().max() <= TOLERANCE * padded.abs().max().clamp(min=1.0)
        return twin if bool(close) else None


def _uniform(head: Head, hidden_NH: Tensor, targets_N: Tensor, logprob_N: Tensor, temperature: float) -> Tensor:
    """Mean log-probability over the vocabulary: the mean logit less the log-sum-exp, which the target gives away."""
    weight_VH = head.weight_VH.float()
    wide_NH = hidden_NH.float() * head.scale
    mean_N = wide_NH @ weight_VH.mean(0)
    target_N = (wide_NH * weight_VH[targets_N]).sum(1)
    if head.bias is not None:
        mean_N = mean_N + head.bias.float().mean()
        target_N = target_N + head.bias.float()[targets_N]
    return (mean_N - target_N) / temperature + logprob_N


def _logits_of(head: Head, hidden_NH: Tensor, ids_N: Tensor) -> Tensor:
    """One logit a position, (N,), float32."""
    logit_N = (hidden_NH.float() * head.weight_VH[ids_N].float()).sum(1) * head.scale
    if head.bias is not None:
        logit_N = logit_N + head.bias.float()[ids_N]
    return logit_N if head.soft_cap is None else head.soft_cap * torch.tanh(logit_N / head.soft_cap)
