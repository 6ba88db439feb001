"""The numbers of a numerics probe from log-probs of the same tokens in several formats, as means over problems.

A value is the mean over all tokens of a problem, then over problems. Shape letters: N tokens, P problems, D draws.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.intervals import wilson
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.ratio_bias import (
    FORMATS,
    SHIFT,
    clip_decisions,
    expected_bias,
    observed_bias,
    own_gradient,
    rounded,
    shifted_logprobs,
    spacing,
)
from entropy_lab.diagnostics.tabulate import join_notes, mean_metrics, metric

Floats = NDArray[np.float64]

CLIPS = {"20-20": (0.2, 0.2), "20-28": (0.2, 0.28)}
"""Clip bounds below and above 1, in percent in a metric's name."""
DRAWS = 64
"""Ratios drawn a token (ours)."""


@dataclass(frozen=True)
class Tokens:
    """Which problem each of N tokens belongs to."""

    problem_N: NDArray[np.integer]
    problems: int

    def means(self, values_N: NDArray[np.generic]) -> Floats:
        """Mean over each problem's tokens, shape (P,)."""
        sums_P = np.bincount(self.problem_N, np.asarray(values_N, np.float64), minlength=self.problems)
        return sums_P / np.bincount(self.problem_N, minlength=self.problems)


def logprob_columns(tokens: Tokens, logprob_N: Floats, seed: int) -> list[Column]:
    """Log-probs rounded to 16 bits, with `DRAWS` pairs of policies a token drawn by `shifted_logprobs`."""
    new_ND, old_ND = np.split(shifted_logprobs(logprob_N, 2 * DRAWS, seed), 2, axis=1)
    drawn = f"{DRAWS} ratios a token, the logit of new and of old policy shifted by N(0, {SHIFT:g}²)"
    columns = []
    for form in FORMATS:
        seen_new, seen_old = rounded(new_ND, form), rounded(old_ND, form)
        bias_N = observed_bias(new_ND, old_ND, seen_new, seen_old).mean(1)
        theory_N = expected_bias(spacing(new_ND, form), spacing(old_ND, form)).mean(1)
        name = f"logprobs.{form}"
        columns += _bias_columns(tokens, name, bias_N, theory_N, drawn)
        columns += _clip_columns(tokens, name, new_ND - old_ND, seen_new - seen_old, drawn)
    return columns


def policy_columns(
    tokens: Tokens,
    name: str,
    exact_log_ratio_N: Floats,
    log_ratio_N: Floats,
    theory_N: Floats | None,
    note: str,
) -> list[Column]:
    """Ratios between two policies as a format sees them, against those of float32; `name` is stage and format."""
    bias_N = observed_bias(exact_log_ratio_N, 0.0, log_ratio_N, 0.0)
    columns = _bias_columns(tokens, name, bias_N, theory_N, note)
    return columns + _clip_columns(tokens, name, exact_log_ratio_N[:, None], log_ratio_N[:, None], note)


def _bias_columns(tokens: Tokens, name: str, bias_N: Floats, theory_N: Floats | None, note: str) -> list[Column]:
    columns = [Column(f"ratio.bias.{name}", "ratio", tokens.means(bias_N), note=f"E[r_obs/r] − 1; {note}")]
    if theory_N is not None:
        theory = "what roundings to a spacing u make of it, about u²/12, mean over tokens"
        columns.append(Column(f"ratio.theory.{name}", "ratio", tokens.means(theory_N), note=theory))
    return columns


def _clip_columns(tokens: Tokens, name: str, exact_ND: Floats, seen_ND: Floats, note: str) -> list[Column]:
    columns = []
    for label, (low, high) in CLIPS.items():
        exact, seen = clip_decisions(exact_ND, low, high), clip_decisions(seen_ND, low, high)
        bounds = f"clip {low:g}/{high:g}; {note}"
        upper_N = (seen == 1).mean(1) - (exact == 1).mean(1)
        columns += [
            Column(f"clip.changed.{name}.{label}", "share", tokens.means((seen != exact).mean(1)), note=bounds),
            Column(
                f"clip.upper.{name}.{label}",
                "share difference",
                tokens.means(upper_N),
                note=f"upper clip rate, less that of float32; {bounds}",
            ),
        ]
    return columns


def softmax_columns(tokens: Tokens, exact_N: Floats, single_N: Floats) -> tuple[list[Column], dict[str, int]]:
    """Tokens whose exact p is 1 once in float32, and whose own gradient is 0 there; shares and counts.

    The second are more: a float32 log-prob has lost what the others hold together before p is rounded.
    """
    chosen = {
        "softmax.rounds_to_one": np.exp(exact_N).astype(np.float32) == 1,
        "softmax.vanishing": own_gradient(single_N) == 0,
    }
    notes = {
        "softmax.rounds_to_one": "1 − p rounds to 0 in float32",
        "softmax.vanishing": "own log-prob gradient is 0 in float32 without the softmax fix",
    }
    columns = [Column(name, "share", tokens.means(chosen_N), note=notes[name]) for name, chosen_N in chosen.items()]
    return columns, {name: int(chosen_N.sum()) for name, chosen_N in chosen.items()}


def gap_columns(tokens: Tokens, form: str, sampler_N: Floats, scorer_N: Floats) -> list[Column]:
    """Sampler's log-prob against that of a teacher-forced pass in `form`, d = scorer − sampler.

    KL(sampler‖scorer) is Schulman's k3 = e^d − 1 − d on the sampled tokens; `beyond` counts r = e^d outside a bound.
    """
    gap_N = scorer_N - sampler_N
    values = {
        "mean": ("nats", np.abs(gap_N), "mean |scorer − sampler|"),
        "kl": ("nats", np.expm1(gap_N) - gap_N, "k3 estimate of KL(sampler‖scorer) a token"),
        **{
            f"beyond.{label}": ("share", clip_decisions(gap_N, low, high) != 0, f"outside clip {low:g}/{high:g}")
            for label, (low, high) in CLIPS.items()
        },
    }
    return [
        Column(f"gap.{form}.{name}", unit, tokens.means(value_N), note=note)
        for name, (unit, value_N, note) in values.items()
    ]


def column_metrics(columns: Sequence[Column], tokens: Tokens, checkpoint: str, seed: int) -> tuple[Metric, ...]:
    """Means over problems with their intervals (`mean_metrics`), but for what no token shows.

    A share of 0 gets the Wilson interval over tokens, since roundings of tokens are independent (ours), and n counts
    tokens; a difference of 0 everywhere has no interval.
    """
    rows = []
    for column, row in zip(columns, mean_metrics(columns, checkpoint, seed=seed), strict=True):
        if column.values_P.any():
            rows.append(row)
        elif column.unit == "share":
            count = len(tokens.problem_N)
            low, high = wilson(0, count)
            note = join_notes("Wilson interval over tokens, none of which shows it", column.note)
            rows.append(
                metric(row.metric, 0.0, float(low), float(high), "share", count, checkpoint=checkpoint, note=note)
            )
        else:
            rows.append(
                replace(row, low=None, high=None, note=join_notes("0 in every problem: no interval", column.note))
            )
    return tuple(rows)


def plain_metrics(values: Mapping[str, tuple[float, str, str]], tokens: Tokens, checkpoint: str) -> Sequence[Metric]:
    """Largest values and counts, (value, unit, note) by name: what was found, with no interval to give."""
    size = f"over {len(tokens.problem_N):,} tokens, so no interval"
    return [
        metric(name, value, np.nan, np.nan, unit, tokens.problems, checkpoint=checkpoint, note=f"{note} {size}")
        for name, (value, unit, note) in values.items()
    ]
