"""Model text made safe to look at: what a reader could not see is named, everything else stays as it was written.

Escaping for HTML is the template's affair; this module only replaces characters that have no appearance of their own.
"""

import re
import unicodedata
from collections.abc import Container

_SUSPECT = re.compile("[^\\x20-\\x7e\\n\\t]")
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = {"\u200c", "\u200d"}
"""They hold emoji and Indic or Persian letters together, so they stay."""
_WHITE = {"\n": "⏎", "\t": "⇥", " ": "␣"}


def code_point(character: str) -> str:
    """`⟨U+202E⟩`: the name of a character that cannot be shown."""
    return f"⟨U+{ord(character):04X}⟩"


def _is_hidden(character: str) -> bool:
    if character in _JOINERS:
        return False
    code = ord(character)
    nonchar = code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF
    return nonchar or unicodedata.category(character) in _HIDDEN


def _reveal(match: re.Match[str]) -> str:
    character = match.group()
    if not _is_hidden(character):
        return character
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else code_point(character)


def visible(text: str) -> str:
    """`text` with its invisible characters shown; line breaks and tabs are kept.

    Control characters become control pictures (`␀`, `␛`); lone surrogates, directional overrides, zero-width and
    format characters and noncharacters become `⟨U+202E⟩`. The result encodes as UTF-8 and holds no character that
    XML or HTML forbids.
    """
    return _SUSPECT.sub(_reveal, text)


def label(text: str, limit: int, *, spaces: bool = False, drawable: Container[int] | None = None) -> str:
    """One line of at most `limit` characters: line breaks as `⏎`, tabs as `⇥`, the rest as in `visible`.

    `spaces` shows every space as `␣`, as a token's text needs. `drawable` holds the code points a font has a glyph
    for; any other character is named instead. What does not fit is cut and ends in `…`.
    """
    units: list[str] = []
    length = 0
    for character in text:
        unit = _WHITE.get(character) or visible(character)
        if character == " " and not spaces:
            unit = " "
        if drawable is not None and any(ord(part) not in drawable for part in unit):
            unit = code_point(character)
        units.append(unit)
        length += len(unit)
        if length > limit:
            break
    if length <= limit:
        return "".join(units)
    while units and length > limit - 1:
        length -= len(units.pop())
    return "".join(units) + "…"


def short_name(name: str, limit: int, *, drawable: Container[int] | None = None) -> str:
    """A checkpoint's name on one line; a long one loses its middle, because its ends tell it from another.

    A long path loses folders from its front instead, as long as its last part fits.
    """
    whole = label(name, 8 * limit, drawable=drawable)
    if len(whole) <= limit:
        return whole
    folder = whole.find("/", len(whole) - limit + 1)
    if folder >= 0:
        return f"…{whole[folder:]}"
    head = (limit - 1) // 2
    return f"{whole[:head]}…{whole[len(whole) - (limit - 1 - head) :]}"
