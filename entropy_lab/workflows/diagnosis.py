"""From one checkpoint's rollouts to its diagnosis: metrics, curves, decision points, trajectories to look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.coverage import coverage_columns
from entropy_lab.diagnostics.decision_points import Blocks, OpeningTokens, Rule, decision_blocks, opening_tokens
from entropy_lab.diagnostics.intervals import Band
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.summary import Summary, summarise
from entropy_lab.diagnostics.tabulate import mean_metrics
from entropy_lab.diagnostics.trajectories import problem_means
from entropy_lab.ragged import Ragged
from entropy_lab.reports.contents import CheckpointDiagnosis, Curve, DecisionToken, TrajectoryView
from entropy_lab.rollouts import Rollouts
from entropy_lab.tasks.protocol import Space

SHOWN_DECISION_TOKENS = 20
READ_DECISION_TOKENS = 400
"""Ids whose texts are looked up, since several ids may have one text (ours)."""


@dataclass(frozen=True)
class Measured:
    """One checkpoint's rollouts with what was measured on them. Without entropies there are no decision blocks."""

    name: str
    rollouts: Rollouts
    summary: Summary
    blocks: Blocks | None
    token_ids: Ragged | None
    entropy: Ragged | None


def measure(
    name: str,
    rollouts: Rollouts,
    *,
    ks: Sequence[int] | None,
    rule: Rule,
    seed: int,
    temperature: float | None,
    spaces: Mapping[str, Space],
) -> Measured:
    """Every diagnostic of one checkpoint. What the rollouts lack (grades, entropies, texts) is not measured."""
    entropy, token_ids = rollouts.ragged("entropy"), rollouts.ragged("token_ids")
    policy_mask = rollouts.policy_mask()
    texts, reasons = rollouts.strings("text"), rollouts.strings("finish_reason")
    firsts = rollouts.strings("first_calculation")
    graded = any(code is not None for code in rollouts.strings("code")) or not np.isnan(rollouts.correct()).all()
    summary = summarise(
        name,
        np.array(rollouts.strings("problem_id")),
        entropy,
        correct_N=rollouts.correct() if graded else None,
        answers=rollouts.strings("answer") if graded else None,
        first_calculations=firsts if graded or any(firsts) else None,
        texts=texts if any(texts) else None,
        finish_reasons=[str(reason) for reason in reasons] if all(reasons) else None,
        varentropies=rollouts.ragged("varentropy"),
        lengths_N=None if entropy is not None or token_ids is None else token_ids.lengths,
        policy_mask=policy_mask,
        temperature=temperature,
        ks=ks,
        more=_coverage(rollouts, spaces) if spaces and graded else (),
        seed=seed,
    )
    blocks = None
    if entropy is not None:
        blocks = decision_blocks(entropy, rule, logprobs=rollouts.ragged("logprob"), policy_mask=policy_mask)
    return Measured(name, rollouts, summary, blocks, token_ids, entropy)


def _coverage(rollouts: Rollouts, spaces: Mapping[str, Space]) -> list[Column]:
    names = ("problem_id", "correct", "answer", "family", "first_calculation")
    rows = list(zip(*(rollouts.table[name].to_pylist() for name in names), strict=True))
    return coverage_columns(sorted({row[0] for row in rows}), spaces, rows)


def decision_metrics(measured: Measured, seed: int) -> tuple[Metric, ...]:
    """How many decision blocks a trajectory has (problem mean), and the entropy at which tokens are picked."""
    blocks, summary = measured.blocks, measured.summary
    if blocks is None:
        return ()
    _, problem_N = np.unique(np.array(measured.rollouts.strings("problem_id")), return_inverse=True)
    count_N = np.bincount(blocks.row, minlength=len(measured.rollouts))
    per_problem = problem_means(count_N, problem_N, len(summary.problems))
    rows = mean_metrics((Column("decision.blocks", "blocks a trajectory", per_problem),), measured.name, seed=seed)
    level = float(blocks.level)
    if not np.isfinite(level):
        return rows
    note = "where this run's tokens count as decisions; set by the rule, so it has no interval"
    return (*rows, Metric("decision.level", level, None, None, "nats", len(summary.problems), measured.name, note))


def opening(measured: Measured) -> OpeningTokens | None:
    """The token ids that open most decision blocks, most frequent first."""
    if measured.blocks is None or measured.token_ids is None or measured.entropy is None:
        return None
    found = opening_tokens(measured.blocks, measured.token_ids, measured.entropy)
    shown = slice(READ_DECISION_TOKENS)
    return OpeningTokens(found.token_id[shown], found.count[shown], found.share[shown], found.mean_entropy[shown])


def decision_tokens(found: OpeningTokens | None, texts: Sequence[str]) -> tuple[DecisionToken, ...]:
    """The same as text, ids of one text taken together; `texts` holds the text of each id."""
    if found is None:
        return ()
    sums: dict[str, NDArray[np.float64]] = {}
    for text, count, share, entropy in zip(texts, found.count, found.share, found.mean_entropy, strict=True):
        sums[text] = sums.get(text, np.zeros(3)) + np.array([count, share, count * entropy])
    tokens = [DecisionToken(text, int(n), float(share), float(total / n)) for text, (n, share, total) in sums.items()]
    return tuple(sorted(tokens, key=lambda token: -token.count)[:SHOWN_DECISION_TOKENS])


def diagnosis_of(
    measured: Measured,
    metrics: Sequence[Metric],
    tokens: tuple[DecisionToken, ...],
    trajectories: tuple[TrajectoryView, ...],
) -> CheckpointDiagnosis:
    """All that a report shows of one checkpoint."""
    summary = measured.summary
    distribution = summary.entropy_distribution
    _, counts = np.unique(np.array(measured.rollouts.strings("problem_id")), return_counts=True)
    return CheckpointDiagnosis(
        name=measured.name,
        metrics=tuple(metrics),
        entropy_by_position=_curve(summary.entropy_by_position),
        entropy_by_decile=_curve(summary.entropy_by_decile),
        entropy_histogram=(distribution.edges, distribution.counts),
        pass_at_k=_curve(summary.pass_at_k),
        decision_tokens=tokens,
        trajectories=trajectories,
        problems=len(summary.problems),
        samples=int(counts[0]) if len(counts) and (counts == counts[0]).all() else None,
        trajectory_count=len(measured.rollouts),
    )


def _curve(band: Band) -> Curve:
    return Curve(band.x, band.value, band.low, band.high, band.n)
