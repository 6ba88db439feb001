"""The problem × metric table of a run: one column for each metric that is a mean over problems.

Columns feed the metrics with their intervals, problems.parquet and the paired comparison of checkpoints alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics import answers as answer
from entropy_lab.diagnostics import diversity, token_entropy
from entropy_lab.diagnostics.majority import DRAWS, majority_at_k
from entropy_lab.diagnostics.pass_at_k import (
    covered,
    default_ks,
    g_pass_at_k,
    mg_pass_at_k,
    pass_at_k,
    success_rate,
)
from entropy_lab.diagnostics.trajectories import problem_means, row_means
from entropy_lab.errors import InputError
from entropy_lab.ragged import Ragged

Floats = NDArray[np.float64]
Problems = NDArray[np.integer]

THRESHOLDS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Column:
    """A metric's value for each problem, NaN where it has none and `missing` says why; `note` goes with the mean."""

    name: str
    unit: str
    values_P: Floats
    missing: str = "no trajectories"
    note: str = ""


def entropy_columns(entropies: Ragged, problem_N: Problems, problems: int, threshold: float) -> list[Column]:
    """Token entropies (nats) averaged within trajectories, then within problems."""
    trajectory_values = {
        "entropy.problem_mean": token_entropy.trajectory_entropy(entropies),
        "entropy.early": token_entropy.early_entropy(entropies),
        "entropy.early_tenth": token_entropy.early_share_entropy(entropies),
        "entropy.worst_tenth": token_entropy.lowest_share_entropy(entropies),
    }
    notes = {
        "entropy.early": f"first {token_entropy.FIRST_TOKENS} tokens",
        "entropy.early_tenth": "first tenth of the response",
        "entropy.worst_tenth": "lowest tenth of each trajectory's tokens",
    }
    missing = "no tokens"
    columns = [
        Column(name, "nats", problem_means(values_N, problem_N, problems), missing, notes.get(name, ""))
        for name, values_N in trajectory_values.items()
    ]
    above_P = problem_means(token_entropy.share_above(entropies, threshold), problem_N, problems)
    columns.append(Column("entropy.share_above", "share", above_P, missing, f"above {threshold:.4g} nats"))
    return columns


def varentropy_column(varentropies: Ragged, problem_N: Problems, problems: int) -> Column:
    """Varentropy (nats²), averaged as the entropy is."""
    values_P = problem_means(row_means(varentropies), problem_N, problems)
    return Column("varentropy.problem_mean", "nats^2", values_P, "no tokens")


def graded_counts(
    correct_N: NDArray[np.floating], problem_N: Problems, problems: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Correct and graded samples of each problem; samples whose grader failed (NaN) count in neither."""
    graded_N = ~np.isnan(correct_N)
    bad_N = graded_N & (correct_N != 0) & (correct_N != 1)
    if bad_N.any():
        row = int(np.flatnonzero(bad_N)[0])
        raise InputError(f"Trajectory {row} is graded {correct_N[row]}: use 1 (correct), 0 (wrong) or NaN (no grade).")
    graded_P = np.bincount(problem_N[graded_N], minlength=problems)
    return np.bincount(problem_N[correct_N == 1], minlength=problems), graded_P


def usable_ks(graded_P: NDArray[np.int64], ks: Sequence[int] | None) -> tuple[int, ...]:
    """The ks asked for, else the powers of two; an asked k above every problem's graded samples is an InputError."""
    most = int(graded_P.max(initial=0))
    if ks is None:
        return default_ks(most)
    for k in ks:
        if k < 1 or (k > most and len(graded_P)):
            raise InputError(
                f"pass@{k} needs {k} graded samples a problem, but no problem has more than {most}: "
                f"ask for k from 1 to {most} or draw more samples (problems cannot stand in for samples)."
            )
    return tuple(sorted(set(ks)))


def accuracy_columns(
    correct_P: NDArray[np.int64], graded_P: NDArray[np.int64], ks: Sequence[int], note: str
) -> list[Column]:
    """avg@n, pass@k, G-Pass@k, mG-Pass@k and Cover@τ.

    G-Pass is given at the largest k ≥ 2 that is at most half the samples, so that draws still differ (ours; else
    the largest k).
    """
    columns = [Column("avg@n", "share", success_rate(correct_P, graded_P), "no graded samples", note)]
    pass_PK = pass_at_k(correct_P, graded_P, ks, short="nan")
    columns += [Column(f"pass@{k}", "share", pass_PK[:, i], _fewer(k), note) for i, k in enumerate(ks)]
    several = [k for k in ks if k > 1]
    if several:
        k = max([k for k in several if 2 * k <= graded_P.max(initial=0)], default=several[-1])
        tail_PT = g_pass_at_k(correct_P, graded_P, k, THRESHOLDS, short="nan")
        columns += [
            Column(f"gpass@{k}_{threshold:g}", "share", tail_PT[:, i], _fewer(k), note)
            for i, threshold in enumerate(THRESHOLDS)
        ]
        mean_tail_P = mg_pass_at_k(correct_P, graded_P, k, short="nan")
        columns.append(Column(f"mgpass@{k}", "share", mean_tail_P, _fewer(k), note))
    columns += [
        Column(f"cover@{threshold:g}", "share", covered(correct_P, graded_P, threshold), "no graded samples", note)
        for threshold in THRESHOLDS
    ]
    return columns


def majority_columns(
    answers: Sequence[str | None],
    correct_N: NDArray[np.floating],
    problem_N: Problems,
    problems: int,
    ks: Sequence[int],
    note: str,
    seed: int,
) -> list[Column]:
    """maj@k for k ≥ 3 (of two samples, the majority is either); samples whose grader failed cast no vote."""
    several = [k for k in ks if k > 2]
    graded_N = ~np.isnan(correct_N)
    graded_answers = [given for given, graded in zip(answers, graded_N, strict=True) if graded]
    counts = answer.count_answers(problem_N[graded_N], graded_answers, problems)
    given = counts.class_N >= 0
    correct_C = np.bincount(counts.class_N[given], correct_N[graded_N][given], minlength=len(counts.count_C))
    values_PK = majority_at_k(counts, correct_C / counts.count_C, several, seed=seed)
    draws = f"{DRAWS} seeded draws a problem"
    return [Column(f"maj@{k}", "share", values_PK[:, i], _fewer(k), f"{draws}; {note}") for i, k in enumerate(several)]


def answer_columns(answers: Sequence[str | None], problem_N: Problems, problems: int) -> list[Column]:
    """Diversity of final answers; all depend on the number of samples, which the note states."""
    counts = answer.count_answers(problem_N, answers, problems)
    note = samples_note(counts.samples_P)
    none, single = "no answer was given", "fewer than two answers were given"
    return [
        Column("answers.distinct", "answers", answer.distinct_answers(counts), note=note),
        Column("answers.entropy", "nats", answer.answer_entropy(counts), none, f"plug-in; {note}"),
        Column("answers.entropy_miller_madow", "nats", answer.miller_madow(counts), none, note),
        Column("answers.entropy_normalised", "share", answer.normalised_answer_entropy(counts), single, note),
        Column("answers.self_consistency", "share", answer.self_consistency(counts), note=note),
    ]


def text_columns(
    texts: Sequence[str | None], problem_N: Problems, problems: int, markers: Sequence[str]
) -> list[Column]:
    """Distinct-2 and reflection markers of the texts that are given; None leaves a trajectory out."""
    kept = np.array([row for row, text in enumerate(texts) if text is not None], np.int64)
    given = [text for text in texts if text is not None]
    problem_n = problem_N[kept]
    marker_N = diversity.marker_counts(given, markers)
    note = samples_note(np.bincount(problem_n, minlength=problems))
    rate_P = diversity.reflection_rate(marker_N, given, problem_n, problems)
    distinct_P = diversity.distinct_n_by_problem(given, problem_n, problems, 2)
    return [
        Column("text.distinct_2", "share", distinct_P, "no two words", note),
        Column("reflection.rate", "per 1,000 words", rate_P, "no words"),
        Column(
            "reflection.share", "share", problem_means(marker_N > 0, problem_n, problems), "no texts", "with a marker"
        ),
    ]


def samples_note(samples_P: NDArray[np.integer]) -> str:
    """How many samples stand behind each problem."""
    if len(samples_P) == 0:
        return ""
    fewest, most = int(samples_P.min()), int(samples_P.max())
    return f"{most} samples a problem" if fewest == most else f"{fewest} to {most} samples a problem"


def _fewer(k: int) -> str:
    return f"fewer than {k} graded samples" if k > 1 else "no graded samples"
