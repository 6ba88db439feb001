"""Where FR3E's explorations leave a first return: the positions of a completion at which the policy is least sure.

Knows columns of one completion; no text, no engine.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.decision_points import decision_blocks
from entropy_lab.errors import InputError
from entropy_lab.ragged import Ragged

Anchor = Literal["entropy", "low-logprob", "blocks"]
"""`entropy`: the highest exact entropies (FR3E). `low-logprob`: the lowest log-probs of sampled tokens (what FR3E's
public code does). `blocks`: the decision blocks with the highest peaks of entropy (ours)."""

Floats = NDArray[np.floating]


def anchors(kind: Anchor, count: int, entropy_T: Floats | None, logprob_T: Floats | None) -> tuple[int, ...]:
    """Up to `count` positions t > 0 of a completion of T tokens, ascending (FR3E's pos_1 < … < pos_K).

    A branch at t is given the completion's tokens before t and draws token t again. Position 0 is the root's and never
    an anchor; the last token, an end token too, may be one. Of equal positions the earlier one is taken; a completion
    with fewer candidates has fewer anchors. `entropy_T` is exact and in nats, `logprob_T` the sampler's. A block's
    anchor is its first token, so that all of the block is drawn again; its quantile is of this completion, and a block
    that begins at 0 is the root's (ours).

    Raises:
        InputError: the engine gave no such column.
    """
    if kind == "low-logprob":
        if logprob_T is None:
            raise InputError(
                'exploration.anchor = "low-logprob" needs the log-probs of sampled tokens, and this engine gives none; '
                "sample with an engine that does."
            )
        return _highest(np.arange(1, len(logprob_T)), -logprob_T[1:], count)
    if entropy_T is None:
        raise InputError(
            f'exploration.anchor = "{kind}" needs exact entropies, and this engine gives none; set exploration.anchor '
            '= "low-logprob", or sample with the transformers engine.'
        )
    if kind == "entropy":
        return _highest(np.arange(1, len(entropy_T)), entropy_T[1:], count)
    blocks = decision_blocks(Ragged(entropy_T, np.array([0, len(entropy_T)])))
    inner_B = blocks.start > 0
    return _highest(blocks.start[inner_B], blocks.peak_entropy[inner_B], count)


def _highest(position_P: NDArray[np.int64], value_P: Floats, count: int) -> tuple[int, ...]:
    """The `count` positions of highest value, ascending."""
    first = np.argsort(-value_P, kind="stable")[:count]
    return tuple(sorted(position_P[first].tolist()))
