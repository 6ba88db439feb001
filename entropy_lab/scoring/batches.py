"""Which trajectories run together in a teacher-forced pass, and which cannot run at all. Decided from ids alone.

Batches hold prompts of one length only, so that no token ever attends to padding.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from entropy_lab.checkpoints.head import Head
from entropy_lab.errors import InputError

if TYPE_CHECKING:
    from entropy_lab.checkpoints import Checkpoint


def check_ids(
    checkpoint: "Checkpoint", head: Head, problem: str, prompt: NDArray[np.int64], completion: NDArray[np.int64]
) -> None:
    """Raise `InputError` for an empty prompt, ids outside the vocabulary or a trajectory beyond the context."""
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


@dataclass(frozen=True)
class Shared:
    """Distinct prompts of one length that are run together, and which of them each trajectory continues."""

    prompts: NDArray[np.int64]
    owner: dict[int, int]


def plan(prompts: list[NDArray[np.int64]], lengths: list[int], budget: int) -> Iterator[tuple[Shared, list[list[int]]]]:
    """Split trajectories into prompts run together and, for each such set, batches of rows that continue them.

    A set's prompts take at most a quarter of the budget; a batch takes what is left, each row counted with its copy of
    the prompt and padded to the batch's longest. Longest first, so that little is padded. The split depends on the
    input alone. Raises `InputError` for a budget below 1.
    """
    if budget < 1:
        raise InputError(f"token_budget must be at least 1, not {budget}.")
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
            yield Shared(np.stack([prompts[rows[0]] for rows in chosen]), owner), batches
