"""Figures of `collapse_in_a_bottle.py`: every metric along the sampled tokens, and coverage against pass@1."""

from collections.abc import Mapping, Sequence

import numpy as np

from benchmarks.frontier import PASS, Estimate, Track, common_tokens, matched, over_seeds
from entropy_lab.reports.contents import Curve
from entropy_lab.reports.drawings import curves
from entropy_lab.reports.style import Drawing, colour, house_style, legend, line, new_axes

POINTS = 60
Runs = Mapping[str, Sequence[Track]]


def along_tokens(runs: Runs, metric: str, label: str) -> Drawing | None:
    """`metric` against sampled tokens: mean over seeds and its interval; recipes that do not sample are left out."""
    lines = {}
    for name, tracks in runs.items():
        reach = common_tokens(tracks)
        if not reach:
            continue
        grid = np.linspace(0, reach, POINTS)
        found = [over_seeds([track.at(track.place_of_tokens(tokens))[metric] for track in tracks]) for tokens in grid]
        lines[name] = _curve(grid / 1000, found)
    return curves(
        f"{_file(metric)}_by_tokens",
        f"{label} along training",
        "Straight lines between evaluations; mean over seeds.",
        lines,
        ylabel=label,
        xlabel="sampled tokens (thousands)",
        bottom=None,
    )


def frontier(runs: Runs, metric: str, label: str) -> Drawing:
    """`metric` against pass@1: every run's path faintly, and the mean where each pass@1 is first reached."""
    with house_style():
        figure, axes = new_axes(label, PASS)
        for index, tracks in enumerate(runs.values()):
            for track in tracks:
                path = line(index)
                path.set_data(track.values[PASS], track.values[metric])
                path.set(alpha=0.3, linewidth=0.8)
                axes.add_line(path)
            start = max(float(track.values[PASS][0]) for track in tracks)
            grid = np.linspace(start, max(start, min(track.peak for track in tracks)), POINTS)
            found = [over_seeds(column) for column in matched(tracks, metric, grid).T]
            mean = line(index)
            mean.set_data(grid, [one.value for one in found])
            axes.add_line(mean)
            least, most = [one.least for one in found], [one.most for one in found]
            axes.fill_between(grid, least, most, color=colour(index), alpha=0.17, linewidth=0)
        axes.autoscale_view()
        legend(axes, list(runs), [line(index) for index in range(len(runs))])
    caption = (
        f"Each run where its pass@1 is first reached: mean and range of {_seeds(runs)}. Faint: whole paths, falls too."
    )
    return Drawing(f"{_file(metric)}_by_pass", figure, f"{label} against {PASS}", caption)


def _curve(x: np.ndarray, found: Sequence[Estimate]) -> Curve:
    columns = (np.array([getattr(one, name) for one in found]) for name in ("value", "low", "high"))
    return Curve(x, *columns, np.array([one.n for one in found]))


def _file(metric: str) -> str:
    return metric.replace("@", "_").replace(".", "_")


def _seeds(runs: Runs) -> str:
    most = max(map(len, runs.values()))
    return "one seed" if most == 1 else f"{most} seeds"
