"""The distribution in front of every completion token, and how its entropy leans along a direction in weight space.

Rows are padded and attention is written out, so that forward-mode differentiation passes through every operation.
Shape letters: R rows, L tokens of the longest, N completion tokens of all rows, n of one batch, H hidden, V vocabulary.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call
from transformers import PreTrainedModel

from entropy_lab.checkpoints.head import Head, head_of
from entropy_lab.engines.policy import Policy
from entropy_lab.training.batch import Batch

Floats = NDArray[np.float64]
Direction = Sequence[tuple[Tensor, Tensor]]
"""Parameters, and how fast each of them moves."""

_TOKENS = 8_192  # in one forward pass
_CELLS = 1 << 22  # logits held at a time


@dataclass(frozen=True)
class Positions:
    """Columns (N,) in nats, in the order of the batch's tokens.

    With p the distribution, s = −log p and H its entropy: `drift_N` is E_p[p(s − H)], `steepness_N` Σ p²(s − H)².
    """

    logprob_N: Floats
    entropy_N: Floats
    drift_N: Floats
    steepness_N: Floats


class PositionPass:
    """Passes over `batch` by `model` as its weights are at each call; equal weights give equal bits."""

    def __init__(self, model: PreTrainedModel, batch: Batch, temperature: float) -> None:
        self._policy = Policy(model, "eager")
        self._batch = batch
        self._temperature = temperature

    @torch.no_grad()
    def columns(self) -> Positions:
        """Log-probs, entropies and what the tabular law needs."""
        found = np.empty((4, self._tokens))
        for place_n, targets_n, hidden_nH in self._states({}):
            for part, logits_nV in self._logits(head_of(self._policy.twin), hidden_nH):
                logp_nV = torch.log_softmax(logits_nV, 1)
                p_nV = logp_nV.exp()
                s_nV = -_bounded(logp_nV)
                entropy_n = (p_nV * s_nV).sum(1)
                lean_nV = p_nV * (s_nV - entropy_n[:, None])  # −∂H/∂z, and E_p of it is the drift
                rows = (
                    logp_nV.gather(1, targets_n[part, None])[:, 0],
                    entropy_n,
                    (p_nV * lean_nV).sum(1),
                    lean_nV.square().sum(1),
                )
                found[:, place_n[part]] = torch.stack(rows).double().cpu().numpy()
        return Positions(*found)

    @torch.no_grad()
    def slopes(self, direction: Direction) -> Floats:
        """∇H_t · direction of each token, (N,), exact to rounding: a Jacobian-vector product in forward mode."""
        found = np.empty(self._tokens)
        with forward_ad.dual_level():
            moving = {id(weight): _moving(weight, speed) for weight, speed in direction}
            head = self._head(moving)
            for place_n, _, hidden_nH in self._states(moving):
                for part, logits_nV in self._logits(head, hidden_nH):
                    logp_nV = torch.log_softmax(logits_nV, 1)
                    entropy_n = -(logp_nV.exp() * _bounded(logp_nV)).sum(1)
                    slope_n = forward_ad.unpack_dual(entropy_n).tangent
                    found[place_n[part]] = 0.0 if slope_n is None else slope_n.double().cpu().numpy()
        return found

    @property
    def _tokens(self) -> int:
        return sum(map(len, self._batch.completions))

    def _states(self, moving: dict[int, Tensor]) -> Iterator[tuple[NDArray[np.int64], Tensor, Tensor]]:
        """Batches of rows: where their tokens stand, the tokens, the hidden states that predict them."""
        decoder: Any = self._policy.decoder
        weights = {name: moving[id(one)] for name, one in decoder.named_parameters() if id(one) in moving}
        ends_R = np.cumsum([len(ids) for ids in self._batch.completions])
        for rows in self._cut():
            ids_RL, predicts_RL = self._padded(rows)
            ids = torch.from_numpy(ids_RL).to(self._policy.device)
            arguments: dict[str, Any] = {"input_ids": ids, "use_cache": False}
            if self._policy.accepts("position_ids"):
                arguments["position_ids"] = torch.arange(ids.shape[1], device=ids.device)[None]
            hidden = functional_call(decoder, weights, kwargs=arguments).last_hidden_state
            completions = [self._batch.completions[row] for row in rows]
            ends_r = [(int(ends_R[row]), len(ids)) for row, ids in zip(rows, completions, strict=True)]
            place_n = np.concatenate([np.arange(end - length, end) for end, length in ends_r])
            targets_n = torch.from_numpy(np.concatenate(completions)).to(ids.device)
            yield place_n, targets_n, hidden[torch.from_numpy(predicts_RL).to(ids.device)]

    def _cut(self) -> list[list[int]]:
        """Rows of like length together, as many as the budget of tokens allows."""
        contexts, completions = self._batch.contexts, self._batch.completions
        length_R = [len(contexts[one]) + len(ids) for one, ids in zip(self._batch.context_R, completions, strict=True)]
        parts: list[list[int]] = []
        for row in sorted(range(len(length_R)), key=lambda row: -length_R[row]):
            if not parts or (len(parts[-1]) + 1) * length_R[parts[-1][0]] > _TOKENS:
                parts.append([])
            parts[-1].append(row)
        return parts

    def _padded(self, rows: Sequence[int]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Token ids, padded on the right where a causal model cannot see it, and where completions are predicted."""
        batch = self._batch
        texts = [np.concatenate((batch.contexts[batch.context_R[row]], batch.completions[row][:-1])) for row in rows]
        ids_RL = np.zeros((len(rows), max(map(len, texts))), np.int64)
        predicts_RL = np.zeros(ids_RL.shape, bool)
        for place, (row, text) in enumerate(zip(rows, texts, strict=True)):
            ids_RL[place, : len(text)] = text
            predicts_RL[place, len(text) - len(batch.completions[row]) : len(text)] = True
        return ids_RL, predicts_RL

    def _logits(self, head: Head, hidden_nH: Tensor) -> Iterator[tuple[slice, Tensor]]:
        step = max(1, _CELLS // head.vocabulary_size)
        for start in range(0, len(hidden_nH), step):
            part = slice(start, start + step)
            yield part, head.logits(hidden_nH[part]) / self._temperature

    def _head(self, moving: dict[int, Tensor]) -> Head:
        """The head with its weights in motion; one that is tied to the embeddings moves with them."""
        head, own = head_of(self._policy.twin), self._policy.twin.get_output_embeddings()
        bias = None if head.bias is None else moving.get(id(own.bias), own.bias) * head.scale
        return replace(head, weight_VH=moving.get(id(own.weight), own.weight), bias=bias)


def _moving(weight: Tensor, speed: Tensor) -> Tensor:
    with warnings.catch_warnings():  # the first one makes torch compile rules by a function that it calls deprecated
        warnings.simplefilter("ignore", DeprecationWarning)
        return forward_ad.make_dual(weight.detach(), speed)


def _bounded(logp_nV: Tensor) -> Tensor:
    """Finite, so that 0 · log 0 is 0."""
    return logp_nV.clamp(min=torch.finfo(logp_nV.dtype).min)
