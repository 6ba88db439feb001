import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console
from synthetic import HOSTILE

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis
from entropy_lab.reports.terminal import summary
from entropy_lab.reports.wording import parts

KINDS = ("single", "compared", "hostile", "empty", "several", "many", "forced", "shifted")


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


def test_arms_are_rows_with_interval_and_n(many: Diagnosis) -> None:
    text = rendered(many)
    for checkpoint in many.checkpoints:
        values = [parts(metric) for metric in checkpoint.metrics[:4]]
        assert " ".join(value for value, _ in values[:2]) in re.sub(r"( nats)? +", " ", text)
        for _, interval in values:
            assert interval in text
    assert re.search(r"n = 100 +n = 100 +n = 100", text)


def test_an_arm_with_another_n_says_so(several: Diagnosis) -> None:
    first, *rest = several.checkpoints
    fewer = replace(first, metrics=tuple(replace(metric, n=7) for metric in first.metrics))
    text = rendered(replace(several, checkpoints=(fewer, *rest)))
    assert "n = 7" in text
    assert text.count("n = 100") > 4


def test_clear_differences_are_counted_and_the_largest_shown(several: Diagnosis) -> None:
    names = {"pass@1", "pass@64"}
    differences = [metric for metric in several.differences if metric.metric in names]
    clear = [metric for metric in differences if not metric.low <= 0 <= metric.high]
    text = rendered(replace(several, differences=tuple(differences)))
    assert f"leaves out 0: {len(clear)} of {len(differences)} compared\n" in text
    below = text[text.index("leaves out 0") :]
    for metric in differences:
        assert (parts(metric)[1] in below) == (metric in clear)


def test_many_clear_differences_stay_short(many: Diagnosis) -> None:
    text = rendered(many)
    assert re.search(r"leaves out 0: [3-9]\d\d of 528 compared, the largest 2 of\s+each metric here", text)
    assert len(text.splitlines()) < 150
    largest = max((m for m in many.differences if m.metric == "pass@1"), key=lambda metric: abs(metric.value))
    assert parts(largest)[1] in text[text.index("leaves out 0") :]


def test_no_clear_difference_is_said(several: Diagnosis) -> None:
    same = tuple(replace(metric, value=0.0, low=-0.1, high=0.1) for metric in several.differences)
    text = rendered(replace(several, differences=same))
    assert "leaves out 0: 0 of 33 compared\n" in text
    assert "first − second" not in text


def test_hostile_arms_fit(hostile: Diagnosis) -> None:
    """G5: names of any kind, in rows and in pairs."""
    rows = [
        CheckpointDiagnosis.of_metrics(name, [Metric("pass@1", 0.5, 0.4, 0.6, "share", 3, name)]) for name in HOSTILE
    ]
    pairs = tuple(Metric("pass@1", 0.2, 0.1, 0.3, "share", 3, f"{name} - {name}", name) for name in HOSTILE)
    text = rendered(Diagnosis("T", "countdown", tuple(rows), pairs))
    assert max(cell_len(line) for line in text.splitlines()) <= 80
    assert not re.search("[\x00-\x08\x0b-\x1f\u202e\ud800]", text)
    assert "[bold red]not" in text


def test_wide_intervals_take_more_tables_and_stay_whole(several: Diagnosis) -> None:
    parts_ = tuple(
        replace(part, metrics=tuple(replace(one, value=-0.2163, low=-0.2441, high=-0.1892) for one in part.metrics))
        for part in several.checkpoints
    )
    text = rendered(replace(several, checkpoints=parts_, differences=()))
    assert text.count("[−0.244, −0.189]") >= 3 * len(parts_[0].metrics)
    assert len(re.findall("^builtin:sft-middle ", text, re.M)) == 4
    assert "…" not in text
    assert max(cell_len(line) for line in text.splitlines()) <= 80
