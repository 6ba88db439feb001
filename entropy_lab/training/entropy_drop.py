"""Where a solution's steps stop being uncertain: the cut that outer prefixes are taken at. Text and numbers only.

Shape letters: T tokens of a solution, S its steps.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLANK_LINES = re.compile(r"\n[ \t]*\n\s*")
LINES = re.compile(r"\n+")


def step_of_tokens(pieces: Sequence[str], separator: str | None = None) -> NDArray[np.int64]:
    """The step each token begins in, (T,).

    Steps end after a `separator`, or after blank lines, or after lines where none is blank (ours). `pieces` are the
    texts of the tokens, which joined are the solution. White space alone is no step of its own.
    """
    text = "".join(pieces)
    if separator is not None:
        ends = _ends(re.compile(f"(?:{re.escape(separator)})+"), text)
    else:
        ends = _ends(BLANK_LINES, text) or _ends(LINES, text)
    starts_T = np.cumsum([0, *map(len, pieces)])[:-1]
    return np.searchsorted(ends, starts_T, side="right")


def entropy_drop(step_T: NDArray[np.int64], entropy_T: NDArray[np.floating]) -> tuple[int, float] | None:
    """How many tokens stand before the largest drop of mean step entropy, and that drop in nats; None for one step.

    With H_j the mean entropy of step j, L* = argmax_j (H_j − H_{j+1}), the first of equals; steps 1 … L* are kept, so
    that at least one is left to write (which side of the drop the cut lies on is ours).
    """
    steps = np.unique(step_T)
    if len(steps) < 2:
        return None
    mean_S = np.array([float(entropy_T[step_T == step].mean()) for step in steps])
    drop_S = mean_S[:-1] - mean_S[1:]
    last = int(np.argmax(drop_S))
    return int(np.flatnonzero(step_T > steps[last])[0]), float(drop_S[last])


def _ends(pattern: re.Pattern[str], text: str) -> list[int]:
    """Characters before each new step; separators belong to the step before them, and none begins or ends a text."""
    found = [match.end() for match in pattern.finditer(text) if text[: match.start()].strip()]
    return [end for end in found if text[end:].strip()]
