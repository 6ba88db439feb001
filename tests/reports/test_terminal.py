import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from entropy_lab.reports.contents import Diagnosis
from entropy_lab.reports.terminal import summary

KINDS = ("single", "compared", "hostile", "empty")


def rendered(diagnosis: Diagnosis, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None, force_terminal=False)
    console.print(summary(diagnosis))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


@pytest.mark.parametrize("kind", KINDS)
def test_eighty_columns_hold_every_line(kind: str, request: pytest.FixtureRequest) -> None:
    text = rendered(request.getfixturevalue(kind))
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert "\x1b" not in text


def test_nothing_is_printed_by_the_library(compared: Diagnosis, capfd: pytest.CaptureFixture[str]) -> None:
    summary(compared)
    assert capfd.readouterr() == ("", "")


def test_main_numbers_stand_whole_with_their_intervals(compared: Diagnosis) -> None:
    text = rendered(compared)
    for whole in ("0.264 nats", "[0.242, 0.286]", "−0.216 nats", "[−0.244, −0.189]", "0.276 (1,105)"):
        assert whole in text
    assert re.search(r"family coverage +0\.231 +0\.420 +−0\.189 +98", text)
    assert "Intervals are 95%. Differences are the first minus the second." in text
    assert "Note: The grader failed on no sample." in text


def test_a_number_without_interval_is_left_to_the_page(single: Diagnosis) -> None:
    assert "entropy.branching" not in rendered(single)
    assert "1.62" not in rendered(single)


def test_markup_emoji_and_escapes_are_text(hostile: Diagnosis) -> None:
    """G5."""
    text = rendered(hostile)
    assert "[bold red]not markup[/] :smile: [/nope]" in text
    assert "Note: ␀␇␛[31m␡⟨U+0085⟩" in text
    assert "⟨U+202E⟩gnp.exe" in text
    assert "\u202e" not in text


def test_a_diagnosis_without_numbers_says_so(empty: Diagnosis) -> None:
    assert "no number with an interval was measured" in rendered(empty)
