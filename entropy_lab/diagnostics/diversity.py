"""Diversity of texts: distinct-n within a problem's samples, and how often reflection markers appear.

Both read every word once (about 10 µs a hundred words), so they run on whole runs of short responses; for long
ones the caller chooses a subset of trajectories.
"""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from entropy_lab.errors import InputError

Floats = NDArray[np.float64]

MARKERS = (
    "wait",
    "however",
    "let me check",
    "let me verify",
    "let me double-check",
    "let me reconsider",
    "let's check",
    "let's verify",
    "alternatively",
    "hold on",
    "on second thought",
    "double-check",
    "rethink",
    "hmm",
)
"""Default reflection markers (ours)."""


def distinct_n(texts: Iterable[str], n: int = 2) -> float:
    """Distinct n-grams over all n-grams of the texts together (Li et al. 2016); words are split on white space.

    No n-gram spans two texts; NaN where there is none.
    """
    seen: set[tuple[str, ...]] = set()
    total = 0
    for text in texts:
        words = text.split()
        seen.update(zip(*(words[shift:] for shift in range(n)), strict=False))
        total += max(len(words) - n + 1, 0)
    return len(seen) / total if total else float("nan")


def distinct_n_by_problem(texts: Sequence[str], problem_N: NDArray[np.integer], problems: int, n: int = 2) -> Floats:
    """`distinct_n` of each problem's texts, shape (P,). It falls as samples are added: compare equal numbers only."""
    order = np.argsort(problem_N, kind="stable")
    edges = np.searchsorted(problem_N[order], np.arange(problems + 1))
    return np.array(
        [distinct_n((texts[row] for row in order[edges[p] : edges[p + 1]]), n) for p in range(problems)], np.float64
    )


@lru_cache(maxsize=16)
def marker_pattern(markers: tuple[str, ...]) -> re.Pattern[str]:
    """One pattern for all markers in lower-cased text: whole words, any white space between, straight or curly '.

    Raises InputError for an empty list or an empty marker.
    """
    if not markers or not all(marker.strip() for marker in markers):
        raise InputError(f"Reflection markers must be words, got {list(markers)!r}: give at least one.")
    alternatives = "|".join(
        r"\s+".join(re.escape(word.lower()).replace("'", "['\u2019]") for word in marker.split())
        for marker in sorted(markers, key=len, reverse=True)
    )
    return re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)")


def marker_counts(texts: Sequence[str], markers: Sequence[str] = MARKERS) -> NDArray[np.int64]:
    """How often any marker appears in each text, whatever its case, shape (N,)."""
    pattern = marker_pattern(tuple(markers))
    return np.fromiter((len(pattern.findall(text.lower())) for text in texts), np.int64, len(texts))


def reflection_rate(
    marker_N: NDArray[np.int64], texts: Sequence[str], problem_N: NDArray[np.integer], problems: int
) -> Floats:
    """Markers per 1,000 words of each problem's texts together, shape (P,); NaN for a problem without words.

    `marker_N` are the texts' `marker_counts`.
    """
    words_N = np.fromiter((len(text.split()) for text in texts), np.int64, len(texts))
    words_P = np.bincount(problem_N, words_N, minlength=problems)
    with np.errstate(invalid="ignore"):
        return 1000 * np.bincount(problem_N, marker_N, minlength=problems) / words_P
