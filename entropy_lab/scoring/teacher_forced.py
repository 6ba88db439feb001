"""The teacher-forced pass: stored token ids in, exact statistics of every completion token out.

Each distinct prompt is run once; all its completions continue from its cache. Batches hold prompts of one length only
and completions are padded at their end only, so no token ever attends to padding and no mask is needed; padded
positions are dropped by length, never by value.
"""

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
from entropy_lab.scoring.batches import Shared, check_ids, plan
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
class Pass:
    """What stays the same over all batches of one checkpoint's pass."""

    checkpoint: "Checkpoint"
    head: Head
    problem_ids: Sequence[str]
    prompts: list[NDArray[np.int64]]
    completions: list[NDArray[np.int64]]
    temperature: float = 1.0
    mask_unused: bool = False
    alternatives: int = 0
    positions: Sequence[NDArray[np.integer]] | None = None

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
    work = prepare(
        checkpoint,
        problem_ids,
        prompts,
        completions,
        temperature=temperature,
        mask_unused=mask_unused,
        alternatives=alternatives,
        positions=positions,
        head=head,
    )
    lengths = [len(ids) for ids in work.completions]
    scores: dict[int, TokenScores] = {}
    with (progress or Silent()).stage("scoring", sum(lengths), "tokens") as stage:
        for shared, batches in plan(work.prompts, lengths, token_budget):
            for rows, hidden_NH in completion_states(work, shared, batches):
                scores.update(zip(rows, statistics(work, rows, hidden_NH), strict=True))
                stage.advance(sum(lengths[row] for row in rows))
    return [scores[row] for row in range(len(lengths))]


def prepare(
    checkpoint: "Checkpoint",
    problem_ids: Sequence[str],
    prompts: Sequence[Ids],
    completions: Sequence[Ids],
    *,
    temperature: float = 1.0,
    mask_unused: bool = False,
    alternatives: int = 0,
    positions: Sequence[NDArray[np.integer]] | None = None,
    head: Head | None = None,
) -> Pass:
    """Check everything that `score` refuses before a token is computed; arguments and errors are its own."""
    if not len(problem_ids) == len(prompts) == len(completions):
        raise InputError(
            f"problem_ids, prompts and completions must have one entry a trajectory, not {len(problem_ids)}, "
            f"{len(prompts)} and {len(completions)}."
        )
    head = head or check_head(checkpoint.model)
    prompt_ids = [np.asarray(ids, np.int64) for ids in prompts]
    completion_ids = [np.asarray(ids, np.int64) for ids in completions]
    for problem, prompt, completion in zip(problem_ids, prompt_ids, completion_ids, strict=True):
        check_ids(checkpoint, head, problem, prompt, completion)
    work = Pass(
        checkpoint,
        head,
        problem_ids,
        prompt_ids,
        completion_ids,
        temperature,
        mask_unused,
        alternatives,
        positions,
    )
    if positions is not None:
        _check_positions(work, positions)
    return work


def _check_positions(work: Pass, positions: Sequence[NDArray[np.integer]]) -> None:
    if len(positions) != len(work.completions):
        raise InputError(f"positions has {len(positions)} entries for {len(work.completions)} trajectories.")
    for row, ids in enumerate(work.completions):
        places = work.positions_of(row)
        if len(places) and not 0 <= places.min() <= places.max() < len(ids):
            raise InputError(
                f"positions[{row}] asks for completion positions {places.min()} to {places.max()}, but problem "
                f"{work.problem_ids[row]}'s completion has {len(ids)} tokens."
            )


@torch.inference_mode()
def completion_states(work: Pass, shared: Shared, batches: list[list[int]]) -> Iterator[tuple[list[int], Tensor]]:
    """For each batch of rows, the hidden states (N, H) that predict the rows' completion tokens, one row after another.

    The prompts of `shared` are run once; every batch continues from their cache. The states are on the head's device.
    """
    model = work.checkpoint.model
    prompt_cache = new_cache(model)
    last_hidden = hidden_states(model, torch.from_numpy(shared.prompts).to(model.device), prompt_cache)[:, -1]
    for index, rows in enumerate(batches):
        owners = torch.tensor([shared.owner[row] for row in rows], device=model.device)
        hidden_BLH = last_hidden[owners].unsqueeze(1)
        lengths = np.array([len(work.completions[row]) for row in rows])
        longest = int(lengths.max())
        if longest > 1:  # the last token is predicted, never read
            cache = prompt_cache if index == len(batches) - 1 else deepcopy(prompt_cache)
            cache.reorder_cache(cast("torch.LongTensor", owners))
            ids = np.zeros((len(rows), longest - 1), np.int64)
            for place, row in enumerate(rows):
                read = work.completions[row][:-1]
                ids[place, : len(read)] = read
            read_BLH = hidden_states(model, torch.from_numpy(ids).to(model.device), cache)
            hidden_BLH = torch.cat((hidden_BLH, read_BLH), dim=1)
        valid = torch.from_numpy(np.arange(hidden_BLH.shape[1]) < lengths[:, None])
        yield rows, hidden_BLH[valid.to(hidden_BLH.device)].to(work.head.weight_VH.device)


@torch.inference_mode()
def statistics(work: Pass, rows: list[int], hidden_NH: Tensor) -> list[TokenScores]:
    """Scores of one batch from its `completion_states`."""
    ends = np.cumsum([len(work.completions[row]) for row in rows])
    starts = np.concatenate(([0], ends[:-1]))
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


def _full_statistics(work: Pass, hidden_NH: Tensor, targets_N: Tensor, alternatives: int = 0) -> FullStatistics:
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
