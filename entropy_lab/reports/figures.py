"""The figures of a diagnosis, drawn with matplotlib's objects alone: no pyplot, no window, nothing global left changed.

Colours are Okabe and Ito's, lines also differ in dashes and markers, and model text is drawn letter by letter, never
as a formula. A figure without data is left out.
"""

import io
import math
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from entropy_lab.files import write_bytes
from entropy_lab.reports import svg
from entropy_lab.reports.contents import CheckpointDiagnosis, Curve, Diagnosis
from entropy_lab.reports.selection import decision_rows
from entropy_lab.reports.visible import label, short_name
from entropy_lab.reports.wording import percent

SERIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")
_DASHES: tuple[tuple[float, Sequence[float]] | None, ...] = (
    None,
    (0, (5, 1.8)),
    (0, (1.2, 1.2)),
    (0, (6, 1.5, 1.2, 1.5)),
)
_MARKERS = ("o", "s", "^", "D")
_SIZE = (4.6, 3.0)
_DECISION_TOKENS = 12
_CurveOf = Callable[[CheckpointDiagnosis], Curve]
_SANS, _MONO = "DejaVu Sans", "DejaVu Sans Mono"
_STYLE: dict[Any, Any] = {
    "axes.edgecolor": svg.INK,
    "axes.labelcolor": svg.INK,
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 9,
    "axes.titlecolor": svg.INK,
    "axes.titlelocation": "left",
    "axes.titlepad": 10,
    "figure.constrained_layout.use": True,
    "font.family": _SANS,
    "font.size": 9,
    "grid.alpha": 0.16,
    "grid.color": svg.INK,
    "grid.linewidth": 0.6,
    "legend.borderaxespad": 0.4,
    "legend.borderpad": 0,
    "legend.columnspacing": 1.6,
    "legend.fontsize": 9,
    "legend.handlelength": 1.9,
    "legend.frameon": False,
    "legend.labelcolor": svg.INK,
    "lines.linewidth": 1.6,
    "lines.markersize": 4,
    "savefig.dpi": 200,
    "svg.fonttype": "none",
    "svg.hashsalt": "entropy-lab",
    "text.color": svg.INK,
    "text.parse_math": False,
    "xtick.color": svg.INK,
    "xtick.labelsize": 8.5,
    "xtick.major.size": 3,
    "xtick.major.width": 0.6,
    "ytick.color": svg.INK,
    "ytick.labelsize": 8.5,
    "ytick.left": False,
}


@dataclass(frozen=True)
class Drawing:
    """A figure, what it shows in a few words, and how to read it."""

    name: str
    figure: Figure
    title: str
    caption: str


@contextmanager
def _house_style() -> Iterator[None]:
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def _glyphs(family: str) -> Container[int]:
    return FT2Font(findfont(FontProperties(family=[family]))).get_charmap()


def _axes(ylabel: str, xlabel: str, height: float = _SIZE[1]) -> tuple[Figure, Axes]:
    figure = Figure((_SIZE[0], height))
    axes = figure.add_subplot()
    axes.set_xlabel(xlabel)
    axes.set_title(ylabel)
    axes.set_axisbelow(True)
    axes.grid(axis="y")
    return figure, axes


def _legend(axes: Axes, diagnosis: Diagnosis, handles: Sequence[Line2D | Patch]) -> None:
    """Names above the plot and under its title, where two or more checkpoints need telling apart."""
    if len(handles) < 2:
        return
    drawable = _glyphs(_SANS)
    names = [short_name(checkpoint.name, 36, drawable=drawable) for checkpoint in diagnosis.checkpoints]
    columns = 2 if max(map(len, names)) <= 22 else 1
    placeholders = [str(index) for index in range(len(handles))]
    legend = axes.legend(handles, placeholders, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns)
    legend.set_in_layout(False)  # its width must not squeeze the plot; the title makes room for its height
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_text(name)  # a label that begins with "_" would be dropped
    axes.set_title(axes.get_title(loc="left"), pad=10 + 13 * math.ceil(len(handles) / columns))


def _colour(index: int) -> str:
    return SERIES[index % len(SERIES)]


def _line(index: int, *, marker: bool = False) -> Line2D:
    look = index % len(SERIES)
    return Line2D([], [], color=SERIES[look], linestyle=_DASHES[look], marker=_MARKERS[look] if marker else "")


def _draw_curve(axes: Axes, curve: Curve, index: int, *, marker: bool) -> None:
    here = np.isfinite(np.asarray(curve.value, np.float64))
    x, value, low, high = (np.asarray(part, np.float64)[here] for part in (curve.x, curve.value, curve.low, curve.high))
    line = _line(index, marker=marker or len(x) == 1)
    line.set_data(x, value)
    axes.add_line(line)
    axes.fill_between(x, low, high, color=_colour(index), alpha=0.17, linewidth=0)


def _has_points(curve: Curve) -> bool:
    return bool(np.isfinite(np.asarray(curve.value, np.float64)).any())


def _curves(
    diagnosis: Diagnosis, curve_of: _CurveOf, ylabel: str, xlabel: str, *, marker: bool
) -> tuple[Figure, Axes] | None:
    curves = [curve_of(checkpoint) for checkpoint in diagnosis.checkpoints]
    if not any(map(_has_points, curves)):
        return None
    figure, axes = _axes(ylabel, xlabel)
    for index, curve in enumerate(curves):
        _draw_curve(axes, curve, index, marker=marker)
    axes.autoscale_view()
    axes.set_ylim(bottom=0)
    _legend(axes, diagnosis, [_line(index, marker=marker) for index in range(len(curves))])
    return figure, axes


def _entropy_by_position(diagnosis: Diagnosis) -> Figure | None:
    drawn = _curves(
        diagnosis, lambda c: c.entropy_by_position, "Token entropy (nats)", "Position in the completion", marker=False
    )
    if drawn is None:
        return None
    figure, axes = drawn
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure


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
    figure, axes = _axes("Tokens (log scale)", "Token entropy (nats)")
    axes.set_yscale("log")
    floor = 0.5
    for index, (edges, counts) in enumerate(histograms):
        if not np.sum(counts) > 0:
            continue
        colour, heights = _colour(index), np.maximum(np.asarray(counts, np.float64), floor)
        axes.stairs(heights, edges, baseline=floor, fill=True, color=colour, alpha=0.17, linewidth=0)
        axes.stairs(heights, edges, baseline=floor, color=colour, linewidth=1.3, linestyle=_DASHES[index % len(SERIES)])
    axes.set_ylim(bottom=floor)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}" if y >= 1 else ""))
    _legend(axes, diagnosis, [_line(index) for index in range(len(histograms))])
    return figure


def _decision_tokens(diagnosis: Diagnosis) -> Figure | None:
    rows = decision_rows(diagnosis, _DECISION_TOKENS)
    if not rows:
        return None
    columns = len(diagnosis.checkpoints)
    figure, axes = _axes(
        "Token that opens the block",
        "Share of the checkpoint's decision blocks",
        0.9 + len(rows) * max(0.2, 0.13 * columns + 0.06),
    )
    places = np.arange(len(rows))
    thickness = 0.76 / columns
    for index in range(columns):
        shares = [cell.share if (cell := row.cells[index]) is not None else 0.0 for row in rows]
        offset = (index - (columns - 1) / 2) * thickness
        axes.barh(places + offset, shares, height=thickness * 0.9, color=_colour(index))
    drawable = _glyphs(_MONO)
    axes.set_yticks(places, labels=[label(row.text, 18, spaces=True, drawable=drawable) for row in rows])
    for text in axes.get_yticklabels():
        text.set_fontfamily(_MONO)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    _legend(axes, diagnosis, [Patch(color=_colour(index)) for index in range(columns)])
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


def _band(diagnosis: Diagnosis, curve_of: _CurveOf) -> str:
    """What the band is and how many units stand behind it; a curve over positions rests on fewer and fewer."""
    curves = [curve_of(checkpoint) for checkpoint in diagnosis.checkpoints]
    counts = [int(n) for curve in curves for n in curve.n]
    low, high = min(counts), max(counts)
    spread = f"n = {low:,}" if low == high else f"n from {low:,} to {high:,}"
    banded = any(np.isfinite(curve.low).any() for curve in curves)
    return f" Band: {percent(diagnosis.confidence)} interval, {spread}." if banded else f" No interval, {spread}."


def draw(diagnosis: Diagnosis) -> tuple[Drawing, ...]:
    """Every figure that has data, in reading order."""
    drawings = []
    with _house_style():
        for name, make, title, caption, curve_of in _DRAWINGS:
            figure = make(diagnosis)
            if figure is not None:
                band = "" if curve_of is None else _band(diagnosis, curve_of)
                drawings.append(Drawing(name, figure, title, caption + band))
    return tuple(drawings)


def inline_svg(drawing: Drawing) -> str:
    """The figure as a piece of an HTML page; its colours follow the page's."""
    with _house_style():
        return svg.inline(drawing.figure, drawing.name, f"{drawing.title}. {drawing.caption}", SERIES)


def write_figures(diagnosis: Diagnosis, folder: Path) -> dict[str, Path]:
    """Write each figure as `NAME.svg` (no background) and `NAME.png` (white), and tell where they are, by file name."""
    paths = {}
    for drawing in draw(diagnosis):
        with _house_style():
            image = io.BytesIO()
            drawing.figure.savefig(image, format="png", facecolor="white", metadata={"Software": None})
            vector = svg.standalone(drawing.figure, drawing.name)
        for suffix, content in (("svg", vector.encode()), ("png", image.getvalue())):
            path = folder / f"{drawing.name}.{suffix}"
            write_bytes(path, content)
            paths[path.name] = path
    return paths
