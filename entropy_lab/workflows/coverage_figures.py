"""The figures of `coverage`: the family grid of every arm, the curve over the checkpoints, the manners of asking."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from entropy_lab.diagnostics.families import FamilyRow, family_grid
from entropy_lab.diagnostics.summary import Summary
from entropy_lab.workflows.arms import arm_name

if TYPE_CHECKING:
    from entropy_lab.reports.style import Drawing

ACCURACY, BREADTH = "pass@1", "coverage.family"


def coverage_figures(
    summaries: Sequence[Summary],
    checkpoints: Sequence[str],
    manners: Sequence[str],
    counted: Mapping[str, Sequence[FamilyRow]],
    numbers: Mapping[str, Sequence[int]],
) -> "tuple[Drawing, ...]":
    """What can be drawn of the arms, every checkpoint asked in every one of `manners`, of which the first is plain.

    The grid needs the numbers of every counted problem, the curve several checkpoints.
    """
    from entropy_lab.reports.drawings import family_grids, levels

    of = {one.checkpoint: {metric.metric: metric for metric in one.metrics} for one in summaries}
    drawn = []
    if all(row.problem_id in numbers for rows in counted.values() for row in rows):
        drawn.append(
            family_grids(
                "families",
                "Where samples start, and how often they end right",
                "First number, by its rank among the problem's, and first operator.",
                [family_grid(name, rows, numbers) for name, rows in counted.items()],
            )
        )
    if len(checkpoints) > 1:
        largest = max((name for name in of[checkpoints[0]] if name.startswith("pass@")), key=lambda name: int(name[5:]))
        shown = {ACCURACY: ACCURACY, largest: largest}
        shown |= {"family coverage": BREADTH, "solution coverage": "coverage.solution"}
        drawn.append(
            levels(
                "ladder",
                "Accuracy and breadth by checkpoint",
                "Means over problems.",
                checkpoints,
                {label: [of[name].get(metric) for name in checkpoints] for label, metric in shown.items()},
                ylabel="share",
            )
        )
    if len(manners) > 1:
        drawn += [
            levels(
                name,
                f"{label} by manner of asking",
                "Means over problems.",
                checkpoints,
                {manner: [of[arm_name(one, manner)].get(metric) for one in checkpoints] for manner in manners},
                ylabel=label,
            )
            for name, label, metric in (
                ("manners_breadth", "family coverage", BREADTH),
                ("manners_accuracy", ACCURACY, ACCURACY),
            )
        ]
    return tuple(drawing for drawing in drawn if drawing is not None)
