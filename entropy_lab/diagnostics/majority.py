"""maj@k: how often the most frequent answer among k of a problem's samples is correct, by seeded resampling."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.answers import AnswerCounts

Floats = NDArray[np.float64]

DRAWS = 200
_CELLS = 1 << 21
_LABEL_BITS = 20


@dataclass(frozen=True)
class _Ballot:
    """Each problem's votes as labels 0 … L−1 in a canonical order, L for no answer, and no entry past its n."""

    label_PN: NDArray[np.int64]
    credit_PL: Floats
    samples_P: NDArray[np.int64]


def majority_at_k(
    counts: AnswerCounts, credit_C: Floats, ks: Sequence[int], *, draws: int = DRAWS, seed: int = 0
) -> Floats:
    """Expected correctness of the majority answer of k samples drawn without replacement, shape (P, K).

    `credit_C` is the correctness (share of correct samples) of each distinct answer in `counts`. Tied answers share
    the vote; samples without an answer cast none, and no vote at all is wrong. Each value is the mean of `draws`
    seeded draws (its standard error is at most 0.5/√draws a problem), exact at k = n; problems with n < k get NaN.
    The draws depend on the answer counts, not on the order of the samples.
    """
    ballot = _ballot(counts, credit_C)
    problems, samples = ballot.label_PN.shape
    labels = ballot.credit_PL.shape[1]
    result = np.full((problems, len(ks)), np.nan)
    if problems == 0 or samples == 0:
        return result
    rng = np.random.default_rng(seed)
    block = max(1, _CELLS // (draws * max(samples, labels + 1)))
    for start in range(0, problems, block):
        rows = slice(start, start + block)
        shuffled = _shuffle(ballot.label_PN[rows], ballot.samples_P[rows], draws, rng)
        credit = ballot.credit_PL[rows, None, :]
        votes = np.zeros((len(shuffled), draws, labels + 1), np.int32)
        cell = np.arange(len(shuffled) * draws).reshape(-1, draws, 1) * (labels + 1)
        counted = 0
        for column, k in sorted(enumerate(ks), key=lambda pair: pair[1]):
            new = shuffled[:, :, counted : min(k, samples)]
            votes += np.bincount((cell + new).ravel(), minlength=votes.size).reshape(votes.shape).astype(np.int32)
            counted = max(counted, min(k, samples))
            named = votes[:, :, :labels]
            most = named.max(axis=2, keepdims=True, initial=0)
            wins = (named == most) & (most > 0)
            won = (wins * credit).sum(axis=2) / np.maximum(wins.sum(axis=2), 1)
            result[rows, column] = np.where(ballot.samples_P[rows] >= k, won.mean(axis=1), np.nan)
    return result


def _ballot(counts: AnswerCounts, credit_C: Floats) -> _Ballot:
    problems = len(counts.samples_P)
    order = np.lexsort((-credit_C, -counts.count_C, counts.problem_C))
    problem, count, credit = counts.problem_C[order], counts.count_C[order], credit_C[order]
    distinct_P = np.bincount(problem, minlength=problems)
    first_P = np.cumsum(distinct_P) - distinct_P
    label = np.arange(len(problem)) - first_P[problem]
    labels = int(distinct_P.max(initial=0))
    credit_PL = np.zeros((problems, labels))
    credit_PL[problem, label] = credit
    answered_P = np.bincount(problem, count, minlength=problems).astype(np.int64)
    label_PN = np.full((problems, int(counts.samples_P.max(initial=0))), labels)
    label_PN[np.arange(label_PN.shape[1]) < answered_P[:, None]] = np.repeat(label, count)
    return _Ballot(label_PN, credit_PL, counts.samples_P)


def _shuffle(
    label_pN: NDArray[np.int64], samples_p: NDArray[np.int64], draws: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Each problem's labels in `draws` random orders, entries past its n last, shape (p, draws, N).

    The label rides in the low bits of a random key, so one sort of keys shuffles.
    """
    keys = rng.integers(0, 1 << (62 - _LABEL_BITS), (len(label_pN), draws, label_pN.shape[1]))
    keys <<= _LABEL_BITS
    keys |= label_pN[:, None, :]
    past = np.arange(label_pN.shape[1]) >= samples_p[:, None]
    keys += past[:, None, :].astype(np.int64) << 62
    keys.sort(axis=2)
    keys &= (1 << _LABEL_BITS) - 1
    return keys
