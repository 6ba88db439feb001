"""The decode loop: one token a step for every row alive, until each row has ended.

Knows token ids, a `Policy` for logits and a `DecodeCache` for everything about keys and values; nothing of text,
architectures or memory. All rows of a loop start together, so their completions have the same length at any step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from entropy_lab.engines.drawing import Draws, draw
from entropy_lab.engines.policy import Policy
from entropy_lab.engines.protocol import FinishReason, Request, Sampling, Trajectory, trajectory_seed, uniforms
from entropy_lab.errors import InputError

UNIFORMS = 128  # numbers fetched at a time from each trajectory's stream; ours


class DecodeCache(Protocol):
    """What the loop asks of a cache. Shape letters: R rows alive, H hidden size."""

    def prefill(self, contexts: Sequence[Sequence[int]], counts: Sequence[int]) -> Tensor:
        """Compute contexts; the final hidden state [R, H] of the last token, `counts[c]` rows for context c."""

    def step(self, token_R: Tensor) -> Tensor:
        """Feed one token a row; its final hidden state, [R, H]."""

    def keep(self, kept_R: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Drop the other rows; the old row that stands at each row now."""


@dataclass(frozen=True)
class Row:
    """One trajectory to be: `budget` tokens at most."""

    request: Request
    sample_index: int
    seed: int
    budget: int


Contexts = Mapping[tuple[int, ...], list[Row]]
"""The rows that continue each prompt (and prefix)."""


def requests_of(rows: Sequence[Row]) -> list[Request]:
    """The requests that ask for exactly these rows, in their order; consecutive samples form one request."""
    requests: list[Request] = []
    previous: Row | None = None
    for row in rows:
        if previous is not None and row.request is previous.request and row.sample_index == previous.sample_index + 1:
            requests[-1] = replace(requests[-1], count=requests[-1].count + 1)
        else:
            requests.append(replace(row.request, first_sample=row.sample_index, count=1))
        previous = row
    return requests


def contexts_of(requests: Sequence[Request], sampling: Sampling, limit: int | None) -> Contexts:
    """Rows by context, contexts of similar size and length next to each other.

    `limit` is the longest sequence that the model can hold.

    Raises:
        InputError: a prompt is empty, or leaves no room for a token.
    """
    contexts: dict[tuple[int, ...], list[Row]] = {}
    for request in requests:
        context = request.prompt_ids + request.prefix_ids
        if not context:
            raise InputError(f"The prompt of problem {request.problem_id!r} has no tokens; give it at least one.")
        if limit is not None and len(context) >= limit:
            raise InputError(
                f"The prompt of problem {request.problem_id!r} has {len(context)} tokens, and the model's context "
                f"holds {limit}; shorten the prompt or take a model with a longer context."
            )
        budget = sampling.max_new_tokens if limit is None else min(sampling.max_new_tokens, limit - len(context))
        for index in range(request.first_sample, request.first_sample + request.count):
            seed = trajectory_seed(sampling.seed, request.problem_id, request.stream, index)
            contexts.setdefault(context, []).append(Row(request, index, seed, budget))
    return dict(sorted(contexts.items(), key=lambda item: (len(item[1]).bit_length(), len(item[0]))))


class Decoding:
    """One run of the loop over `contexts`; `trajectories` may be iterated once.

    Only ids below `vocabulary` exist, where it is given.
    """

    def __init__(
        self,
        policy: Policy,
        cache: DecodeCache,
        contexts: Contexts,
        sampling: Sampling,
        end_ids: Sequence[int],
        checkpoint: str,
        vocabulary: int | None = None,
    ) -> None:
        self._policy = policy
        self._cache = cache
        self._contexts = contexts
        self._sampling = sampling
        self._end_ids = np.array(sorted(end_ids), np.int64)
        self._checkpoint = checkpoint
        self._vocabulary = vocabulary
        self._rows = [row for rows in contexts.values() for row in rows]
        self._alive = np.arange(len(self._rows))  # the row of `_rows` that stands at each row of the cache
        self._budgets = np.array([row.budget for row in self._rows])
        self._length = 0
        size = (len(self._rows), int(self._budgets.max(initial=0)))
        self._tokens = np.empty(size, np.int32)
        self._statistics = np.empty((4, *size), np.float32)  # as in Draws: logprobs, logprob, entropy, varentropy
        self._uniforms = np.empty((len(self._rows), UNIFORMS))
        self._certainty = np.empty(size, np.float32) if sampling.certainty else None
        self._twins = np.empty(size, np.int32) if sampling.twins else None
        self._twin_uniforms = np.empty((len(self._rows), UNIFORMS)) if sampling.twins else None

    def unfinished(self) -> list[Request]:
        """Requests for the trajectories not yielded so far."""
        return requests_of([self._rows[row] for row in sorted(self._alive)])

    def trajectories(self) -> Iterator[Trajectory]:
        """Yield trajectories as they end.

        Raises:
            InputError: the model gave NaN or infinite logits.
        """
        if not self._rows:
            return
        hidden_RH = self._prefill()
        while True:
            ended, token_R = self._draw(hidden_RH)
            yield from ended
            if not len(self._alive):
                return
            hidden_RH = self._step(token_R)

    @torch.inference_mode()
    def _prefill(self) -> Tensor:
        return self._cache.prefill(list(self._contexts), [len(rows) for rows in self._contexts.values()])

    @torch.inference_mode()
    def _step(self, token_R: NDArray[np.int64]) -> Tensor:
        return self._cache.step(torch.from_numpy(token_R).to(self._policy.device))

    @torch.inference_mode()
    def _draw(self, hidden_RH: Tensor) -> tuple[list[Trajectory], NDArray[np.int64]]:
        """Draw a token for every row and drop the rows that end with it; the tokens of the others."""
        sampling = self._sampling
        logits_RV = self._policy.logits(hidden_RH)[:, : self._vocabulary]
        uniform_R, twin_uniform_R = self._next_uniforms()
        drawn = draw(
            logits_RV,
            uniform_R,
            sampling.temperature,
            sampling.top_k,
            sampling.top_p,
            certainty=sampling.certainty,
            twin_uniform_R=twin_uniform_R,
        )
        token_R = self._record(drawn)
        self._length += 1
        stopped_R = np.isin(token_R, self._end_ids)
        ended_R = stopped_R | (self._budgets[self._alive] <= self._length)
        if not ended_R.any():
            return [], token_R
        ended = [
            self._trajectory(row, "stop" if stopped else "length")
            for row, stopped in zip(self._alive[ended_R], stopped_R[ended_R], strict=True)
        ]
        if ended_R.all():
            self._alive = self._alive[:0]
            return ended, token_R[:0]
        order = self._cache.keep(~ended_R)
        self._alive = self._alive[order]
        return ended, token_R[order]

    def _next_uniforms(self) -> tuple[Tensor, Tensor | None]:
        """This step's number of every living row's stream, and of its twin's."""
        column = self._length % UNIFORMS
        if column == 0:
            for row in self._alive:
                seed = self._rows[row].seed
                self._uniforms[row] = uniforms(seed, self._length, UNIFORMS)
                if self._twin_uniforms is not None:
                    self._twin_uniforms[row] = uniforms(trajectory_seed(seed, "twin", "", 0), self._length, UNIFORMS)
        uniform_R = torch.from_numpy(self._uniforms[self._alive, column]).to(self._policy.device)
        if self._twin_uniforms is None:
            return uniform_R, None
        return uniform_R, torch.from_numpy(self._twin_uniforms[self._alive, column]).to(self._policy.device)

    def _record(self, draws: Draws) -> NDArray[np.int64]:
        """Write a step's tokens and statistics; the tokens."""
        token_R = draws.token_R.cpu().numpy()
        statistics = torch.stack(draws[1:5]).cpu().numpy()
        broken = np.flatnonzero(~np.isfinite(statistics[2]))
        if len(broken):
            request = self._rows[self._alive[broken[0]]].request
            raise InputError(
                f"{self._checkpoint} gives NaN or infinite logits for problem {request.problem_id!r} at completion "
                f"token {len(request.prefix_ids) + self._length}; check its weights, or load it in float32."
            )
        self._tokens[self._alive, self._length] = token_R
        self._statistics[:, self._alive, self._length] = statistics
        if self._certainty is not None and draws.certainty_R is not None:
            self._certainty[self._alive, self._length] = draws.certainty_R.cpu().numpy()
        if self._twins is not None and draws.twin_R is not None:
            self._twins[self._alive, self._length] = draws.twin_R.cpu().numpy()
        return token_R

    def _trajectory(self, index: int, reason: FinishReason) -> Trajectory:
        row = self._rows[index]
        statistics = self._statistics[:, index, : self._length].copy()
        return Trajectory(
            problem_id=row.request.problem_id,
            sample_index=row.sample_index,
            stream=row.request.stream,
            seed=row.seed,
            prompt_ids=row.request.prompt_ids,
            token_ids=self._tokens[index, : self._length].copy(),
            finish_reason=reason,
            temperature=self._sampling.temperature or 1.0,  # a greedy choice's statistics are those at 1
            logprobs=statistics[0],
            logprob=statistics[1],
            entropy=statistics[2],
            varentropy=statistics[3],
            certainty=None if self._certainty is None else self._certainty[index, : self._length].copy(),
            twin_ids=None if self._twins is None else self._twins[index, : self._length].copy(),
        )
