"""Diversity of final answers: distinct answers, their entropy with its small-sample correction, self-consistency."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import xlogy

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class AnswerCounts:
    """C (problem, answer) pairs: `count_C` of the problem's samples gave the answer; `samples_P` counts all samples.

    `class_N` tells each sample's pair, −1 where the sample gave no answer.
    """

    problem_C: Ints
    count_C: Ints
    samples_P: Ints
    class_N: Ints


def count_answers(problem_N: NDArray[np.integer], answers: Sequence[str | None], problems: int) -> AnswerCounts:
    """Count equal answers within each problem; None is no answer."""
    codes: dict[str, int] = {}
    code_N = np.array([-1 if a is None else codes.setdefault(a, len(codes)) for a in answers], np.int64)
    answered = code_N >= 0
    pairs, inverse, counts = np.unique(
        problem_N[answered].astype(np.int64) * max(len(codes), 1) + code_N[answered],
        return_inverse=True,
        return_counts=True,
    )
    class_N = np.full(len(code_N), -1)
    class_N[answered] = inverse
    samples_P = np.bincount(problem_N, minlength=problems)
    return AnswerCounts(pairs // max(len(codes), 1), counts, samples_P, class_N)


def distinct_answers(counts: AnswerCounts) -> Floats:
    """Number of distinct answers a problem, shape (P,)."""
    return np.bincount(counts.problem_C, minlength=len(counts.samples_P)).astype(np.float64)


def answer_entropy(counts: AnswerCounts) -> Floats:
    """Plug-in entropy (nats) of each problem's answers, no answers left out, shape (P,); NaN where none is given.

    Biased down from few samples: show `miller_madow` beside it.
    """
    given_P = _given(counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        term_P = np.bincount(counts.problem_C, xlogy(counts.count_C, counts.count_C), minlength=len(given_P)) / given_P
        return np.maximum(np.log(given_P) - term_P, 0.0)


def miller_madow(counts: AnswerCounts) -> Floats:
    """Plug-in entropy + (distinct − 1) / 2n, nats, shape (P,) (Miller 1955)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return answer_entropy(counts) + (distinct_answers(counts) - 1) / (2 * _given(counts))


def normalised_answer_entropy(counts: AnswerCounts) -> Floats:
    """Plug-in entropy over log n, the most that n given answers can have (ours), shape (P,); NaN where n < 2."""
    given_P = _given(counts)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(given_P > 1, answer_entropy(counts) / np.log(given_P), np.nan)


def self_consistency(counts: AnswerCounts) -> Floats:
    """Share of a problem's samples that give its most frequent answer, shape (P,).

    Samples without an answer count in the denominator (ours), so a problem that is hardly ever answered is not
    consistent; NaN for a problem without samples.
    """
    most_P = np.zeros(len(counts.samples_P))
    np.maximum.at(most_P, counts.problem_C, counts.count_C)
    with np.errstate(invalid="ignore"):
        return most_P / counts.samples_P


def plug_in_entropy(label_counts: ArrayLike) -> tuple[float, float]:
    """Plug-in and Miller–Madow entropy (nats) of one set of label counts; NaN where there are none."""
    counts = np.asarray(label_counts, np.int64)
    counts = counts[counts > 0]
    one = AnswerCounts(np.zeros(len(counts), np.int64), counts, counts.sum(keepdims=True), np.zeros(0, np.int64))
    return float(answer_entropy(one)[0]), float(miller_madow(one)[0])


def _given(counts: AnswerCounts) -> Floats:
    """Samples that gave an answer, shape (P,)."""
    return np.bincount(counts.problem_C, counts.count_C, minlength=len(counts.samples_P)).astype(np.float64)
