"""Access and execution of entrance families, from counts: what forcing an entrance shows, the problem as the unit.

Shape letters: F rows of the table, one a (problem, family); P problems.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.paired import paired_differences
from entropy_lab.diagnostics.tabulate import join_notes, mean_metrics, metric
from entropy_lab.diagnostics.trajectories import problem_means

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LOW_ACCESS = 0.05
"""A family with a smaller sampled access counts as low-access (definition)."""

FORCED = ("entrance", "value", "infeasible", "corrupted", "continued")
"""What was forced; `continued` is how corrupted continuations answer the problem that the wrong value leaves."""

BIN_EDGES = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Where the access bins of the figure begin (ours); families that no sample starts with have a bin of their own."""


@dataclass(frozen=True)
class FamilyTable:
    """Counts a (problem, family), families of the menu and of the infeasible control alike, and counts a problem.

    Free samples are those of the empty prefix. `log_mass_F` is the summed log p (nats) of the entrance tokens, NaN
    outside the menu. `completed[level]` of `asked[level]` forced continuations ended correct (and in the family, where
    it is in the menu); graders that failed count in neither.
    """

    problem_F: Ints
    family_F: tuple[str, ...]
    offered_F: NDArray[np.bool_]
    first_F: Ints
    """Free samples whose first calculation is of the family."""
    free_correct_F: Ints
    """Free samples that are correct and of the family."""
    log_mass_F: Floats
    completed: Mapping[str, Ints]
    asked: Mapping[str, Ints]
    samples_P: Ints
    """Graded free samples."""
    started_P: Ints
    """Free samples with any first calculation."""
    solved_P: Ints

    def share(self, level: str) -> Floats:
        """Share of forced continuations completed, shape (F,); NaN where none were asked."""
        return _ratio(self.completed[level], self.asked[level])

    def access_sampled(self) -> Floats:
        """Share of first calculations, shape (F,); NaN where a problem's samples have none."""
        return _ratio(self.first_F, self.started_P[self.problem_F])

    def access_mass(self) -> Floats:
        """Softmax over a problem's menu of the summed log p, shape (F,); NaN outside the menu."""
        problems = len(self.samples_P)
        top_P = np.full(problems, -np.inf)
        np.maximum.at(top_P, self.problem_F[self.offered_F], self.log_mass_F[self.offered_F])
        weight_F = np.where(self.offered_F, np.exp(self.log_mass_F - top_P[self.problem_F]), np.nan)
        total_P = np.bincount(self.problem_F, np.nan_to_num(weight_F), minlength=problems)
        return _ratio(weight_F, total_P[self.problem_F])

    def free(self) -> Floats:
        """Share of free samples that are correct and of the family, shape (F,)."""
        return _ratio(self.free_correct_F, self.samples_P[self.problem_F])

    def low_access(self) -> NDArray[np.bool_]:
        """Families of the menu with sampled access below `LOW_ACCESS`, shape (F,)."""
        return self.offered_F & (self.access_sampled() < LOW_ACCESS)

    def menu_mean(self, values_F: Floats, within_F: NDArray[np.bool_] | None = None) -> Floats:
        """Mean over each problem's menu families (those `within_F`, if given), NaN left out, shape (P,)."""
        chosen_F = self.offered_F if within_F is None else self.offered_F & within_F
        return problem_means(np.where(chosen_F, values_F, np.nan), self.problem_F, len(self.samples_P))

    def menu_sum(self, values_F: Floats) -> Floats:
        """Sum over each problem's menu, shape (P,); NaN counts as nothing."""
        values_F = np.where(self.offered_F, np.nan_to_num(values_F), 0.0)
        return np.bincount(self.problem_F, values_F, minlength=len(self.samples_P)).astype(np.float64)


def forcing_columns(table: FamilyTable, notes: Mapping[str, str]) -> list[Column]:
    """One value a problem for each metric; `notes` adds to a metric's note.

    `force.solve_rate`: share of free samples that are correct. Means over the menu's families: `force.free`, the share
    of free samples that are correct and in the family; `force.execution` and `force.execution_value`, the share of
    continuations forced to the entrance, or to entrance + value, that end correct in the family. Controls:
    `force.infeasible` and `force.corrupted`, the share correct, about 0; `force.corrupted_continued`, the share that
    reaches the target from the wrong value. `force.low_access.share`: share of the menu with sampled access < .05;
    `force.low_access.free`, `.forced` and `.forced_value`: means over those families. `force.support_mass`: share of
    first calculations within the menu. `force.access_agreement`: Σ over the menu of the smaller of sampled access (as
    a share of the menu) and teacher-forced mass, 1 − total variation distance (ours; below 1 by sampling noise alone).
    `force.factor.product`: Σ over the menu of access (share of all free samples) × execution.
    """
    low_F = table.low_access()
    free_F, entrance_F, value_F = table.free(), table.share("entrance"), table.share("value")
    picked = "picked by the free samples themselves"
    none_low, no_value = "no low-access family", "no family whose value can be given"
    share = [
        ("force.solve_rate", _ratio(table.solved_P, table.samples_P), "no graded samples", ""),
        ("force.free", table.menu_mean(free_F), "no graded samples", "correct and in the family"),
        ("force.execution", table.menu_mean(entrance_F), "nothing forced", ""),
        ("force.execution_value", table.menu_mean(value_F), no_value, ""),
        ("force.infeasible", _problem_means(table, "infeasible"), "no entrance outside the menu", ""),
        ("force.corrupted", _problem_means(table, "corrupted"), "no value to corrupt", ""),
        ("force.corrupted_continued", _problem_means(table, "continued"), "no wrong value leads to the target", ""),
        (
            "force.low_access.share",
            table.menu_mean(np.where(np.isnan(table.access_sampled()), np.nan, low_F)),
            "no first calculation",
            f"sampled access < {LOW_ACCESS:g}",
        ),
        ("force.low_access.free", table.menu_mean(free_F, low_F), none_low, picked),
        ("force.low_access.forced", table.menu_mean(entrance_F, low_F), none_low, picked),
        ("force.low_access.forced_value", table.menu_mean(value_F, low_F), f"{none_low}, or {no_value}", picked),
        ("force.support_mass", _within_menu(table), "no first calculation", "share of first calculations in the menu"),
        ("force.access_agreement", _agreement(table), "no start within the menu", "sampled against teacher-forced"),
        ("force.factor.product", _product(table), "no graded samples", "access × execution, summed over the menu"),
    ]
    return [
        Column(name, "share", values_P, missing, join_notes(note, notes.get(name, "")))
        for name, values_P, missing, note in share
    ]


def forcing_metrics(table: FamilyTable, checkpoint: str, notes: Mapping[str, str], *, seed: int) -> tuple[Metric, ...]:
    """The means of `forcing_columns` with intervals over problems, and two differences paired by problem.

    `force.low_access.gain` is forced minus free over low-access families; `force.factor.gap` is Σ access · execution
    minus the solve rate.
    """
    columns = {column.name: column for column in forcing_columns(table, notes)}
    pairs = {
        "force.low_access.gain": ("force.low_access.forced", "force.low_access.free"),
        "force.factor.gap": ("force.factor.product", "force.solve_rate"),
    }
    differences = paired_differences(
        np.stack([columns[first].values_P for first, _ in pairs.values()], axis=1),
        np.stack([columns[second].values_P for _, second in pairs.values()], axis=1),
        seed=seed,
    )
    rows = list(mean_metrics(list(columns.values()), checkpoint, seed=seed))
    for name, found in zip(pairs, differences, strict=True):
        test = f"p = {found.p:.2g} (sign flips, paired by problem)" if np.isfinite(found.p) else ""
        note = join_notes(found.note, test)
        rows.append(
            metric(name, found.value, found.low, found.high, "share", found.n, checkpoint=checkpoint, note=note)
        )
    return tuple(rows)


def access_bins(table: FamilyTable) -> list[tuple[str, Column, Column]]:
    """Label, mean access and mean execution of the menu's families in each bin of sampled access, by problem."""
    access_F, entrance_F = table.access_sampled(), table.share("entrance")
    ends = (*BIN_EDGES[1:], 1.0)
    bins = [("never", access_F == 0)]
    bins += [
        (f"to {end:g}", (access_F > 0) & (access_F >= start) & ((access_F < end) | (end == 1)))
        for start, end in zip(BIN_EDGES, ends, strict=True)
    ]
    missing = "no family there"
    return [
        (
            label,
            Column(f"access {label}", "mean share", table.menu_mean(access_F, within_F), missing),
            Column(f"execution {label}", "share", table.menu_mean(entrance_F, within_F), missing),
        )
        for label, within_F in bins
    ]


def _ratio(part: Floats | Ints, whole: Floats | Ints) -> Floats:
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full(np.broadcast(part, whole).shape, np.nan), where=whole != 0)


def _problem_means(table: FamilyTable, level: str) -> Floats:
    return problem_means(table.share(level), table.problem_F, len(table.samples_P))


def _within_menu(table: FamilyTable) -> Floats:
    return _ratio(table.menu_sum(table.first_F.astype(np.float64)), table.started_P)


def _agreement(table: FamilyTable) -> Floats:
    started_P = table.menu_sum(table.first_F.astype(np.float64))
    sampled_F = _ratio(table.first_F, started_P[table.problem_F])
    overlap_P = table.menu_sum(np.minimum(sampled_F, table.access_mass()))
    return np.where(started_P > 0, overlap_P, np.nan)


def _product(table: FamilyTable) -> Floats:
    access_F = _ratio(table.first_F, table.samples_P[table.problem_F])
    return np.where(table.samples_P > 0, table.menu_sum(access_F * table.share("entrance")), np.nan)
