"""Where in a text its first calculation's operator stands: the reader of `entrances`, with characters counted.

The reader respells the text first, which moves characters; here each of them remembers where it came from.
"""

import re
from collections.abc import Callable, Sequence

from entropy_lab.tasks.countdown.entrances import EMPHASIS, POWER, REACH, find_calculation
from entropy_lab.tasks.countdown.expressions import LATEX, LATEX_WORDS, SYMBOLS, WRAPPERS

_RESPELLINGS: tuple[tuple[re.Pattern[str], Callable[[str], str]], ...] = (
    (WRAPPERS, lambda _: " "),
    (LATEX_WORDS, lambda word: LATEX[word]),
    (POWER, lambda _: "^"),
    (EMPHASIS, lambda _: ""),
)


def first_operator(nums: Sequence[int], text: str) -> tuple[str, int] | None:
    r"""Label of the first calculation, as `first_calculation` gives it, and the last character of its operator.

    The place is an index into `text`; for an operator of several characters (`\times`) it is the last of them, so that
    `text[: place + 1]` holds the operator whole. None where there is no calculation.
    """
    spelled, ends = _respelled(text[:REACH])
    found = find_calculation(nums, spelled)
    return None if found is None else (found[0], ends[found[1]])


def _respelled(text: str) -> tuple[str, list[int]]:
    """The text as the reader spells it, and for each of its characters the last original one it stands for."""
    spelled, ends = text, list(range(len(text)))
    for pattern, word_for in _RESPELLINGS:
        if pattern is POWER:  # symbols become ASCII, one for one, before powers and emphasis are told apart
            spelled = spelled.translate(SYMBOLS)
        pieces, kept, done = [], [], 0
        for match in pattern.finditer(spelled):
            word = word_for(match.group())
            pieces += [spelled[done : match.start()], word]
            kept += ends[done : match.start()] + [ends[match.end() - 1]] * len(word)
            done = match.end()
        spelled, ends = "".join([*pieces, spelled[done:]]), kept + ends[done:]
    return spelled, ends
