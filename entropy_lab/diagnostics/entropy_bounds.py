"""What a source that returns only k log-probs a token can say about entropy: an interval, never one number."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

from entropy_lab.errors import InputError

_SLACK = 1e-3  # probabilities from an API sum to 1 within rounding


@dataclass(frozen=True)
class EntropyBounds:
    """Lowest and highest entropy (nats) that the known log-probs allow, shape (T,) each."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


def entropy_bounds(logprobs_TK: ArrayLike, vocabulary: int) -> EntropyBounds:
    """Bounds from the k most likely tokens' log-probs (−inf pads positions with fewer), shape (T, K).

    With H_k = −Σ p log p over the known tokens and mass m over the V − k others: spread evenly, it gives the upper
    bound H_k − m log(m / (V − k)); packed into pieces no larger than the smallest known p, the lower bound. Raises
    InputError for a log-prob that is NaN or above 0, probabilities that sum to more than 1, more log-probs than
    tokens, or a rest that cannot fit below the smallest known p.
    """
    logprobs = np.atleast_2d(np.asarray(logprobs_TK, np.float64))
    bad = np.isnan(logprobs) | (logprobs > _SLACK)
    if bad.any():
        position, rank = np.argwhere(bad)[0]
        raise InputError(
            f"The log-prob at position {position}, rank {rank} is {logprobs[position, rank]}: "
            "give natural logarithms ≤ 0, padded by -inf."
        )
    known_T = np.isfinite(logprobs).sum(axis=1)
    probabilities = np.exp(np.minimum(logprobs, 0.0))
    rest_T = 1 - probabilities.sum(axis=1)
    smallest_T = np.where(np.isfinite(logprobs), probabilities, np.inf).min(axis=1, initial=np.inf)
    others_T = vocabulary - known_T
    _refuse((known_T == 0) | (others_T < 0), known_T, f"log-probs are known of a vocabulary of {vocabulary}")
    _refuse(rest_T < -_SLACK, 1 - rest_T, "is the sum of the known probabilities, which is above 1")
    _refuse(
        rest_T > others_T * smallest_T + _SLACK,
        rest_T,
        "is the remaining mass, too much for tokens less likely than those known: give the k most likely ones",
    )
    rest_T = np.where(others_T == 0, 0.0, np.maximum(rest_T, 0.0))
    entropy_T = -xlogy(probabilities, probabilities).sum(axis=1)
    pieces_T = np.floor(rest_T / smallest_T)
    crumb_T = np.maximum(rest_T - pieces_T * smallest_T, 0.0)
    packed_T = -pieces_T * xlogy(smallest_T, smallest_T) - xlogy(crumb_T, crumb_T)
    spread_T = -xlogy(rest_T, rest_T / np.maximum(others_T, 1))
    return EntropyBounds(entropy_T + packed_T, entropy_T + np.maximum(spread_T, packed_T))


def _refuse(bad_T: NDArray[np.bool_], value_T: NDArray[np.generic], what: str) -> None:
    if bad_T.any():
        position = int(np.flatnonzero(bad_T)[0])
        raise InputError(f"At position {position}, {value_T[position]:.6g} {what}.")
