"""How samples open: entropy of the label of each text's first calculation, over all samples and over correct ones."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.answers import AnswerCounts, answer_entropy, count_answers, miller_madow
from entropy_lab.diagnostics.columns import Column, samples_note
from entropy_lab.diagnostics.tabulate import join_notes
from entropy_lab.diagnostics.trajectories import problem_means


def first_calculation_columns(
    labels: Sequence[str | None],
    problem_N: NDArray[np.integer],
    problems: int,
    correct_N: NDArray[np.floating] | None = None,
) -> list[Column]:
    """Shannon entropy (nats) of the first calculations of each problem, and the share of samples without one.

    `labels` holds one label a sample, None for no calculation; such samples count in `first_calculation.none_rate`
    alone. Each entropy is given plug-in and with the Miller–Madow correction (`_mm`), over all samples that calculate
    and, where `correct_N` (1 right, 0 wrong, NaN unknown) is given, over the correct ones of them.
    """
    none_N = np.array([label is None for label in labels], bool)
    counts = count_answers(problem_N, labels, problems)
    columns = _entropies("entropy.first_calculation", counts, "no sample has a calculation", "")
    if correct_N is not None:
        right = [label if correct == 1 else None for label, correct in zip(labels, correct_N, strict=True)]
        columns += _entropies(
            "entropy.first_calculation_correct",
            count_answers(problem_N, right, problems),
            "no correct sample has a calculation",
            "correct samples only",
        )
    unread = "no sample has a calculation, or the task reads none" if none_N.all() else ""
    note = join_notes(unread, samples_note(counts.samples_P))
    none_P = problem_means(none_N, problem_N, problems)
    return [*columns, Column("first_calculation.none_rate", "share", none_P, note=note)]


def _entropies(name: str, counts: AnswerCounts, missing: str, which: str) -> list[Column]:
    """Plug-in and Miller–Madow; the note tells how many labels stand behind a problem, since both depend on it."""
    given_P = np.bincount(counts.problem_C, counts.count_C, minlength=len(counts.samples_P)).astype(np.int64)
    behind = samples_note(given_P[given_P > 0])
    return [
        Column(name, "nats", answer_entropy(counts), missing, join_notes("plug-in", which, behind)),
        Column(f"{name}_mm", "nats", miller_madow(counts), missing, join_notes("Miller–Madow", which, behind)),
    ]
