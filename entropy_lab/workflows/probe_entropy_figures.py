"""The figures of `probe entropy-change`: predicted against measured change token by token, and shares by quadrant."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from entropy_lab.diagnostics.entropy_change import QUADRANTS, Changes
from entropy_lab.diagnostics.metric import Metric

if TYPE_CHECKING:
    from entropy_lab.reports.style import Drawing

SPOKEN = {
    "positive.surprising": "A > 0, s > s*",
    "positive.expected": "A > 0, s < s*",
    "negative.surprising": "A < 0, s > s*",
    "negative.expected": "A < 0, s < s*",
    "none": "A = 0",
}
_POINTS = 1_000  # drawn at most; ours
_SMALLEST = 1e-12  # nats; axes need an extent where nothing changed
_BARS = {"tabular_share": "tabular law", "predicted_share": "first order", "measured_share": "measured"}


def change_figures(changes: Changes, metrics: Sequence[Metric]) -> "tuple[Drawing, ...]":
    """Both figures; `metrics` are those of the same changes."""
    return _tokens(changes), _quadrants({one.metric: one for one in metrics})


def _tokens(changes: Changes) -> "Drawing":
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    from entropy_lab.reports.style import Drawing, colour, house_style, new_axes
    from entropy_lab.reports.wording import number

    count = len(changes.measured_N)
    shown = np.unique(np.linspace(0, count - 1, min(count, _POINTS)).round().astype(int))
    x, y = changes.predicted_N[shown], changes.measured_N[shown]
    largest = max(float(np.abs(np.concatenate((x, y))).max()), _SMALLEST)
    linear = _power(max(float(np.median(np.abs(y))), largest / 1e3))
    ends = np.geomspace(linear / 10, largest, 50)
    ticks = [sign * size for size in {linear, _power(largest)} for sign in (-1, 1)]
    with house_style():
        figure, axes = new_axes("Measured change (nats)", "Change predicted to first order (nats)")
        axes.grid(axis="x")
        axes.set_xscale("symlog", linthresh=linear)
        axes.set_yscale("symlog", linthresh=linear)
        equal = np.concatenate((-ends[::-1], ends))
        axes.plot(equal, equal, color=colour(6), linewidth=0.8)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(FixedLocator([*ticks, 0.0]))
            axis.set_major_formatter(FuncFormatter(lambda size, _: number(size)))
            axis.set_minor_locator(NullLocator())
        for place, quadrant in enumerate(QUADRANTS):
            here = changes.quadrant_N[shown] == place
            if here.any():
                axes.plot(x[here], y[here], "o", color=colour(place), markersize=2.5, alpha=0.6, label=SPOKEN[quadrant])
        axes.legend(loc="upper left", fontsize=8)
    told = f"{len(shown):,} of {count:,} tokens, evenly spaced" if len(shown) < count else f"All {count:,} tokens"
    return Drawing(
        "entropy_change_tokens",
        figure,
        "Entropy change, token by token",
        "What one step does to the entropy in front of each token; the line is equality, the axes are linear up to the "
        f"inner marks and logarithmic beyond. {told}. A the advantage, s the surprisal, s* where the tabular law "
        "changes sign.",
    )


def _power(size: float) -> float:
    """The power of ten at or below `size`."""
    return float(10.0 ** np.floor(np.log10(size)))


def _quadrants(of: dict[str, Metric]) -> "Drawing":
    from matplotlib.patches import Patch

    from entropy_lab.reports.style import Drawing, colour, house_style, legend, new_axes

    with house_style():
        figure, axes = new_axes("Share of the change, sign kept", "")
        width = 0.8 / len(_BARS)
        for place, what in enumerate(_BARS):
            rows = [of[f"quadrant.{quadrant}.{what}"] for quadrant in QUADRANTS]
            x = np.arange(len(QUADRANTS)) + width * (place - 1)
            axes.bar(x, [row.value or 0.0 for row in rows], width * 0.9, color=colour(place))
            for at, row in zip(x, rows, strict=True):
                if row.low is not None and row.high is not None:
                    axes.vlines([at], row.low, row.high, color=colour(6), linewidth=1)
        axes.axhline(0, color=colour(6), linewidth=0.8)
        axes.set_xticks(range(len(QUADRANTS)), [SPOKEN[quadrant].replace(", ", "\n") for quadrant in QUADRANTS])
        legend(axes, list(_BARS.values()), [Patch(color=colour(place)) for place in range(len(_BARS))])
    n = max(row.n for row in of.values())
    return Drawing(
        "entropy_change_quadrants",
        figure,
        "Entropy change by quadrant",
        "Sum of each quadrant's changes over the sum of the quadrants' sizes. The law sees each position's logits "
        "alone; the step moves weights that all tokens share. A the advantage, s the surprisal, s* where the law "
        f"changes sign. Bars: 95% intervals over {n:,} problems.",
    )
