import numpy as np
import pytest

from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.intervals import wilson
from entropy_lab.diagnostics.numerics import (
    DRAWS,
    Tokens,
    column_metrics,
    gap_columns,
    logprob_columns,
    plain_metrics,
    policy_columns,
    softmax_columns,
)
from entropy_lab.diagnostics.ratio_bias import rounded, shifted_logprobs

TOKENS = Tokens(np.array([0, 0, 1, 0, 2]), 3)


def by_name(columns):
    return {column.name: column.values_P for column in columns}


def test_means_are_over_a_problems_tokens():
    assert TOKENS.means(np.array([1, 2, 4, 6, 8])).tolist() == [3, 4, 8]


def test_log_probs_in_16_bits_meet_the_theory():
    """Many tokens of one magnitude: mean bias u²/12 within its error; decisions counted one by one."""
    logprob = -np.random.default_rng(0).uniform(8.6, 15.0, 6000)
    tokens = Tokens(np.arange(6000) % 30, 30)
    columns = logprob_columns(tokens, logprob, seed=1)
    found = {row.metric: row for row in column_metrics(columns, tokens, "mine", seed=0)}
    bias, theory = found["ratio.bias.logprobs.bfloat16"], found["ratio.theory.logprobs.bfloat16"]
    assert theory.value == pytest.approx(3.26e-4, rel=0.02)
    assert bias.low < theory.value < bias.high
    assert bias.high - bias.low < theory.value
    assert found["ratio.theory.logprobs.float16"].value == pytest.approx(theory.value / 64, rel=0.02)

    new, old = np.split(shifted_logprobs(logprob, 2 * DRAWS, 1), 2, axis=1)
    exact, seen = np.exp(new - old), np.exp(rounded(new, "bfloat16") - rounded(old, "bfloat16"))
    crossed = ((exact > 1.28) != (seen > 1.28)) | ((exact < 0.8) != (seen < 0.8))
    assert found["clip.changed.logprobs.bfloat16.20-28"].value == pytest.approx(crossed.mean())
    raised = (seen > 1.28).mean() - (exact > 1.28).mean()
    assert found["clip.upper.logprobs.bfloat16.20-28"].value == pytest.approx(raised)


def test_policies_are_compared_token_by_token():
    exact, seen = np.log([1.0, 1.19, 0.81, 1.27, 1.0]), np.log([1.0, 1.21, 0.79, 1.29, 1.0])
    found = by_name(policy_columns(TOKENS, "pass.x", exact, seen, None, ""))
    assert found["clip.changed.pass.x.20-20"].tolist() == pytest.approx([1 / 3, 1, 0])
    assert found["clip.changed.pass.x.20-28"].tolist() == pytest.approx([1 / 3, 1, 0])
    assert found["clip.upper.pass.x.20-20"].tolist() == pytest.approx([1 / 3, 0, 0])
    expected = np.exp(seen) / np.exp(exact) - 1
    assert found["ratio.bias.pass.x"].tolist() == pytest.approx(TOKENS.means(expected).tolist())
    assert "ratio.theory.pass.x" not in found


def test_certain_tokens_are_counted():
    """1 − p of 1e-9 is below float32's step at 1; 1.1e-7 is not, but the log-prob may have lost it."""
    exact = np.log1p(-np.array([1e-9, 1.1e-7, 1.1e-7, 0.5, 1e-3]))
    single = np.array([0.0, 0.0, -1.1e-7, np.log(0.5), np.log(0.999)])
    columns, counts = softmax_columns(TOKENS, exact, single)
    assert counts == {"softmax.rounds_to_one": 1, "softmax.vanishing": 2}
    assert by_name(columns)["softmax.vanishing"].tolist() == pytest.approx([2 / 3, 0, 0])


def test_the_gap_of_sampler_and_scorer():
    sampler = np.log([0.5, 0.5, 0.5, 0.5, 0.5])
    scorer = np.log([0.5, 0.65, 0.25, 0.5, 0.62])
    found = by_name(gap_columns(TOKENS, "bfloat16", sampler, scorer))
    assert found["gap.bfloat16.beyond.20-28"].tolist() == pytest.approx([1 / 3, 1, 0])
    assert found["gap.bfloat16.beyond.20-20"].tolist() == pytest.approx([1 / 3, 1, 1])
    assert found["gap.bfloat16.mean"][1] == pytest.approx(np.log(2))
    assert found["gap.bfloat16.kl"][1] == pytest.approx(0.5 - 1 - np.log(0.5))


def test_what_no_token_shows_has_an_interval_over_tokens_or_none():
    zero = np.zeros(3)
    share, difference = column_metrics(
        [Column("a", "share", zero), Column("b", "share difference", zero)], TOKENS, "mine", 0
    )
    assert (share.value, share.low, share.high, share.n) == (0, 0, float(wilson(0, 5)[1]), 5)
    assert "over tokens" in share.note
    assert (difference.value, difference.low, difference.high, difference.n) == (0, None, None, 3)
    assert "no interval" in difference.note
    (largest,) = plain_metrics({"c": (2.5, "nats", "largest")}, TOKENS, "mine")
    assert (largest.value, largest.low, largest.n, largest.note) == (
        2.5,
        None,
        3,
        "largest over 5 tokens, so no interval",
    )
