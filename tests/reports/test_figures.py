import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from synthetic import curve

from entropy_lab.reports.contents import DecisionToken, Diagnosis
from entropy_lab.reports.figures import draw, write_figures
from entropy_lab.reports.style import inline_svg
from entropy_lab.reports.svg import INK
from entropy_lab.reports.visible import visible

NAMES = ("pass_at_k", "entropy_by_position", "entropy_by_decile", "entropy_histogram", "decision_tokens")


@pytest.fixture(scope="module")
def written(compared: Diagnosis, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_figures(compared, tmp_path_factory.mktemp("run") / "figures")


@pytest.fixture(scope="module")
def hostile_figures(hostile: Diagnosis, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return write_figures(hostile, tmp_path_factory.mktemp("hostile"))


def texts_of(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


def test_each_figure_is_written_twice_and_nothing_else(written: dict[str, Path]) -> None:
    assert sorted(written) == sorted(f"{name}.{suffix}" for name in NAMES for suffix in ("svg", "png"))
    assert sorted(entry.name for entry in written["pass_at_k.png"].parent.iterdir()) == sorted(written)
    assert written["pass_at_k.png"].read_bytes().startswith(b"\x89PNG")


def test_the_same_numbers_give_the_same_bytes(compared: Diagnosis, written: dict[str, Path], tmp_path: Path) -> None:
    for name, path in write_figures(compared, tmp_path).items():
        assert path.read_bytes() == written[name].read_bytes(), name
        assert b"date" not in path.read_bytes()


def test_lines_and_bars_are_the_diagnosis_own_numbers(compared: Diagnosis) -> None:
    axes = {drawing.name: drawing.figure.axes[0] for drawing in draw(compared)}
    for index, checkpoint in enumerate(compared.checkpoints):
        for name in NAMES[:3]:
            expected = {"pass_at_k": checkpoint.pass_at_k, "entropy_by_position": checkpoint.entropy_by_position}.get(
                name, checkpoint.entropy_by_decile
            )
            x, y = np.asarray(axes[name].lines[index].get_xydata()).T
            np.testing.assert_array_equal(x, expected.x)
            np.testing.assert_array_equal(y, expected.value)
        shares = [bar.get_width() for bar in axes["decision_tokens"].containers[index]]
        assert max(shares) == max(token.share for token in checkpoint.decision_tokens)
    assert axes["pass_at_k"].get_xscale() == "log"
    assert axes["entropy_histogram"].get_yscale() == "log"


def test_ks_are_the_ticks(written: dict[str, Path]) -> None:
    assert texts_of(written["pass_at_k.svg"].read_text())[:5] == ["1", "2", "4", "8", "16"]


def test_hostile_text_is_drawn_as_written(hostile_figures: dict[str, Path]) -> None:
    """G5: no formula, no markup, no missing-glyph warning (warnings are errors here), and well-formed XML."""
    svg = hostile_figures["decision_tokens.svg"].read_text()
    texts = texts_of(svg)
    assert "$x_1^{2}$␣\\frac{a…" in texts
    assert "<script>alert(1)<…" in texts
    assert any(text.startswith("⟨U+202E⟩") for text in texts)
    assert any(text.startswith("⟨U+1F642⟩") for text in texts)
    assert all(text == visible(text) for text in texts)
    assert "<script" not in svg


@pytest.mark.parametrize("text", ["_dropped", "$\\frac{", "{", "%", "中", "\ud83d", "عربى"])
def test_any_checkpoint_name_stands_in_the_legend(compared: Diagnosis, text: str) -> None:
    """G5: matplotlib drops labels that begin with an underscore and reads dollars as formulas."""
    first, second = compared.checkpoints
    named = replace(compared, checkpoints=(replace(first, name=text), second))
    texts = texts_of(inline_svg(draw(named)[0]))
    drawn = {"中": "⟨U+4E2D⟩", "\ud83d": "⟨U+D83D⟩"}.get(text, text)
    assert drawn in texts
    assert second.name in texts


def test_figures_hold_no_link_and_no_nan(hostile_figures: dict[str, Path], written: dict[str, Path]) -> None:
    """G2."""
    for path in (*hostile_figures.values(), *written.values()):
        for element in ElementTree.parse(path).iter() if path.suffix == ".svg" else ():
            for key, value in element.attrib.items():
                assert "http" not in value
                assert "nan" not in value.split()
                assert not key.endswith("href") or value.startswith("#")


def test_letters_follow_the_page(compared: Diagnosis) -> None:
    svg = inline_svg(draw(compared)[0])
    assert INK not in svg
    assert "currentColor" in svg
    assert "var(--series-1, #0072b2)" in svg
    assert "xmlns" not in svg


def test_a_figure_without_data_is_left_out(empty: Diagnosis, single: Diagnosis, tmp_path: Path) -> None:
    assert write_figures(empty, tmp_path) == {}
    nothing = empty.checkpoints[0]
    mixed = replace(single, checkpoints=(*single.checkpoints, nothing))
    assert [drawing.name for drawing in draw(mixed)] == list(NAMES)
    for drawing in draw(mixed):
        legend = drawing.figure.axes[0].get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()] == [single.checkpoints[0].name], drawing.name


def test_one_point_is_seen(single: Diagnosis, tmp_path: Path) -> None:
    part = replace(single.checkpoints[0], pass_at_k=curve([1], [0.0], 0.0), entropy_by_position=curve([0], [0.0], 0.0))
    drawings = draw(replace(single, checkpoints=(part,)))
    assert {drawing.figure.axes[0].lines[0].get_marker() for drawing in drawings[:2]} == {"o"}
    write_figures(replace(single, checkpoints=(part,)), tmp_path)


def test_captions_carry_level_and_n(single: Diagnosis) -> None:
    part = single.checkpoints[0]
    fading = replace(part.entropy_by_position, n=np.arange(64, 0, -1))
    drawings = {
        drawing.name: drawing
        for drawing in draw(replace(single, confidence=0.9, checkpoints=(replace(part, entropy_by_position=fading),)))
    }
    assert drawings["pass_at_k"].caption.endswith("Band: 90% interval, n = 100.")
    assert drawings["entropy_by_position"].caption.endswith("Band: 90% interval, n from 1 to 64.")


def test_a_users_matplotlib_settings_neither_leak_in_nor_change(
    single: Diagnosis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(matplotlib.rcParams, "text.usetex", True)
    monkeypatch.setitem(matplotlib.rcParams, "font.size", 31.0)
    before = dict(matplotlib.rcParams)
    token = DecisionToken("\\undefined", 1, 1.0, 1.0)
    write_figures(replace(single, checkpoints=(replace(single.checkpoints[0], decision_tokens=(token,)),)), tmp_path)
    assert dict(matplotlib.rcParams) == before
    assert "\\undefined" in texts_of((tmp_path / "decision_tokens.svg").read_text())


def test_pyplot_stays_out_and_light_modules_need_no_matplotlib() -> None:
    code = (
        "import sys, entropy_lab.reports.terminal as t; assert 'matplotlib' not in sys.modules;"
        "import entropy_lab.reports.page; assert not {'matplotlib.pyplot', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
