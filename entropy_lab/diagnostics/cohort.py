"""The cohort "solved by all": problems with a correct sample in every arm, where breadth is compared like with like."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.intervals import wilson
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.summary import Summary
from entropy_lab.diagnostics.tabulate import join_notes, mean_metrics, metric

_FAMILIES = ("pass@", "coverage.", "access.")
_SINGLE = ("entropy.problem_mean", "entropy.early")


@dataclass(frozen=True)
class Cohort:
    """The `members` among the `decided` problems, over `arms`.

    `undecided` problems have no correct sample somewhere, but samples there that could not be graded. Problems that
    are `apart` have no enumerated solution, and belong to neither.
    """

    members: frozenset[str]
    decided: int
    undecided: int
    apart: int
    arms: int


def solved_by_all(summaries: Sequence[Summary], solvable: Collection[str]) -> Cohort:
    """Find the problems of which every summary has a correct sample, among those whose solutions are known."""
    verdicts = [_solved(summary) for summary in summaries]
    problems = set().union(*verdicts)
    members, undecided = set(), 0
    considered = problems & set(solvable)
    for problem in considered:
        found = [verdict.get(problem) for verdict in verdicts]
        if all(found):
            members.add(problem)
        elif False not in found:
            undecided += 1
    decided = len(considered) - undecided
    return Cohort(frozenset(members), decided, undecided, len(problems) - len(considered), len(summaries))


def with_cohort(summary: Summary, cohort: Cohort, *, seed: int = 0) -> Summary:
    """The summary with `cohort.size`, `cohort.share` and `cohort.<metric>` for what is compared within the cohort.

    Those are pass@k, coverage, access, mean and early entropy: columns that hold the members' values and NaN
    elsewhere, so that paired comparisons take them up.
    """
    member_P = np.array([str(problem) in cohort.members for problem in summary.problems], bool)
    columns = [
        Column(
            f"cohort.{column.name}",
            column.unit,
            np.where(member_P, column.values_P, np.nan),
            f"not solved in all {cohort.arms} arms",
            column.note,
        )
        for column in summary.columns
        if column.name.startswith(_FAMILIES) or column.name in _SINGLE
    ]
    return replace(
        summary,
        columns=(*summary.columns, *columns),
        metrics=(
            *summary.metrics,
            *_size(cohort, summary.checkpoint),
            *mean_metrics(columns, summary.checkpoint, seed=seed),
        ),
    )


def _solved(summary: Summary) -> dict[str, bool | None]:
    """Whether a problem has a correct sample; None where only a failed grading could tell."""
    failed_P = summary.per_problem.get("grading.failure_rate", np.ones(len(summary.problems)))
    return {
        str(problem): True if correct else None if failed else False
        for problem, correct, failed in zip(summary.problems, summary.correct_P, failed_P, strict=True)
    }


def _size(cohort: Cohort, checkpoint: str) -> tuple[Metric, Metric]:
    """Count and share, both with the Wilson interval of the share."""
    size, n = len(cohort.members), cohort.decided
    low, high = (float(end) for end in wilson(size, n))
    undecided = f"{cohort.undecided} left out: only samples that could not be graded might have solved them"
    apart = f"{cohort.apart} without an enumerated solution left out"
    note = join_notes(
        f"solved at least once in each of {cohort.arms} arms",
        "Wilson interval over problems" if n else "no problem can be counted",
        undecided if cohort.undecided else "",
        apart if cohort.apart else "",
    )
    share = size / n if n else float("nan")
    count = float(size) if n else float("nan")
    return (
        metric("cohort.size", count, low * n, high * n, "problems", n, checkpoint=checkpoint, note=note),
        metric("cohort.share", share, low, high, "share", n, checkpoint=checkpoint, note=note),
    )
