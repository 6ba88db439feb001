import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import HOSTILE

from entropy_lab.reports.visible import label, short_name, visible

ANY_TEXT = st.text(st.characters(codec=None, exclude_categories=()), max_size=60)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain $x_1$ <b> \\ é 中 🙂", "plain $x_1$ <b> \\ é 中 🙂"),
        ("\x00\x1b[31m\x7f", "␀␛[31m␡"),
        ("a\nb\tc\r", "a\nb\tc␍"),
        ("\ud800", "⟨U+D800⟩"),
        ("\u202eabc", "⟨U+202E⟩abc"),
        ("\x85\ufeff\u200b", "⟨U+0085⟩⟨U+FEFF⟩⟨U+200B⟩"),
        ("\uffff\U0001ffff\ufdd0", "⟨U+FFFF⟩⟨U+1FFFF⟩⟨U+FDD0⟩"),
        ("👩\u200d🔬", "👩\u200d🔬"),
    ],
)
def test_visible_shows_what_has_no_appearance_and_keeps_the_rest(text: str, shown: str) -> None:
    """G5."""
    assert visible(text) == shown


@given(ANY_TEXT)
def test_visible_leaves_nothing_hidden(text: str) -> None:
    """G5: encodes as UTF-8, holds no control, format, surrogate or non-character; a second pass changes nothing."""
    shown = visible(text)
    shown.encode("utf-8")
    hidden = {c for c in shown if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}}
    assert hidden <= {"\n", "\t", "\u200c", "\u200d"}
    assert visible(shown) == shown


@given(ANY_TEXT, st.integers(12, 40), st.booleans())
def test_a_label_is_one_line_within_its_limit(text: str, limit: int, spaces: bool) -> None:
    shown = label(text, limit, spaces=spaces)
    assert len(shown) <= limit
    assert not set(shown) & {"\n", "\t", "\r"}
    assert not (spaces and " " in shown)


def test_a_label_names_what_the_font_cannot_draw() -> None:
    ascii_only = set(range(0x20, 0x7F)) | {ord("⟨"), ord("⟩"), ord("⏎")}
    assert label("a🙂\n\x00", 40, drawable=ascii_only) == "a⟨U+1F642⟩⏎⟨U+0000⟩"


def test_a_label_cuts_long_text_at_the_end_and_a_name_in_the_middle() -> None:
    assert label("a" * 10_000, 8) == "aaaaaaa…"
    assert label("exactly8", 8) == "exactly8"
    assert short_name("builtin:countdown-step-0400", 13) == "builti…p-0400"
    assert short_name("/data/runs/a/step-400 [forced]", 20) == "…/step-400 [forced]"
    assert short_name("/data/runs/a/a-name-too-long-for-it", 13) == "/data/…for-it"


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_labels_fit(text: str) -> None:
    assert len(label(text, 18, spaces=True)) <= 18
