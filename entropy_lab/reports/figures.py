"""The figures of a diagnosis: the command's own first, then the standard ones; one without data is left out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from entropy_lab.reports.contents import CheckpointDiagnosis, Curve, Diagnosis
from entropy_lab.reports.lines import band, plot_curves
from entropy_lab.reports.selection import decision_rows
from entropy_lab.reports.style import (
    MONO,
    Drawing,
    colour,
    dashes,
    glyphs,
    house_style,
    legend,
    line,
    new_axes,
    write_drawing,
)
from entropy_lab.reports.visible import label

_DECISION_TOKENS = 12
_CurveOf = Callable[[CheckpointDiagnosis], Curve]


def _names(diagnosis: Diagnosis) -> list[str]:
    return [checkpoint.name for checkpoint in diagnosis.checkpoints]


def _curves(
    diagnosis: Diagnosis, curve_of: _CurveOf, ylabel: str, xlabel: str, *, marker: bool
) -> tuple[Figure, Axes] | None:
    lines = [curve_of(checkpoint) for checkpoint in diagnosis.checkpoints]
    return plot_curves(_names(diagnosis), lines, ylabel, xlabel, marker=marker)


def _entropy_by_position(diagnosis: Diagnosis) -> Figure | None:
    drawn = _curves(
        diagnosis, lambda c: c.entropy_by_position, "Token entropy (nats)", "Position in the completion", marker=False
    )
    return None if drawn is None else drawn[0]


def _entropy_by_decile(diagnosis: Diagnosis) -> Figure | None:
    drawn = _curves(
        diagnosis, lambda c: c.entropy_by_decile, "Token entropy (nats)", "Decile of the response", marker=True
    )
    if drawn is None:
        return None
    figure, axes = drawn
    ticks = sorted({float(x) for c in diagnosis.checkpoints for x in c.entropy_by_decile.x})
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    return figure


def _pass_at_k(diagnosis: Diagnosis) -> Figure | None:
    drawn = _curves(diagnosis, lambda c: c.pass_at_k, "Share of problems solved", "Samples k (log scale)", marker=True)
    if drawn is None:
        return None
    figure, axes = drawn
    axes.set_xscale("log", base=2)
    ticks = sorted({float(x) for c in diagnosis.checkpoints for x in c.pass_at_k.x})
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_ylim(0, min(1.02, axes.get_ylim()[1]))
    return figure


def _entropy_histogram(diagnosis: Diagnosis) -> Figure | None:
    histograms = [checkpoint.entropy_histogram for checkpoint in diagnosis.checkpoints]
    if not any(np.sum(counts) > 0 for _, counts in histograms):
        return None
    figure, axes = new_axes("Tokens (log scale)", "Token entropy (nats)")
    axes.set_yscale("log")
    floor = 0.5
    for index, (edges, counts) in enumerate(histograms):
        if not np.sum(counts) > 0:
            continue
        shade, heights = colour(index), np.maximum(np.asarray(counts, np.float64), floor)
        axes.stairs(heights, edges, baseline=floor, fill=True, color=shade, alpha=0.17, linewidth=0)
        axes.stairs(heights, edges, baseline=floor, color=shade, linewidth=1.3, linestyle=dashes(index))
    axes.set_ylim(bottom=floor)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}" if y >= 1 else ""))
    handles = [line(index) if np.sum(counts) > 0 else None for index, (_, counts) in enumerate(histograms)]
    legend(axes, _names(diagnosis), handles)
    return figure


def _decision_tokens(diagnosis: Diagnosis) -> Figure | None:
    rows = decision_rows(diagnosis, _DECISION_TOKENS)
    if not rows:
        return None
    opened = [index for index, checkpoint in enumerate(diagnosis.checkpoints) if checkpoint.decision_tokens]
    columns = len(opened)
    figure, axes = new_axes(
        "Token that opens the block",
        "Share of the checkpoint's decision blocks",
        0.9 + len(rows) * max(0.2, 0.13 * columns + 0.06),
    )
    places = np.arange(len(rows))
    thickness = 0.76 / columns
    for place, index in enumerate(opened):
        shares = [cell.share if (cell := row.cells[index]) is not None else 0.0 for row in rows]
        offset = (place - (columns - 1) / 2) * thickness
        axes.barh(places + offset, shares, height=thickness * 0.9, color=colour(index))
    drawable = glyphs(MONO)
    axes.set_yticks(places, labels=[label(row.text, 18, spaces=True, drawable=drawable) for row in rows])
    for text in axes.get_yticklabels():
        text.set_fontfamily(MONO)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    handles = [Patch(color=colour(index)) if index in opened else None for index in range(len(diagnosis.checkpoints))]
    legend(axes, _names(diagnosis), handles)
    return figure


_DRAWINGS: tuple[tuple[str, Callable[[Diagnosis], Figure | None], str, str, _CurveOf | None], ...] = (
    (
        "pass_at_k",
        _pass_at_k,
        "pass@k",
        "Chance that at least one of k samples is correct.",
        lambda checkpoint: checkpoint.pass_at_k,
    ),
    (
        "entropy_by_position",
        _entropy_by_position,
        "Entropy by position",
        "Entropy of the distribution that produced each token of the completion.",
        lambda checkpoint: checkpoint.entropy_by_position,
    ),
    (
        "entropy_by_decile",
        _entropy_by_decile,
        "Entropy by response decile",
        "Token entropy with every response cut into ten equal parts.",
        lambda checkpoint: checkpoint.entropy_by_decile,
    ),
    (
        "entropy_histogram",
        _entropy_histogram,
        "Token entropies",
        "How many tokens were written at which entropy. Counts are on a log scale.",
        None,
    ),
    (
        "decision_tokens",
        _decision_tokens,
        "Where the policy hesitates",
        "Token texts that open decision blocks (␣ space, ⏎ line break), by their share of each checkpoint's blocks.",
        None,
    ),
)


def draw(diagnosis: Diagnosis) -> tuple[Drawing, ...]:
    """Every figure that has data, in reading order."""
    drawings = {drawing.name: drawing for drawing in diagnosis.drawings}
    with house_style():
        for name, make, title, caption, curve_of in _DRAWINGS:
            figure = None if name in drawings else make(diagnosis)
            if figure is None:
                continue
            if curve_of is not None:
                caption += f" {band([curve_of(one) for one in diagnosis.checkpoints], diagnosis.confidence)}"
            drawings[name] = Drawing(name, figure, title, caption)
    return tuple(drawings.values())


def write_figures(diagnosis: Diagnosis, folder: Path) -> dict[str, Path]:
    """Write each figure as `NAME.svg` and `NAME.png`, and tell where they are, by file name."""
    return {name: path for drawing in draw(diagnosis) for name, path in write_drawing(drawing, folder).items()}
