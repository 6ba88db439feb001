"""The same token ids teacher-forced at two checkpoints in lockstep: statistics of both sides, exact KL between them.

Both passes go over the same batches: each side has the numbers of a pass of its own, and no hidden state is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from entropy_lab.errors import InputError
from entropy_lab.progress import Progress, Silent
from entropy_lab.scoring.batches import plan
from entropy_lab.scoring.divergence import Side, divergence
from entropy_lab.scoring.teacher_forced import Ids, Pass, TokenScores, completion_states, prepare, statistics
from entropy_lab.scoring.tiles import LogitMap

if TYPE_CHECKING:
    from entropy_lab.checkpoints import Checkpoint


@dataclass(frozen=True)
class PairScores:
    """One completion's T tokens at two checkpoints, in nats; index t is about token t."""

    first: TokenScores
    second: TokenScores
    kl: NDArray[np.float32]
    """KL(first‖second) of the next-token distributions over the full vocabulary."""


def score_pair(
    first: "Checkpoint",
    second: "Checkpoint",
    problem_ids: Sequence[str],
    prompts: Sequence[Ids],
    completions: Sequence[Ids],
    *,
    temperature: float = 1.0,
    token_budget: int = 16_384,
    mask_unused: bool = False,
    progress: Progress | None = None,
) -> list[PairScores]:
    """Score completions at both checkpoints, in the order given; arguments and numbers of each side are `score`'s.

    `token_budget` bounds the tokens held in each side's caches. Both checkpoints must read ids alike, which the caller
    knows; here their heads must be of one size, or with `mask_unused` their tokenizers.

    Raises `InputError` for what `score` refuses on either side, for heads that cannot be compared, and, naming
    checkpoint, problem and position, where a token or what the first side can write is impossible at a checkpoint.
    """
    ids = _shared_ids(first, second, mask_unused)
    works = [
        prepare(one, problem_ids, prompts, completions, temperature=temperature, mask_unused=mask_unused)
        for one in (first, second)
    ]
    lengths = [len(completion) for completion in works[0].completions]
    scores: dict[int, PairScores] = {}
    with (progress or Silent()).stage("scoring both", sum(lengths), "tokens") as stage:
        for shared, batches in plan(works[0].prompts, lengths, token_budget):
            sides = (completion_states(work, shared, batches) for work in works)
            for (rows, hidden_p), (_, hidden_q) in zip(*sides, strict=True):
                found_p, found_q = statistics(works[0], rows, hidden_p), statistics(works[1], rows, hidden_q)
                kl_N = divergence(_side(works[0], hidden_p), _side(works[1], hidden_q), ids=ids).float().cpu().numpy()
                ends = np.cumsum([lengths[row] for row in rows])
                for row, p, q, kl in zip(rows, found_p, found_q, np.split(kl_N, ends[:-1]), strict=True):
                    scores[row] = PairScores(p, q, kl)
                    _refuse_impossible(works, row, scores[row])
                stage.advance(int(ends[-1]))
    return [scores[row] for row in range(len(lengths))]


def _shared_ids(first: "Checkpoint", second: "Checkpoint", mask_unused: bool) -> int:
    """How many head rows are compared."""
    if mask_unused:
        sizes = [min(one.tokenizer_size, one.vocabulary_size) for one in (first, second)]
        if sizes[0] != sizes[1]:
            raise InputError(
                f"{first.name} and {second.name} have tokenizers of {sizes[0]} and {sizes[1]} ids, so their "
                "distributions cannot be compared; give two checkpoints of one tokenizer."
            )
        return sizes[0]
    if first.vocabulary_size != second.vocabulary_size:
        raise InputError(
            f"{first.name} and {second.name} have heads of {first.vocabulary_size} and {second.vocabulary_size} rows; "
            "use --mask-unused to compare them over the tokenizer's ids alone."
        )
    return first.vocabulary_size


def _side(work: Pass, hidden_NH: Tensor) -> Side:
    head = work.head
    return Side(hidden_NH, head.weight_VH, head.bias, LogitMap(work.temperature, head.soft_cap, head.scale))


def _refuse_impossible(works: Sequence[Pass], row: int, found: PairScores) -> None:
    """A log-prob of −inf has no difference, an infinite KL no mean: name the first place."""
    sides = zip(works, (found.first, found.second), strict=True)
    for work, bad in [
        *((work, ~np.isfinite(side.logprob)) for work, side in sides),
        (works[1], ~np.isfinite(found.kl)),
    ]:
        if bad.any():
            position = int(bad.argmax())
            raise InputError(
                f"Checkpoint {work.checkpoint.name}, problem {work.problem_ids[row]}, completion position {position}: "
                f"the id {work.completions[row][position]}, or one that the other checkpoint can write there, is "
                "impossible here (−inf logit), so the shift is infinite; leave --mask-unused out, or give checkpoints "
                "that mask no ids."
            )
