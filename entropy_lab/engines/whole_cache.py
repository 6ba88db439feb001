"""The cache for any architecture: transformers' own, filled by one context and repeated for its rows.

Sliding windows, soft-capped attention, sinks and recurrent states are the model's business here. One context a
batch, so that all rows have one length and nothing is padded.
"""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import DynamicCache

from entropy_lab.engines.policy import Policy
from entropy_lab.errors import InputError

ARGUMENTS = ("cache", "past_key_values", "cache_params")  # the names under which decoders take a cache


class WholeCache:
    """One context's cache; see `engines.decoding.DecodeCache` for the protocol."""

    def __init__(self, policy: Policy) -> None:
        argument = next((name for name in ARGUMENTS if policy.accepts(name)), None)
        if argument is None:
            raise InputError(
                f"Models of type {policy.config.model_type!r} take no cache of keys and values, and the transformers "
                "engine cannot sample from them; sample elsewhere and read the rollouts."
            )
        self._policy = policy
        self._argument = argument
        self._cache = DynamicCache(config=policy.config)
        self._length = 0  # tokens held in each row

    def prefill(self, contexts: Sequence[Sequence[int]], counts: Sequence[int]) -> Tensor:
        """Compute the one context and repeat it; the final hidden state [R, H] of its last token."""
        (context,), (count,) = contexts, counts
        hidden = self._forward(torch.tensor([list(context)], device=self._policy.device))
        self._select(np.zeros(count, np.int64))
        return hidden[:, -1].repeat(count, 1)

    def step(self, token_R: Tensor) -> Tensor:
        """Feed one token a row; its final hidden state, [R, H]."""
        return self._forward(token_R[:, None])[:, 0]

    def keep(self, kept_R: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Drop the other rows; which old row stands where now."""
        order = np.flatnonzero(kept_R)
        self._select(order)
        return order

    def _select(self, rows: NDArray[np.int64]) -> None:
        self._cache.reorder_cache(cast(torch.LongTensor, torch.from_numpy(rows).to(self._policy.device)))

    def _forward(self, ids: Tensor) -> Tensor:
        positions = torch.arange(self._length, self._length + ids.shape[1], device=ids.device)[None]
        hidden = self._policy.hidden(ids, positions, use_cache=True, **{self._argument: self._cache})
        self._length += ids.shape[1]
        return hidden
