"""What one small update does to the entropy of each token's distribution: the tabular law, its quadrants, the tables.

The law treats the logits in front of every token as parameters of their own, so what tokens do to each other is left
out of it. Shape letters: N tokens, P problems, Q quadrants, B resamples, K sums of a problem, M numbers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import lambertw

from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.intervals import RESAMPLES, bootstrap_ratios, resample_weights
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.tabulate import join_notes, metric

Floats = NDArray[np.float64]

QUADRANTS = ("positive.surprising", "positive.expected", "negative.surprising", "negative.expected", "none")
"""Sign of the advantage, and surprisal above or below the boundary; `none` has no advantage."""
_TOTALS = {
    "change.measured": "after the step less before it, mean over tokens",
    "change.predicted": "−η ∇H·g of the whole model, mean over tokens",
}


def tabular_change(
    advantage_N: Floats, logprob_N: Floats, entropy_N: Floats, drift_N: Floats, rate: float = 1.0
) -> Floats:
    """ΔH = ηA{p(s − H) − E_π[p(s − H)]} of one sampled token each (STARE), in nats, to first order in η = `rate`.

    p is the token's probability, s = −log p its surprisal, H the entropy (nats), `drift_N` the expectation. It is what
    a step of η along A·∇log p on the logits of that position alone does; η is a rate on logits.
    """
    return rate * advantage_N * (np.exp(logprob_N) * (-logprob_N - entropy_N) - drift_N)


def boundary(entropy_N: Floats, drift_N: Floats) -> Floats:
    """The surprisal s* (nats) at which the law changes sign: p(s − H) = E_π[p(s − H)] with p = e^−s.

    The expectation is the covariance of p and s, never above 0, so s* = H − W(−E·e^H) with Lambert's W (ours) is the
    only root and lies at or below H; at H where the distribution is uniform.
    """
    return np.asarray(entropy_N - lambertw(np.maximum(-drift_N, 0) * np.exp(entropy_N)).real, np.float64)


@dataclass(frozen=True)
class Changes:
    """N tokens of `problems` problems. Log-probs, entropies and changes are in nats.

    `advantage_N` is what the loss puts on a token's log-prob, `bonus_N` on its entropy, both per unit of its weight;
    `weight_N` has mean 1; what a loss does through other columns (values, twins) is in `predicted_N` and `measured_N`
    alone. `drift_N` is E_π[p(s − H)], `steepness_N` Σ p²(s − H)² = |∇H|² by the logits.
    """

    problem_N: NDArray[np.integer]
    problems: int
    advantage_N: Floats
    bonus_N: Floats
    weight_N: Floats
    logprob_N: Floats
    entropy_N: Floats
    drift_N: Floats
    steepness_N: Floats
    predicted_N: Floats
    measured_N: Floats

    @cached_property
    def boundary_N(self) -> Floats:
        """s* of each token."""
        return boundary(self.entropy_N, self.drift_N)

    @cached_property
    def tabular_N(self) -> Floats:
        """The law at η = 1 on the logits: advantage and entropy bonus, weighted as in the loss."""
        law_N = tabular_change(self.advantage_N, self.logprob_N, self.entropy_N, self.drift_N)
        return self.weight_N * (law_N + self.bonus_N * self.steepness_N)

    @cached_property
    def quadrant_N(self) -> NDArray[np.int64]:
        """Index into QUADRANTS."""
        surprising_N = -self.logprob_N > self.boundary_N
        signed_N = np.where(self.advantage_N > 0, 0, 2) + np.where(surprising_N, 0, 1)
        return np.where(self.advantage_N == 0, 4, signed_N)

    def sums(self, *values_N: NDArray[np.generic]) -> Floats:
        """Sums over each problem's tokens, (P, K)."""
        return np.stack(
            [np.bincount(self.problem_N, np.asarray(one, np.float64), self.problems) for one in values_N], axis=1
        )

    def quadrant_sums(self, values_N: NDArray[np.generic]) -> Floats:
        """Sums over each problem's tokens of each quadrant, (P, Q)."""
        return self.sums(*(np.where(self.quadrant_N == place, values_N, 0) for place in range(len(QUADRANTS))))


def change_columns(changes: Changes) -> list[Column]:
    """Mean changes of each problem."""
    tokens_P1 = changes.sums(np.ones(len(changes.problem_N)))
    sums_PK = changes.sums(changes.measured_N, changes.predicted_N) / tokens_P1
    return [Column(name, "nats", sums_PK[:, at], note=_TOTALS[name]) for at, name in enumerate(_TOTALS)]


def change_metrics(changes: Changes, checkpoint: str, seed: int) -> tuple[Metric, ...]:
    """Totals, agreement, the boundary, then every quadrant; intervals are 95 % over problems.

    A quadrant's predicted and measured change is what it adds to the mean over all tokens; its shares are of the sum
    of the quadrants' sizes, sign kept, so that the law, whose η is on logits, can be compared.
    """
    return (
        *_totals(changes, checkpoint, seed),
        *_boundaries(changes, checkpoint, seed),
        *_quadrants(changes, checkpoint, seed),
    )


def _totals(changes: Changes, checkpoint: str, seed: int) -> Iterator[Metric]:
    one_N = np.ones(len(changes.problem_N))
    measured, predicted, tabular = changes.measured_N, changes.predicted_N, changes.tabular_N
    sums_PK = changes.sums(measured, predicted)
    tokens_PK = np.broadcast_to(changes.sums(one_N), sums_PK.shape)
    yield from _ratios(tuple(_TOTALS), "nats", sums_PK, tokens_PK, tuple(_TOTALS.values()), checkpoint, seed)
    yield from _resampled(
        {"change.ratio": "predicted ÷ measured, both summed over all tokens"},
        "ratio",
        sums_PK,
        _second_by_first,
        checkpoint,
        seed,
        "nothing changed",
    )
    yield from _resampled(
        {"change.error": "Σ|predicted − measured| ÷ Σ|measured| over tokens"},
        "share",
        changes.sums(np.abs(measured), np.abs(predicted - measured)),
        _second_by_first,
        checkpoint,
        seed,
        "nothing changed",
    )
    for name, guess_N in (("predicted", predicted), ("tabular", tabular)):
        yield from _resampled(
            {f"correlation.{name}": f"Pearson's, {name} with measured change, token by token"},
            "correlation",
            changes.sums(one_N, guess_N, measured, guess_N**2, measured**2, guess_N * measured),
            _correlation,
            checkpoint,
            seed,
            "one of the two is the same at every token",
        )


def _boundaries(changes: Changes, checkpoint: str, seed: int) -> Iterator[Metric]:
    surprisal_N = -changes.logprob_N
    below_N = changes.entropy_N - changes.boundary_N
    between_N = (surprisal_N > changes.boundary_N) & (surprisal_N < changes.entropy_N)
    sums_PK = changes.sums(below_N, between_N)
    tokens_PK = np.broadcast_to(changes.sums(np.ones(len(surprisal_N))), sums_PK.shape)
    for name, unit, note, place in (
        ("boundary.below", "nats", f"H − s*, mean over tokens; smallest {below_N.min():.3g}", 0),
        ("boundary.between", "share", "tokens with s* < s < H, on the other side than H says", 1),
    ):
        part = slice(place, place + 1)
        yield from _ratios((name,), unit, sums_PK[:, part], tokens_PK[:, part], (note,), checkpoint, seed)


def _quadrants(changes: Changes, checkpoint: str, seed: int) -> Iterator[Metric]:
    ones_N = np.ones(len(changes.problem_N))
    counts_PQ = changes.quadrant_sums(ones_N)
    tokens_PQ = np.broadcast_to(changes.sums(ones_N), counts_PQ.shape)
    counts = [f"{int(count):,} tokens" for count in counts_PQ.sum(0)]

    def names(what: str) -> tuple[str, ...]:
        return tuple(f"quadrant.{quadrant}.{what}" for quadrant in QUADRANTS)

    yield from _ratios(names("tokens"), "share", counts_PQ, tokens_PQ, counts, checkpoint, seed)
    advantages_PQ = changes.quadrant_sums(changes.advantage_N)
    notes = ["mean over the quadrant's tokens"] * len(QUADRANTS)
    yield from _ratios(names("advantage"), "", advantages_PQ, counts_PQ, notes, checkpoint, seed)
    for what in ("predicted", "measured"):
        sums_PQ = changes.quadrant_sums(getattr(changes, f"{what}_N"))
        note = "the quadrant's part of the mean over all tokens"
        yield from _ratios(names(what), "nats", sums_PQ, tokens_PQ, [note] * len(QUADRANTS), checkpoint, seed)
    for what in ("tabular", "predicted", "measured"):
        yield from _resampled(
            dict.fromkeys(names(f"{what}_share"), "of the sum of the quadrants' sizes, sign kept"),
            "signed share",
            changes.quadrant_sums(getattr(changes, f"{what}_N")),
            lambda sums_BQ: sums_BQ / np.abs(sums_BQ).sum(1, keepdims=True),
            checkpoint,
            seed,
            "nothing changed",
        )


def _second_by_first(sums_BK: Floats) -> Floats:
    return sums_BK[:, 1:] / sums_BK[:, :1]


def _correlation(sums_BK: Floats) -> Floats:
    """From Σ1, Σx, Σy, Σx², Σy², Σxy."""
    n, x, y, xx, yy, xy = sums_BK.T
    return np.asarray((n * xy - x * y) / np.sqrt((n * xx - x**2) * (n * yy - y**2)), np.float64)[:, None]


def _ratios(
    names: tuple[str, ...],
    unit: str,
    sums_PM: Floats,
    bases_PM: Floats,
    notes: tuple[str, ...] | list[str],
    checkpoint: str,
    seed: int,
) -> Iterator[Metric]:
    """Σ over problems ÷ Σ of the bases, with BCa intervals."""
    found = bootstrap_ratios(sums_PM, bases_PM, seed=seed)
    for name, value, low, high, n, kind, note in zip(
        names, found.value, found.low, found.high, found.n, found.notes, notes, strict=True
    ):
        told = join_notes(note, kind) if n else join_notes("no such tokens", note)
        yield metric(name, value, low, high, unit, n, checkpoint=checkpoint, note=told)


def _resampled(
    names: dict[str, str],
    unit: str,
    sums_PK: Floats,
    statistic: Callable[[Floats], Floats],
    checkpoint: str,
    seed: int,
    missing: str,
) -> Iterator[Metric]:
    """A statistic (B, M) of sums (B, K) over problems, with percentile intervals; for what is no ratio of two sums."""
    problems = len(sums_PK)
    with np.errstate(invalid="ignore", divide="ignore"):
        value_M = statistic(sums_PK.sum(0, keepdims=True))[0]
        blocks = [statistic(weights_BP @ sums_PK) for weights_BP in resample_weights(problems, RESAMPLES, seed)]
    drawn_BM = np.concatenate(blocks)
    for name, value, drawn_B in zip(names, value_M, drawn_BM.T, strict=True):
        known_B = drawn_B[np.isfinite(drawn_B)]
        low, high = np.quantile(known_B, (0.025, 0.975)) if problems > 1 and len(known_B) else (np.nan, np.nan)
        kind = "percentile interval" if np.isfinite(low) else "one problem: no interval"
        told = join_notes(names[name], kind) if np.isfinite(value) else join_notes(missing, names[name])
        yield metric(name, value, low, high, unit, problems, checkpoint=checkpoint, note=told)
