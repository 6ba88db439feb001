"""From tokens to trajectories to problems: sums and means over rows of a Ragged, then over each problem's rows.

Sums are taken in float64 row by row, so no padding exists and no batch split can change a mean.
"""

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from entropy_lab.errors import InputError
from entropy_lab.ragged import Ragged

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_CELLS = 1 << 20


def numbers(values: Ragged) -> NDArray[np.floating[Any]]:
    """The flat values, known to be floating point."""
    return cast("NDArray[np.floating[Any]]", values.values)


def policy_tokens(values: Ragged, mask_T: NDArray[np.bool_] | None) -> Ragged:
    """Keep the tokens the policy wrote (`mask_T` true; None keeps all), so that observations never count.

    Positions in the result count the policy's own tokens. Raises InputError if the mask has another length.
    """
    if mask_T is None:
        return values
    mask = np.asarray(mask_T, bool)
    if mask.shape != values.values.shape:
        raise InputError(
            f"The policy mask covers {mask.size} tokens but there are {values.values.size}: give one entry a token."
        )
    offsets = np.concatenate(([0], np.cumsum(mask)))[values.offsets]
    return Ragged(values.values[mask], offsets)


def checked(values: Ragged, name: str, problem_N: NDArray[np.generic]) -> Ragged:
    """The values, once known to be finite, ≥ 0 (rounding aside) and one row for each entry of `problem_N`.

    Raises InputError naming trajectory and position.
    """
    if len(values) != len(problem_N):
        raise InputError(f"There are {len(values)} rows of {name} but {len(problem_N)} trajectories: give one each.")
    tokens = numbers(values)
    if tokens.size and not (np.isfinite(np.min(tokens)) and np.isfinite(np.max(tokens)) and np.min(tokens) >= -1e-3):
        place = int(np.flatnonzero(~np.isfinite(tokens) | (tokens < -1e-3))[0])
        row = int(np.searchsorted(values.offsets, place, side="right")) - 1
        raise InputError(
            f"{name} of trajectory {row} at position {place - int(values.offsets[row])} is {tokens[place]}, "
            "not a finite number ≥ 0: score the rollouts again."
        )
    return values


def span_sums(values_T: NDArray[np.generic], start_B: Ints, stop_B: Ints) -> Floats:
    """Sums of `values_T[start:stop]` for B spans in ascending order, in float64; an empty span sums to 0."""
    if len(start_B) == 0:
        return np.zeros(0)
    padded = np.append(values_T, np.zeros(1, values_T.dtype)) if stop_B[-1] == len(values_T) else values_T
    edges = np.stack((start_B, stop_B), axis=1).ravel()
    sums = np.add.reduceat(padded, edges, dtype=np.float64)[::2]
    return np.where(stop_B > start_B, sums, 0.0)


def row_means(values: Ragged) -> Floats:
    """Mean of each row, shape (N,); NaN for an empty row."""
    return head_means(values, values.lengths)


def head_means(values: Ragged, count_N: Ints) -> Floats:
    """Mean over the first `count_N` values of each row (all, if it has fewer), shape (N,); NaN for an empty row."""
    count = np.minimum(count_N, values.lengths)
    start = values.offsets[:-1]
    with np.errstate(invalid="ignore"):
        return span_sums(values.values, start, start + count) / count


def share_counts(values: Ragged, share: float) -> Ints:
    """⌈share · length⌉ of each row, shape (N,)."""
    return np.ceil(share * values.lengths - 1e-9).astype(np.int64)


def problem_means(values_N: NDArray[np.generic], problem_N: NDArray[np.integer], problems: int) -> Floats:
    """Mean over each problem's trajectories, those with NaN left out, shape (P,); NaN for a problem with none."""
    values = np.asarray(values_N, np.float64)
    held = ~np.isnan(values)
    sums = np.bincount(problem_N[held], values[held], minlength=problems)
    with np.errstate(invalid="ignore"):
        return sums / np.bincount(problem_N[held], minlength=problems)


def sorted_rows(values: Ragged) -> Ragged:
    """Each row sorted ascending. Rows of similar length are sorted together as one padded block."""
    lengths = values.lengths
    result = np.empty_like(values.values)
    order = np.argsort(lengths, kind="stable")
    order = order[np.searchsorted(lengths[order], 1) :]
    while len(order):
        # The longest rows first: the block's width is then known, and its number of rows follows.
        width = int(lengths[order[-1]])
        rows = order[-max(1, _CELLS // width) :]
        order = order[: -len(rows)]
        inside = np.arange(width) < lengths[rows, None]
        places = (values.offsets[rows, None] + np.arange(width))[inside]
        block = np.full(inside.shape, np.inf, values.values.dtype)
        block[inside] = values.values[places]
        block.sort(axis=1)
        result[places] = block[inside]
    return Ragged(result, values.offsets)
