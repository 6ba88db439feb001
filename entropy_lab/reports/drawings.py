"""Figures that a command makes of its own numbers: curves, levels, scatter, family grids; None where there is no data.

Bands and bars are the intervals; the caption says so and gives n.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Patch, Rectangle
from numpy.typing import NDArray

from entropy_lab.diagnostics.families import FamilyGrid
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import Curve
from entropy_lab.reports.lines import band, plot_curves, spread
from entropy_lab.reports.style import (
    WIDTH,
    Drawing,
    colour,
    drawn_name,
    drawn_text,
    house_style,
    legend,
    line,
    new_axes,
)
from entropy_lab.reports.svg import INK
from entropy_lab.reports.wording import finite, number, percent

Floats = NDArray[np.float64]
_UPRIGHT = 46  # characters that fit side by side under a plot
_LABEL = 22
_DODGE = 0.07  # of the way from one label to the next
_DARKEST = 0.55  # letters stay readable on it in both themes
_PANELS = 3  # side by side
_CORNERS = ((1, 1), (-1, 1), (1, -1), (-1, -1))  # right, up
_RING = 0.3  # of a cell's width


def curves(
    name: str,
    title: str,
    caption: str,
    lines: Mapping[str, Curve],
    *,
    ylabel: str,
    xlabel: str,
    marker: bool = False,
    bottom: float | None = 0.0,
) -> Drawing | None:
    """One line with its band for each name; `bottom` None leaves the y axis to the data."""
    with house_style():
        drawn = plot_curves(list(lines), list(lines.values()), ylabel, xlabel, marker=marker, bottom=bottom)
    return None if drawn is None else Drawing(name, drawn[0], title, f"{caption} {band(list(lines.values()))}")


def _bars(metrics: Sequence[Metric]) -> str:
    interval = any(_end(metric.low) == _end(metric.low) for metric in metrics)
    counts = spread(metric.n for metric in metrics)
    return f"Bars: {percent(0.95)} intervals, {counts}." if interval else f"No interval, {counts}."


def _end(value: float | None) -> float:
    known = finite(value)
    return np.nan if known is None else known


def _column(metrics: Sequence[Metric | None], of: Callable[[Metric], float | None]) -> Floats:
    return np.array([np.nan if metric is None else _end(of(metric)) for metric in metrics])


def levels(
    name: str,
    title: str,
    caption: str,
    labels: Sequence[str],
    series: Mapping[str, Sequence[Metric | None]],
    *,
    ylabel: str,
    xlabel: str = "",
) -> Drawing | None:
    """Points with interval bars over `labels`, joined by one line a series; None leaves a gap in its line."""
    table = {key: _column(row, lambda metric: metric.value) for key, row in series.items()}
    if not any(np.isfinite(values).any() for values in table.values()):
        return None
    with house_style():
        figure, axes = new_axes(ylabel, xlabel)
        for index, (key, values) in enumerate(table.items()):
            x = np.arange(len(labels)) + _DODGE * (index - (len(series) - 1) / 2)
            drawn = line(index, marker=True)
            drawn.set_data(x, values)
            axes.add_line(drawn)
            low, high = (_column(series[key], end) for end in (lambda one: one.low, lambda one: one.high))
            barred = np.isfinite(values + low + high)
            axes.vlines(x[barred], low[barred], high[barred], color=colour(index), linewidth=1)
        axes.autoscale_view()
        axes.set_ylim(bottom=min(0.0, axes.get_ylim()[0]))
        axes.set_xlim(-0.5, len(labels) - 0.5)
        shown = [drawn_name(text, _LABEL) for text in labels]
        slanted = sum(map(len, shown)) > _UPRIGHT
        axes.set_xticks(range(len(labels)), shown)
        if slanted:
            for text in axes.get_xticklabels():
                text.set(rotation=30, ha="right", rotation_mode="anchor")
        legend(axes, list(series), [line(index, marker=True) for index in range(len(series))])
    bars = _bars([metric for row in series.values() for metric in row if metric is not None])
    return Drawing(name, figure, title, f"{caption} {bars}")


@dataclass(frozen=True)
class Point:
    """One thing in a scatter plot; a marked one is filled and labelled."""

    label: str
    x: Metric
    y: Metric
    marked: bool = False


def scatter(
    name: str, title: str, caption: str, points: Sequence[Point], *, xlabel: str, ylabel: str
) -> Drawing | None:
    """Points with interval bars both ways."""
    here = [point for point in points if finite(point.x.value) is not None and finite(point.y.value) is not None]
    if not here:
        return None
    with house_style():
        figure, axes = new_axes(ylabel, xlabel)
        axes.grid(axis="x")
        for point in here:
            x, y = _end(point.x.value), _end(point.y.value)
            ends = [_end(value) for value in (point.x.low, point.x.high, point.y.low, point.y.high)]
            faint = 0.55 if point.marked else 0.3
            if np.isfinite(ends[:2]).all():
                axes.hlines([y], ends[0], ends[1], color=colour(0), linewidth=0.9, alpha=faint)
            if np.isfinite(ends[2:]).all():
                axes.vlines([x], ends[2], ends[3], color=colour(0), linewidth=0.9, alpha=faint)
            fill = colour(0) if point.marked else "none"
            axes.plot([x], [y], "o", color=colour(0), markerfacecolor=fill, markersize=5.5, markeredgewidth=1.2)
        axes.margins(0.08)
        axes.autoscale_view()
        _name_points(axes, here)
    metrics = [metric for point in here for metric in (point.x, point.y)]
    return Drawing(name, figure, title, f"{caption} {_bars(metrics)}")


def _name_points(axes: Axes, points: Sequence[Point]) -> None:
    """Labels of the marked points, each at the corner where it covers the fewest points and labels (sizes guessed)."""
    place = axes.transLimits
    covered = [np.tile(place.transform((_end(one.x.value), _end(one.y.value))), 2) for one in points]
    for point in points:
        if not point.marked:
            continue
        text = drawn_name(point.label, _LABEL)
        at = (_end(point.x.value), _end(point.y.value))
        boxes = [_label_box(place.transform(at), len(text), *corner) for corner in _CORNERS]
        costs = [sum(map(float, (_overlaps(box, other) for other in covered))) + _outside(box) for box in boxes]
        best = int(np.argmin(costs))
        covered.append(boxes[best])
        right, up = _CORNERS[best]
        axes.annotate(
            text,
            at,
            xytext=(5 * right, 4 * up),
            textcoords="offset points",
            ha="left" if right > 0 else "right",
            va="bottom" if up > 0 else "top",
            fontsize=8,
        )


def _label_box(at: Floats, characters: int, right: int, up: int) -> Floats:
    """Left, bottom, right, top in shares of the axes."""
    corners = at + np.array([[0.015, 0.02], [0.015 + 0.0165 * characters, 0.1]]) * (right, up)
    return np.concatenate((corners.min(axis=0), corners.max(axis=0)))


def _overlaps(one: Floats, other: Floats) -> bool:
    return bool((one[:2] <= other[2:]).all() and (other[:2] <= one[2:]).all())


def _outside(box: Floats) -> float:
    return 100.0 * float(max(-box[:2].min(), box[2:].max() - 1, 0))


def family_grids(name: str, title: str, caption: str, grids: Sequence[FamilyGrid]) -> Drawing | None:
    """Operand × operator, a panel a checkpoint: access as shade, execution as the filled part of a ring.

    A ring stands where samples start; a stroke crosses a cell that no problem's menu offers.
    """
    if not any((grid.starts > 0).any() for grid in grids):
        return None
    most = max(float(np.nanmax(grid.access, initial=0)) for grid in grids) or 1.0
    with house_style():
        columns = min(_PANELS, len(grids))
        rows = -(-len(grids) // columns)
        operands = max(len(grid.operands) for grid in grids)
        side = min(0.42, (WIDTH - 0.95) / (columns * 4.3))
        figure = Figure((WIDTH, rows * (side * operands + 0.55) + 0.35))
        for place, grid in enumerate(grids):
            axes = figure.add_subplot(rows, columns, place + 1)
            _panel(axes, grid, most, leftmost=place % columns == 0)
        shades = [Patch(facecolor=colour(0), alpha=_DARKEST * share) for share in (0.25, 0.5, 1)]
        texts = [f"access {number(most / 4)}", number(most / 2), number(most), "correct: all", "none"]
        figure.legend(
            [*shades, _ring(INK), _ring("none")],
            texts,
            loc="outside lower center",
            ncols=len(texts),
            handlelength=1.2,
            columnspacing=1.2,
            fontsize=8,
        )
    counts = spread(int(grid.starts.sum()) for grid in grids)
    return Drawing(name, figure, title, f"{caption} Samples with a first calculation: {counts}.")


def _ring(fill: str) -> Line2D:
    return Line2D([], [], marker="o", linestyle="", markersize=7, color=INK, markerfacecolor=fill)


def _panel(axes: Axes, grid: FamilyGrid, most: float, *, leftmost: bool) -> None:
    for (row, column), access in np.ndenumerate(grid.access):
        share = float(access) / most if np.isfinite(access) else 0.0
        corner = (column - 0.5, row - 0.5)
        axes.add_patch(Rectangle(corner, 1, 1, facecolor=colour(0), alpha=_DARKEST * share, linewidth=0))
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=INK, alpha=0.25, linewidth=0.5))
        if not grid.offered[row, column] > 0:
            axes.plot([column - 0.5, column + 0.5], [row + 0.5, row - 0.5], color=INK, alpha=0.35, linewidth=0.6)
        execution = grid.execution[row, column]
        if grid.starts[row, column] > 0 and np.isfinite(execution):
            axes.add_patch(Circle((column, row), _RING, fill=False, edgecolor=INK, linewidth=0.7))
            axes.add_patch(Circle((column, row), _RING * float(np.sqrt(execution)), facecolor=INK, linewidth=0))
    axes.set_xlim(-0.5, len(grid.operators) - 0.5)
    axes.set_ylim(len(grid.operands) - 0.5, -0.5)
    axes.set_aspect("equal")
    axes.set_xticks(range(len(grid.operators)), [drawn_text(text, 3) for text in grid.operators])
    axes.set_yticks(range(len(grid.operands)), [drawn_text(text, 12) for text in grid.operands] if leftmost else [])
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.set_title(drawn_name(grid.checkpoint, _LABEL), pad=5)
