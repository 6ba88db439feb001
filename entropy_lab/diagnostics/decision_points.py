"""Where a policy hesitates: positions picked by a rule and merged into blocks, for all trajectories at once.

Blocks are token ranges of the completion; text and spans are the caller's, who decodes only what is shown.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.trajectories import numbers, policy_tokens, sorted_rows, span_sums
from entropy_lab.errors import InputError
from entropy_lab.ragged import Ragged

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

GAP = 3


@dataclass(frozen=True)
class Rule:
    """How positions are picked.

    `quantile`: entropy ≥ that quantile of all the run's tokens (ties included) and > 0. `top-k`: the `value` highest
    entropies of the trajectory. `threshold`: entropy ≥ `value` nats. `low-logprob`: the `value` least likely sampled
    tokens of the trajectory. Equal candidates for the last place of a top-k go by position, earliest first (ours).
    """

    kind: Literal["quantile", "top-k", "threshold", "low-logprob"] = "quantile"
    value: float = 0.8

    def __post_init__(self) -> None:
        if self.kind == "quantile" and not 0 <= self.value <= 1:
            raise InputError(f"The quantile rule needs a level from 0 to 1, got {self.value}.")
        if self.kind in ("top-k", "low-logprob") and not (self.value >= 1 and float(self.value).is_integer()):
            raise InputError(f"The {self.kind} rule needs a whole number of positions ≥ 1, got {self.value}.")
        if self.kind == "threshold" and not 0 <= self.value < float("inf"):
            raise InputError(f"The threshold rule needs an entropy of 0 nats or more, got {self.value}.")


@dataclass(frozen=True)
class Blocks:
    """B decision blocks in order of trajectory and position.

    `row` is the trajectory; `start` to `stop` (exclusive) the token range, from the first to the last pick; `peak`
    the position of the highest entropy, `peak_entropy` its value and `mean_entropy` the range's mean (nats); `share`
    the range's part of the trajectory's entropy (0 where the trajectory has none). `level` is the entropy at which
    the quantile or threshold rule picked, NaN for the others and for an empty run.
    """

    row: Ints
    start: Ints
    stop: Ints
    peak: Ints
    peak_entropy: Floats
    mean_entropy: Floats
    share: Floats
    level: float

    def __len__(self) -> int:
        return len(self.row)

    def of(self, row: int) -> slice:
        """The blocks of one trajectory, as a slice into the arrays."""
        first, last = np.searchsorted(self.row, (row, row + 1))
        return slice(int(first), int(last))


@dataclass(frozen=True)
class OpeningTokens:
    """Token ids that open blocks, most frequent first: blocks opened, share of blocks, mean entropy there (nats)."""

    token_id: Ints
    count: Ints
    share: Floats
    mean_entropy: Floats


def decision_blocks(
    entropies: Ragged,
    rule: Rule | None = None,
    *,
    gap: int = GAP,
    logprobs: Ragged | None = None,
    policy_mask: NDArray[np.bool_] | None = None,
) -> Blocks:
    """Pick positions by `rule` (default: the 0.8 quantile) and merge picks that are ≤ `gap` positions apart.

    Tokens outside `policy_mask` (flat, aligned with the values) are never picked and count in no mean or share, but
    keep their place: positions are those of the completion. A trajectory that is flat in what the rule ranks, or
    has one token, has no blocks. Raises InputError where `low-logprob` gets no log-probs, or of other lengths.
    """
    rule = rule or Rule()
    values = policy_tokens(entropies, policy_mask)
    positions_T = entropies.positions()
    if policy_mask is not None:
        positions_T = positions_T[policy_mask]
    picked_T, level = _picks(values, rule, _ranked(values, entropies, rule, logprobs, policy_mask))
    place_K = np.flatnonzero(picked_T)
    row_K = np.searchsorted(values.offsets, place_K, side="right") - 1
    position_K = positions_T[place_K]
    opens_K = np.ones(len(place_K), bool)
    opens_K[1:] = (np.diff(row_K) != 0) | (np.diff(position_K) > gap)
    first_B = np.flatnonzero(opens_K)
    last_B = np.append(first_B[1:], len(place_K))[: len(first_B)] - 1
    row_B = row_K[first_B]

    # From here on places in the flat array of valid tokens, where a block is one span.
    from_B, to_B = place_K[first_B], place_K[last_B] + 1
    sum_B = span_sums(values.values, from_B, to_B)
    total_B = span_sums(values.values, values.offsets[:-1], values.offsets[1:])[row_B]
    with np.errstate(invalid="ignore", divide="ignore"):
        share_B = np.where(total_B > 0, sum_B / total_B, 0.0)
    peak_B = _argmax_spans(values.values, from_B, to_B)
    return Blocks(
        row=row_B,
        start=position_K[first_B],
        stop=position_K[last_B] + 1,
        peak=positions_T[peak_B],
        peak_entropy=values.values[peak_B].astype(np.float64),
        mean_entropy=sum_B / (to_B - from_B),
        share=share_B,
        level=level,
    )


def opening_tokens(blocks: Blocks, token_ids: Ragged, entropies: Ragged) -> OpeningTokens:
    """Count which token opens a block how often; both Raggeds are aligned with the completions."""
    place_B = entropies.offsets[blocks.row] + blocks.start
    ids, inverse_B, counts = np.unique(token_ids.values[place_B], return_inverse=True, return_counts=True)
    sums = np.bincount(inverse_B, entropies.values[place_B], minlength=len(ids))
    order = np.lexsort((ids, -counts))
    counts = counts[order]
    return OpeningTokens(
        ids[order].astype(np.int64), counts.astype(np.int64), counts / max(len(blocks), 1), sums[order] / counts
    )


def _ranked(
    values: Ragged, entropies: Ragged, rule: Rule, logprobs: Ragged | None, policy_mask: NDArray[np.bool_] | None
) -> Ragged:
    """What the rule ranks tokens by: entropy, or surprisal."""
    if rule.kind != "low-logprob":
        return values
    if logprobs is None or not np.array_equal(logprobs.offsets, entropies.offsets):
        raise InputError(
            "The low-logprob rule needs the sampled tokens' log-probs, one for each entropy: score the rollouts first."
        )
    kept = policy_tokens(logprobs, policy_mask)
    return Ragged(-numbers(kept), kept.offsets)


def _picks(values: Ragged, rule: Rule, ranked: Ragged) -> tuple[NDArray[np.bool_], float]:
    """Which tokens are picked, shape (T,), and the level in nats where the rule has one."""
    entropy_T = numbers(values)
    level = float("nan")
    if len(entropy_T) == 0:
        return np.zeros(0, bool), level
    if rule.kind == "quantile":
        level = float(np.quantile(entropy_T, rule.value))
        picked_T = (entropy_T >= level) & (entropy_T > 0)
    elif rule.kind == "threshold":
        level = rule.value
        picked_T = entropy_T >= level
    else:
        picked_T = _highest(ranked, int(rule.value))
    return picked_T & np.repeat(_uneven(ranked), ranked.lengths), level


def _highest(ranked: Ragged, count: int) -> NDArray[np.bool_]:
    """The `count` highest values of each row (all, if it has fewer), equal ones by position; flat mask."""
    lengths = ranked.lengths
    held = lengths > 0
    last = sorted_rows(ranked).values[ranked.offsets[1:][held] - np.minimum(count, lengths[held])]
    bar_T = np.repeat(last, lengths[held])
    above_T = ranked.values > bar_T
    tied_T = ranked.values == bar_T
    free = np.minimum(count, lengths) - span_sums(above_T.view(np.int8), ranked.offsets[:-1], ranked.offsets[1:])
    ties_before_T = np.cumsum(tied_T) - tied_T
    ties_before_T -= np.repeat(ties_before_T[ranked.offsets[:-1][held]], lengths[held])
    return above_T | (tied_T & (ties_before_T < np.repeat(free, lengths)))


def _uneven(ranked: Ragged) -> NDArray[np.bool_]:
    """Rows that hold at least two different values, shape (N,)."""
    held = ranked.lengths > 0
    starts = ranked.offsets[:-1][held]
    uneven = np.zeros(len(ranked), bool)
    uneven[held] = np.maximum.reduceat(ranked.values, starts) > np.minimum.reduceat(ranked.values, starts)
    return uneven


def _argmax_spans(values_T: NDArray[np.generic], start_B: Ints, stop_B: Ints) -> Ints:
    """Index of the first highest value in each of B non-empty spans."""
    if len(start_B) == 0:
        return np.zeros(0, np.int64)
    lengths = stop_B - start_B
    offset = np.cumsum(lengths) - lengths
    inside = values_T[np.arange(lengths.sum()) + np.repeat(start_B - offset, lengths)]
    highest = np.flatnonzero(inside == np.repeat(np.maximum.reduceat(inside, offset), lengths))
    first = highest[np.searchsorted(highest, offset)]
    return first - offset + start_B
