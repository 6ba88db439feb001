"""The teacher-forced pass: stored token ids in, exact statistics of every completion token out.

Each distinct prompt is run once; all its completions continue from its cache. Batches hold prompts of one length only
and completions are padded at their end only, so no token ever attends to padding and no mask is needed; padded
positions are dropped by length, never by value.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from entropy_lab.checkpoints.head import Head, check_head, hidden_states, new_cache
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress, Silent
from entropy_lab.scoring.kernel import FullStatistics, full_statistics
from entropy_lab.scoring.moments import NonFiniteLogits

if TYPE_CHECKING:
    from entropy_lab.checkpoints import Checkpoint

Ids = Sequence[int] | NDArray[np.integer]


@dataclass(frozen=True)
class Alternatives:
    """The m most probable ids at P positions of one completion, by falling probability."""

    positions: NDArray[np.int64]
    token_ids: NDArray[np.int64]
    """(P, m)"""
    probabilities: NDArray[np.float32]
    """(P, m)"""


@dataclass(frozen=True)
class TokenScores:
    """Statistics of one completion's T tokens, aligned with its ids, in nats; index t is about token t."""

    logprob: NDArray[np.float32]
    entropy: NDArray[np.float32]
    varentropy: NDArray[np.float32]
    unused_mass: NDArray[np.float32]
    """Probability of head rows that the tokenizer does not have, 0 where they are masked."""
    alternatives: Alternatives | None = None


@dataclass(frozen=True)
class _Pass:
    """What stays the same over all batches of one call."""

    checkpoint: "Checkpoint"
    head: Head
    problem_ids: Sequence[str]
    completions: list[NDArray[np.int64]]
    positions: Sequence[NDArray[np.integer]] | None
    temperature: float
    mask_unused: bool
    alternatives: int

    def positions_of(self, row: int) -> NDArray[np.int64]:
        """Where alternatives of trajectory `row` are wanted."""
        if self.positions is None:
            return np.arange(len(self.completions[row]))
        return np.asarray(self.positions[row], np.int64)


def score(
    checkpoint: "Checkpoint",
    problem_ids: Sequence[str],
    prompts: Sequence[Ids],
    completions: Sequence[Ids],
    *,
    temperature: float = 1.0,
    token_budget: int = 16_384,
    mask_unused: bool = False,
    alternatives: int = 0,
    positions: Sequence[NDArray[np.integer]] | None = None,
    head: Head | None = None,
    progress: Progress | None = None,
) -> list[TokenScores]:
    """Score completions under `checkpoint`, in the order given; trajectory i is prompts[i] followed by completions[i].

    `temperature` divides the logits, as in sampling. `token_budget` bounds the tokens held in caches at a time,
    shared prompts included (a single trajectory may exceed it). `alternatives` asks for the m most probable ids at
    `positions` (one array of completion positions a trajectory; every position if None). Trajectories with equal
    prompts share one computation of the prompt, whatever their problem ids. Batching changes results by rounding only.
    An empty completion gives empty arrays. `head` is the result of `check_head`, where the caller has it already.

    Raises `InputError`, naming checkpoint, problem and position, for NaN or infinite logits, ids outside the
    vocabulary, an empty prompt, a trajectory longer than the model's context, or a model whose head is unknown.
    """
    if not len(problem_ids) == len(prompts) == len(completions):
        raise InputError(
            f"problem_ids, prompts and completions must have one entry a trajectory, not {len(problem_ids)}, "
            f"{len(prompts)} and {len(completions)}."
        )
    if token_budget < 1:
        raise InputError(f"token_budget must be at least 1, not {token_budget}.")
    head = head or check_head(checkpoint.model)
    prompt_ids = [np.asarray(ids, np.int64) for ids in prompts]
    completion_ids = [np.asarray(ids, np.int64) for ids in completions]
    for problem, prompt, completion in zip(problem_ids, prompt_ids, completion_ids, strict=True):
        _check_ids(checkpoint, head, problem, prompt, completion)
    work = _Pass(checkpoint, head, problem_ids, completion_ids, positions, temperature, mask_unused, alternatives)
    if positions is not None:
        _check_positions(work, positions)
    scores: dict[int, TokenScores] = {}
    with (progress or Silent()).stage("scoring", sum(map(len, completion_ids)), "tokens") as stage:
        for shared, batches in _plan(prompt_ids, [len(ids) for ids in completion_ids], token_budget):
            for rows, found in _score_shared(work, shared, batches):
                scores.update(zip(rows, found, strict=True))
                stage.advance(sum(len(completion_ids[row]) for row in rows))
    return [scores[row] for row in range(len(prompt_ids))]


def _check_ids(
    checkpoint: "Checkpoint", head: Head, problem: str, prompt: NDArray[np.int64], completion: NDArray[np.int64]
) -> None:
    where = f"Checkpoint {checkpoint.name}, problem {problem}"
    if not len(prompt):
        raise InputError(f"{where}: the prompt is empty, so nothing precedes the first token; give it at least a BOS.")
    for name, ids in (("prompt", prompt), ("completion", completion)):
        outside = np.flatnonzero((ids < 0) | (ids >= head.vocabulary_size))
        if len(outside):
            raise InputError(
                f"{where}: {name} position {outside[0]} holds id {ids[outside[0]]}, outside the {head.vocabulary_size} "
                "ids of the model; score with the checkpoint whose tokenizer made the ids."
            )
    limit = getattr(checkpoint.model.config.get_text_config(), "max_position_embeddings", None)
    if limit is not None and len(prompt) + len(completion) - 1 > limit:
        raise InputError(
            f"{where}: prompt ({len(prompt)}) and completion ({len(completion)}) together are longer than the model's "
            f"context of {limit} tokens; drop the trajectory or sample with a smaller max_new_tokens."
        )


def _check_positions(work: _Pass, positions: Sequence[NDArray[np.integer]]) -> None:
    if len(positions) != len(work.completions):
        raise InputError(f"positions has {len(positions)} entries for {len(work.completions)} trajectories.")
    for row, ids in enumerate(work.completions):
        places = work.positions_of(row)
        if len(places) and not 0 <= places.min() <= places.max() < len(ids):
            raise InputError(
                f"positions[{row}] asks for completion positions {places.min()} to {places.max()}, but problem "
                f"{work.problem_ids[row]}'s completion has {len(ids)} tokens."
            )


@dataclass(frozen=True)
class _Shared:
    """Distinct prompts of one length that are run together, and which of them each trajectory continues."""

    prompts: NDArray[np.int64]
    owner: dict[int, int]


def _plan(
    prompts: list[NDArray[np.int64]], lengths: list[int], budget: int
) -> Iterator[tuple[_Shared, list[list[int]]]]:
    """Split trajectories into prompts run together and, for each such set, batches of rows that continue them.

    A set's prompts take at most a quarter of the budget; a batch takes what is left, each row counted with its copy of
    the prompt and padded to the batch's longest. Longest first, so that little is padded. The split depends on the
    input alone.
    """
    members: dict[bytes, list[int]] = defaultdict(list)
    for row, prompt in enumerate(prompts):
        members[prompt.tobytes()].append(row)
    by_length: dict[int, list[list[int]]] = defaultdict(list)
    for rows in members.values():
        by_length[len(prompts[rows[0]])].append(rows)
    for length, groups in sorted(by_length.items()):
        size = max(1, budget // (4 * length))
        for start in range(0, len(groups), size):
            chosen = groups[start : start + size]
            owner = {row: index for index, rows in enumerate(chosen) for row in rows}
            room = budget - len(chosen) * length
            waiting = sorted(owner, key=lambda row: -lengths[row])
            batches = []
            while waiting:
                count = max(1, room // (length + lengths[waiting[0]]))
                batches.append(waiting[:count])
                waiting = waiting[count:]
            yield _Shared(np.stack([prompts[rows[0]] for rows in chosen]), owner), batches


@torch.inference_mode()
def _score_shared(
    work: _Pass, shared: _Shared, batches: list[list[int]]
) -> Iterator[tuple[list[int], list[TokenScores]]]:
    model = work.checkpoint.model
    prompt_cache = new_cache(model)
    last_hidden = hidden_states(model, torch.from_numpy(shared.prompts).to(model.device), prompt_cache)[:, -1]
    for index, rows in enumerate(batches):
        owners = torch.tensor([shared.owner[row] for row in rows], device=model.device)
        hidden = last_hidden[owners].unsqueeze(1)
        longest = max(len(work.completions[row]) for row in rows)
        if longest > 1:  # the last token is predicted, never read
            cache = prompt_cache if index == len(batches) - 1 else deepcopy(prompt_cache)
            cache.reorder_cache(cast("torch.LongTensor", owners))
            ids = np.zeros((len(rows), longest - 1), np.int64)
            for place, row in enumerate(rows):
                read = work.completions[row][:-1]
                ids[place, : len(read)] = read
            hidden = torch.cat((hidden, hidden_states(model, torch.from_numpy(ids).to(model.device), cache)), dim=1)
        yield rows, _statistics(work, rows, hidden)


def _statistics(work: _Pass, rows: list[int], hidden_BLH: Tensor) -> list[TokenScores]:
    """Scores of one batch: position t of `hidden_BLH` predicts completion token t."""
    lengths = np.array([len(work.completions[row]) for row in rows])
    ends = np.cumsum(lengths)
    starts = ends - lengths
    valid = torch.from_numpy(np.arange(hidden_BLH.shape[1]) < lengths[:, None])
    hidden_NH = hidden_BLH[valid.to(hidden_BLH.device)].to(work.head.weight_VH.device)
    targets_N = torch.from_numpy(np.concatenate([work.completions[row] for row in rows])).to(hidden_NH.device)
    try:
        found = _full_statistics(work, hidden_NH, targets_N)
    except NonFiniteLogits as error:
        place = int(np.searchsorted(ends, error.row, side="right"))
        raise InputError(
            f"Checkpoint {work.checkpoint.name}, problem {work.problem_ids[rows[place]]}, completion position "
            f"{error.row - starts[place]}: {error.found}. Check the checkpoint's weights for NaN or overflow, or load "
            "it in float32."
        ) from error
    alternatives: list[Alternatives | None] = [None] * len(rows)
    if work.alternatives:
        places = [work.positions_of(row) for row in rows]
        picked = np.concatenate([places + start for places, start in zip(places, starts, strict=True)])
        index = torch.from_numpy(picked).to(hidden_NH.device)
        top = _full_statistics(work, hidden_NH[index], targets_N[index], work.alternatives)
        bounds = np.cumsum([len(chosen) for chosen in places])[:-1]
        token_ids = np.split(top.alternative_ids_Nm.cpu().numpy(), bounds)
        probabilities = np.split(top.alternative_probabilities_Nm.float().cpu().numpy(), bounds)
        alternatives = [Alternatives(*each) for each in zip(places, token_ids, probabilities, strict=True)]
    logprob, entropy, varentropy, unused_mass = (column.float().cpu().numpy() for column in found[:4])
    return [
        TokenScores(
            logprob[start:end].copy(),
            entropy[start:end].copy(),
            varentropy[start:end].copy(),
            unused_mass[start:end].copy(),
            chosen,
        )
        for start, end, chosen in zip(starts, ends, alternatives, strict=True)
    ]


def _full_statistics(work: _Pass, hidden_NH: Tensor, targets_N: Tensor, alternatives: int = 0) -> FullStatistics:
    return full_statistics(
        hidden_NH,
        work.head.weight_VH,
        targets_N,
        temperature=work.temperature,
        bias=work.head.bias,
        soft_cap=work.head.soft_cap,
        scale=work.head.scale,
        tokenizer_size=work.checkpoint.tokenizer_size,
        mask_unused=work.mask_unused,
        alternatives=alternatives,
    )
