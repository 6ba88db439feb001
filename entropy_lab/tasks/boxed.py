r"""Finds the final answer that a text puts in \boxed{}, in one pass whatever its braces, and makes it fit to store."""

import re

TOKEN = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)
ANSWER_LENGTH = 200


def last_boxed(text: str) -> str | None:
    r"""Return the content of the last \boxed{} that closes and is not blank, or None.

    "Last" is the one that opens last, so a box inside a box gives the inner one, and a text cut off inside its last
    box gives the box before it. Escaped braces do not count.
    """
    opened: list[tuple[int, bool]] = []
    start, end = 0, 0
    for token in TOKEN.finditer(text):
        found = token.group()
        if found == "{" or found.startswith("\\boxed"):
            opened.append((token.end(), found != "{"))
        elif found == "}" and opened:
            inside, is_box = opened.pop()
            if is_box and inside > start and text[inside : token.start()].strip():
                start, end = inside, token.start()
    return text[start:end].strip() if end else None


def readable(text: str) -> str:
    """Bound a text to ANSWER_LENGTH characters and replace those that cannot be printed or stored by spaces."""
    return "".join(c if c.isprintable() else " " for c in text[:ANSWER_LENGTH]).strip()
