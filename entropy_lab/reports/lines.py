"""Curves with their bands on one pair of axes, and what their caption says; shared by all figures that draw curves."""

from collections.abc import Iterable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from entropy_lab.reports.contents import Curve
from entropy_lab.reports.style import colour, legend, line, new_axes
from entropy_lab.reports.wording import percent


def plot_curves(
    names: Sequence[str], lines: Sequence[Curve], ylabel: str, xlabel: str, *, marker: bool, bottom: float | None = 0.0
) -> tuple[Figure, Axes] | None:
    """One line with its band for each curve, in the style that is set; None where no curve has a point."""
    if not any(_has_points(curve) for curve in lines):
        return None
    figure, axes = new_axes(ylabel, xlabel)
    for index, curve in enumerate(lines):
        here = np.isfinite(np.asarray(curve.value, np.float64))
        x, value, low, high = (np.asarray(part)[here] for part in (curve.x, curve.value, curve.low, curve.high))
        drawn = line(index, marker=marker or len(x) == 1)
        drawn.set_data(x, value)
        axes.add_line(drawn)
        axes.fill_between(x, low, high, color=colour(index), alpha=0.17, linewidth=0)
    if all(np.array_equal(curve.x, np.round(curve.x)) for curve in lines):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.autoscale_view()
    axes.set_ylim(bottom=bottom)
    legend(axes, names, [line(at, marker=marker) if _has_points(curve) else None for at, curve in enumerate(lines)])
    return figure, axes


def band(lines: Sequence[Curve], confidence: float = 0.95) -> str:
    """What the band is and how many units stand behind it; a curve over positions rests on fewer and fewer."""
    interval = any(np.isfinite(curve.low).any() for curve in lines)
    counts = spread(int(n) for curve in lines for n in curve.n)
    return f"Band: {percent(confidence)} interval, {counts}." if interval else f"No interval, {counts}."


def _has_points(curve: Curve) -> bool:
    return bool(np.isfinite(np.asarray(curve.value, np.float64)).any())


def spread(counts: Iterable[int]) -> str:
    """How many units stand behind several numbers; `counts` is not empty."""
    known = list(counts)
    low, high = min(known), max(known)
    return f"n = {low:,}" if low == high else f"n from {low:,} to {high:,}"
