"""Everything measured of one checkpoint's trajectories: the table of contents of the diagnostics.

Arrays in, metrics with intervals, per-problem vectors and curves out. The problem is the statistical unit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics import columns as columns_of
from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.diversity import MARKERS
from entropy_lab.diagnostics.entropy_curves import entropy_by_decile, entropy_by_position
from entropy_lab.diagnostics.entropy_distribution import Distribution, entropy_distribution
from entropy_lab.diagnostics.first_calculation import first_calculation_columns
from entropy_lab.diagnostics.intervals import Band
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.pass_at_k import refuse_greedy
from entropy_lab.diagnostics.tabulate import mean_metrics, metric
from entropy_lab.diagnostics.token_entropy import COIN, effective_branching, token_mean
from entropy_lab.diagnostics.trajectories import checked, policy_tokens, problem_means
from entropy_lab.errors import InputError
from entropy_lab.ragged import Ragged

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_NOTHING = Ragged(np.zeros(0, np.float32), np.zeros(1, np.int64))


@dataclass(frozen=True)
class Summary:
    """What is known of one checkpoint.

    `problems` are the labels given, sorted, shape (P,); the columns' vectors follow that order. `correct_P` of
    `graded_P` samples are correct (both 0 where nothing was graded).
    """

    checkpoint: str
    problems: NDArray[np.generic]
    metrics: tuple[Metric, ...]
    columns: tuple[Column, ...]
    correct_P: Ints
    graded_P: Ints
    entropy_by_position: Band
    entropy_by_decile: Band
    entropy_distribution: Distribution
    pass_at_k: Band

    @property
    def per_problem(self) -> dict[str, Floats]:
        """Metric name → its value for each problem, NaN where it has none."""
        return {column.name: column.values_P for column in self.columns}


def summarise(
    checkpoint: str,
    problem_index_N: NDArray[np.generic],
    entropies: Ragged | None,
    *,
    correct_N: NDArray[np.floating] | None = None,
    answers: Sequence[str | None] | None = None,
    first_calculations: Sequence[str | None] | None = None,
    texts: Sequence[str | None] | None = None,
    finish_reasons: Sequence[str] | None = None,
    varentropies: Ragged | None = None,
    unused_mass_N: NDArray[np.floating] | None = None,
    lengths_N: NDArray[np.integer] | None = None,
    policy_mask: NDArray[np.bool_] | None = None,
    temperature: float | None = None,
    ks: Sequence[int] | None = None,
    threshold: float = COIN,
    markers: Sequence[str] = MARKERS,
    more: Sequence[Column] = (),
    seed: int = 0,
) -> Summary:
    """Measure N trajectories; what is not given is not measured. Order and batching of trajectories change nothing.

    `problem_index_N` holds one label a trajectory (problem ids or integers, the same label for the same problem in
    every checkpoint). `entropies` and `varentropies` are aligned with the completions; `policy_mask` (flat, aligned
    with both) drops tokens the policy did not write. `correct_N` is 1, 0 or NaN where the grader failed; such samples
    leave the problem's n. None as answer is no answer, None as first calculation no calculation, None as text leaves
    that text out (texts are read in full: about 30 s a million short ones). `lengths_N` (tokens) is needed only without
    entropies. `ks` default to the powers of two ≤ n; problems with n < k are left out of pass@k with a note. `more` are
    a task's own columns, in the order of the sorted labels.

    Raises InputError for arrays of other lengths, entropies that are not finite, an asked k above every n, or several
    samples a problem at temperature 0.
    """
    problems, problem_N = np.unique(problem_index_N, return_inverse=True)
    size = len(problems)
    for name, column in (
        ("correct_N", correct_N),
        ("answers", answers),
        ("first_calculations", first_calculations),
        ("texts", texts),
        ("finish_reasons", finish_reasons),
        ("unused_mass_N", unused_mass_N),
        ("lengths_N", lengths_N),
    ):
        if column is not None and len(column) != len(problem_N):
            raise InputError(f"{name} has {len(column)} entries for {len(problem_N)} trajectories: give one each.")
    refuse_greedy(temperature, np.bincount(problem_N, minlength=size))

    values = None
    table: list[Column] = []
    if entropies is not None:
        values = policy_tokens(checked(entropies, "The entropy", problem_N), policy_mask)
        lengths_N = values.lengths if lengths_N is None else lengths_N
        table += columns_of.entropy_columns(values, problem_N, size, threshold)
    entropy_rows = len(table)
    if varentropies is not None:
        spread = policy_tokens(checked(varentropies, "The varentropy", problem_N), policy_mask)
        table.append(columns_of.varentropy_column(spread, problem_N, size))
    if lengths_N is not None:
        table.append(Column("response.length", "tokens", problem_means(lengths_N, problem_N, size)))
    if unused_mass_N is not None:
        table.append(Column("unused_mass", "share", problem_means(unused_mass_N, problem_N, size)))
    truncation = "truncation unknown"
    if finish_reasons is not None:
        cut_P = problem_means(np.array([reason == "length" for reason in finish_reasons]), problem_N, size)
        table.append(Column("sampling.truncation_rate", "share", cut_P))
        truncation = f"{cut_P.mean():.1%} truncated" if size else truncation
    correct_P = graded_P = np.zeros(size, np.int64)
    if correct_N is not None:
        table.append(Column("grading.failure_rate", "share", problem_means(np.isnan(correct_N), problem_N, size)))
        correct_P, graded_P = columns_of.graded_counts(correct_N, problem_N, size)
        ks = columns_of.usable_ks(graded_P, ks)
        table += columns_of.accuracy_columns(correct_P, graded_P, ks, truncation)
        if answers is not None:
            table += columns_of.majority_columns(answers, correct_N, problem_N, size, ks, truncation, seed)
    if answers is not None:
        table += columns_of.answer_columns(answers, problem_N, size)
    if first_calculations is not None:
        table += first_calculation_columns(first_calculations, problem_N, size, correct_N)
    if texts is not None:
        table += columns_of.text_columns(texts, problem_N, size, markers)
    table += more

    metrics = list(mean_metrics(table, checkpoint, seed=seed))
    distribution = entropy_distribution(_NOTHING if values is None else values, problem_N, size, seed=seed)
    if values is not None:
        metrics[entropy_rows:entropy_rows] = [
            _branching(metrics[0]),
            _token_mean(values, problem_N, size, checkpoint, seed),
            *_quantile_metrics(distribution, checkpoint),
        ]
    return Summary(
        checkpoint=checkpoint,
        problems=problems,
        metrics=tuple(metrics),
        columns=tuple(table),
        correct_P=correct_P,
        graded_P=graded_P,
        entropy_by_position=Band.empty() if values is None else entropy_by_position(values, problem_N, size, seed=seed),
        entropy_by_decile=Band.empty() if values is None else entropy_by_decile(values, problem_N, size, seed=seed),
        entropy_distribution=distribution,
        pass_at_k=_pass_curve(metrics, () if correct_N is None or ks is None else ks),
    )


def _branching(entropy: Metric) -> Metric:
    """e^H of the problem mean; BCa bounds keep their meaning under a monotone map, so they are mapped too."""
    value, low, high = (
        float("nan") if end is None else float(effective_branching(np.array(end)))
        for end in (entropy.value, entropy.low, entropy.high)
    )
    note = entropy.note
    return metric("entropy.branching", value, low, high, "tokens", entropy.n, checkpoint=entropy.checkpoint, note=note)


def _token_mean(values: Ragged, problem_N: Ints, size: int, checkpoint: str, seed: int) -> Metric:
    mean = token_mean(values, problem_N, size, seed=seed)
    value, low, high = float(mean.value[0]), float(mean.low[0]), float(mean.high[0])
    return metric("entropy.token_mean", value, low, high, "nats", mean.n[0], checkpoint=checkpoint, note=mean.notes[0])


def _quantile_metrics(distribution: Distribution, checkpoint: str) -> list[Metric]:
    return [
        metric(
            "entropy.median" if level == 0.5 else f"entropy.q{round(100 * level)}",
            distribution.quantile[i],
            distribution.low[i],
            distribution.high[i],
            "nats",
            distribution.n,
            checkpoint=checkpoint,
            note="over all tokens" if distribution.n else "no problem has a value",
        )
        for i, level in enumerate(distribution.levels)
    ]


def _pass_curve(rows: Sequence[Metric], ks: Sequence[int]) -> Band:
    """The pass@k rows as a curve over k."""
    named = {row.metric: row for row in rows}
    points = [named[f"pass@{k}"] for k in ks]
    value, low, high = (
        np.array([np.nan if end is None else end for end in ends], np.float64)
        for ends in ([p.value for p in points], [p.low for p in points], [p.high for p in points])
    )
    return Band(np.array(ks, np.float64), value, low, high, np.array([point.n for point in points], np.int64))
