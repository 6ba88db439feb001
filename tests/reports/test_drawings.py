import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.patches import Circle, Rectangle
from synthetic import HOSTILE, curve, empty_curve

from entropy_lab.diagnostics.families import FamilyGrid
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import Diagnosis
from entropy_lab.reports.drawings import Point, curves, family_grids, levels, scatter
from entropy_lab.reports.figures import draw, write_figures
from entropy_lab.reports.page import page
from entropy_lab.reports.style import SERIES, Drawing, colour, dashes, inline_svg, write_drawing
from entropy_lab.reports.visible import visible


def share(value: float | None, half: float | None = 0.1, n: int = 50) -> Metric:
    """A metric with `value` ± `half`, without an interval where `half` is None."""
    ends = (None, None) if value is None or half is None else (value - half, value + half)
    return Metric("m", value, *ends, "share", n)


def grid(name: str = "a", **changes: Any) -> FamilyGrid:
    access = np.array([[0.5, 0.25, 0.0, 0.0], [0.0, 0.125, 0.125, 0.0]])
    starts = (access * 80).astype(np.int64)
    execution = np.array([[0.25, 1.0, np.nan, np.nan], [np.nan, 0.0, 0.5, np.nan]])
    offered = np.array([[1.0, 0.5, 0.1, 0.0], [0.2, 0.0, 1.0, 0.3]])
    parts = {
        "checkpoint": name, "operands": ("1 (smallest)", "2"), "operators": ("+", "-", "*", "/"),
        "access": access, "execution": execution, "starts": starts, "offered": offered,
    }  # fmt: skip
    return FamilyGrid(**{**parts, **changes})


def one_of_each(text: str = "a") -> tuple[Drawing, ...]:
    drawn = (
        curves("c", "T", "C.", {text: curve([1, 2, 4], [0.1, 0.2, 0.3], 0.05)}, ylabel=text, xlabel=text),
        levels("l", "T", "C.", [text, "b"], {text: [share(0.2), None], "x": [share(0.1), share(0.3)]}, ylabel=text),
        scatter("s", "T", "C.", [Point(text, share(0.2), share(0.4), True)], xlabel=text, ylabel=text),
        family_grids("g", "T", "C.", [grid(text)]),
    )
    return tuple(one for one in drawn if one is not None)


def axes_of(drawing: Drawing | None) -> Axes:
    assert drawing is not None
    return drawing.figure.axes[0]


def bars(axes: Axes) -> list[list[float]]:
    """Every interval bar as x0, y0, x1, y1."""
    found = [one for one in axes.collections if isinstance(one, LineCollection)]
    return [list(segment.ravel()) for one in found for segment in one.get_segments()]


def texts_of(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag.endswith("text")]


def test_curves_are_their_lines() -> None:
    lines = {"a": curve([1, 2, 4], [0.1, np.nan, 0.3], 0.05, n=7), "b": curve([1, 2, 4], [0.5, 0.6, 0.7], 0.05, n=9)}
    drawing = curves("c", "T", "C.", lines, ylabel="y", xlabel="x")
    axes = axes_of(drawing)
    np.testing.assert_array_equal(axes.lines[0].get_xydata(), [[1, 0.1], [4, 0.3]])
    np.testing.assert_array_equal(axes.lines[1].get_xydata(), [[1, 0.5], [2, 0.6], [4, 0.7]])
    assert drawing is not None
    assert drawing.caption == "C. Band: 95% interval, n from 7 to 9."
    assert axes.get_ylim()[0] == 0
    free = axes_of(curves("c", "T", "C.", {"a": curve([1, 2], [5, 6], 0.1)}, ylabel="y", xlabel="x", bottom=None))
    assert free.get_ylim()[0] > 4


def test_levels_stand_over_their_labels_and_leave_gaps() -> None:
    series = {"a": [share(0.2), None, share(0.6)], "b": [share(0.5, None), share(None), share(0.7, 0.05)]}
    drawing = levels("l", "T", "C.", ["p", "q", "r"], series, ylabel="y")
    axes = axes_of(drawing)
    for line, expected in zip(axes.lines, ([0.2, np.nan, 0.6], [0.5, np.nan, 0.7]), strict=True):
        x, y = np.asarray(line.get_xydata()).T
        np.testing.assert_array_equal(np.round(x), [0, 1, 2])
        np.testing.assert_array_equal(y, expected)
    assert [bar[1::2] for bar in bars(axes)] == [pytest.approx(ends) for ends in ([0.1, 0.3], [0.5, 0.7], [0.65, 0.75])]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["p", "q", "r"]
    assert drawing is not None
    assert drawing.caption == "C. Bars: 95% intervals, n = 50."


def test_many_labels_slant() -> None:
    names = [f"builtin:checkpoint-{index}" for index in range(8)]
    axes = axes_of(levels("l", "T", "C.", names, {"a": [share(0.5)] * 8}, ylabel="y"))
    assert {text.get_rotation() for text in axes.get_xticklabels()} == {30.0}


def test_scatter_marks_what_is_marked() -> None:
    points = [
        Point("kept", share(0.2), share(0.4, 0.2), marked=True),
        Point("other", share(0.3), share(0.5, None)),
        Point("absent", share(None), share(0.5), marked=True),
    ]
    axes = axes_of(scatter("s", "T", "C.", points, xlabel="x", ylabel="y"))
    assert [list(np.ravel(line.get_xydata())) for line in axes.lines] == [[0.2, 0.4], [0.3, 0.5]]
    assert [line.get_markerfacecolor() == "none" for line in axes.lines] == [False, True]
    assert [text.get_text() for text in axes.texts] == ["kept"]
    expected = ([0.1, 0.4, 0.3, 0.4], [0.2, 0.2, 0.2, 0.6], [0.2, 0.5, 0.4, 0.5])
    np.testing.assert_allclose(bars(axes), expected)


def test_labels_of_crowded_points_do_not_cover_each_other() -> None:
    points = [Point(f"layers {i}", share(0.5 + 0.01 * i, 0.01), share(0.5, 0.01), marked=True) for i in range(4)]
    points += [Point("far", share(x), share(x)) for x in (0.1, 0.9)]
    drawing = scatter("s", "T", "C.", points, xlabel="x", ylabel="y")
    axes = axes_of(drawing)
    assert drawing is not None
    drawing.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in axes.texts]
    overlapping = sum(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    assert len(boxes) == 4
    assert overlapping == 0


def test_family_grid_shades_access_and_fills_execution() -> None:
    one = grid()
    axes = axes_of(family_grids("g", "T", "C.", [one]))
    filled = [patch for patch in axes.patches if isinstance(patch, Rectangle) and patch.get_fill()]
    shade = np.array([patch.get_alpha() for patch in filled], float).reshape(2, 4)
    assert shade == pytest.approx(one.access / one.access.max() * shade.max())
    circles = [patch for patch in axes.patches if isinstance(patch, Circle)]
    rings = {patch.center: patch.radius for patch in circles if not patch.get_fill()}
    marks = {patch.center: patch.radius for patch in circles if patch.get_fill()}
    assert set(rings) == set(marks) == {(0, 0), (1, 0), (1, 1), (2, 1)}
    for (column, row), radius in marks.items():
        assert (radius / rings[column, row]) ** 2 == pytest.approx(one.execution[row, column])
    crossed = {tuple(np.asarray(line.get_xydata()).mean(axis=0)) for line in axes.lines}
    assert crossed == {(3, 0), (1, 1)}


def test_family_grids_share_one_scale() -> None:
    faint = grid("b", access=grid().access / 2)
    drawing = family_grids("g", "T", "C.", [grid(), faint, grid("c"), grid("d")])
    assert drawing is not None
    assert len(drawing.figure.axes) == 4
    alphas = [max(float(patch.get_alpha() or 0) for patch in axes.patches) for axes in drawing.figure.axes[:2]]
    assert alphas[1] == pytest.approx(alphas[0] / 2)
    assert drawing.caption == "C. Samples with a first calculation: n = 80."


def test_nothing_to_draw_is_no_figure() -> None:
    nothing = grid(starts=np.zeros((2, 4), np.int64))
    assert curves("c", "T", "C.", {"a": empty_curve()}, ylabel="y", xlabel="x") is None
    assert curves("c", "T", "C.", {}, ylabel="y", xlabel="x") is None
    assert levels("l", "T", "C.", ["a"], {"x": [None], "y": [share(None)]}, ylabel="y") is None
    assert scatter("s", "T", "C.", [Point("a", share(None), share(0.1))], xlabel="x", ylabel="y") is None
    assert family_grids("g", "T", "C.", [nothing]) is None
    assert family_grids("g", "T", "C.", []) is None


def test_the_same_numbers_give_the_same_bytes(tmp_path: Path) -> None:
    first, again = one_of_each(), one_of_each()
    for one, other in zip(first, again, strict=True):
        inline = inline_svg(one)
        once, twice = write_drawing(one, tmp_path / "a"), write_drawing(one, tmp_path / "b")
        remade = write_drawing(other, tmp_path / "c")
        for name, path in once.items():
            assert path.read_bytes() == twice[name].read_bytes() == remade[name].read_bytes(), name
        assert inline == inline_svg(other)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_label_is_drawn_as_written(text: str) -> None:
    """No formula, no markup, no missing glyph (a warning is an error), no NaN, well-formed XML."""
    for drawing in one_of_each(text):
        svg = inline_svg(drawing)
        assert all(one == visible(one) for one in texts_of(svg))
        assert "<script" not in svg
        for element in ElementTree.fromstring(svg).iter():
            assert not any("nan" in value.split() or "http" in value for value in element.attrib.values())


def test_colours_follow_the_page() -> None:
    for drawing in one_of_each():
        svg = inline_svg(drawing)
        assert "var(--series-1, #0072b2)" in svg
        assert "currentColor" in svg


def test_series_stay_apart() -> None:
    looks = [(colour(index), str(dashes(index))) for index in range(32)]
    assert len(set(looks)) == 32
    assert len({to_hex(one) for one in SERIES}) == 8


def test_a_long_legend_makes_the_figure_taller() -> None:
    line = curve([1, 2], [0.1, 0.2], 0.01)
    few, many = (
        curves("c", "T", "C.", {f"arm {i}": line for i in range(count)}, ylabel="y", xlabel="x") for count in (2, 12)
    )
    assert few is not None
    assert many is not None
    assert many.figure.get_size_inches()[1] > few.figure.get_size_inches()[1] + 0.5


def test_own_figures_come_first_and_take_the_place_of_their_name(single: Diagnosis, tmp_path: Path) -> None:
    own = tuple(replace(one, name=name) for one, name in zip(one_of_each(), ("mine", "pass_at_k"), strict=False))
    diagnosis = replace(single, drawings=own)
    names = [drawing.name for drawing in draw(diagnosis)]
    assert names == [
        "mine",
        "pass_at_k",
        "entropy_by_position",
        "entropy_by_decile",
        "entropy_histogram",
        "decision_tokens",
    ]
    assert draw(diagnosis)[1] is own[1]
    assert "mine.svg" in write_figures(diagnosis, tmp_path)
    assert page(diagnosis).index('id="mine-title"') < page(diagnosis).index('id="entropy_by_position-title"')
