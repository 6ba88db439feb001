"""The clipped surrogate: hand-computed ratios, the textbook formula by autograd, GSPO, LOOP, the dual clip."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from packed_columns import column, now_of, tokens_of
from pydantic import ValidationError
from torch import Tensor

from entropy_lab.training.objectives import Outcome
from entropy_lab.training.objectives.clipped import Clipped
from entropy_lab.training.objectives.ppo import Ppo

RATIO = [0.5, 0.8, 1.0, 1.2, 1.28, 1.5, 4.0]


def at_ratios(piece: Clipped, ratios: list[float], advantage: float) -> tuple[Outcome, list[float]]:
    """One row a ratio; the outcome and the slope of each token's loss with respect to its log-prob."""
    now = now_of([math.log(ratio) for ratio in ratios])
    tokens = tokens_of([1] * len(ratios), old_logprob_N=[0.0] * len(ratios))
    outcome = piece(now, tokens, column([advantage] * len(ratios)))
    (slope_N,) = torch.autograd.grad(outcome.loss_N.sum(), now.logprob_N)
    return outcome, slope_N.tolist()


def test_gain_stops_above_the_upper_bound_where_the_advantage_is_positive() -> None:
    outcome, slope = at_ratios(Clipped(low=0.2, high=0.25), RATIO, 2.0)
    assert outcome.loss_N.tolist() == pytest.approx([-1.0, -1.6, -2.0, -2.4, -2.5, -2.5, -2.5])
    assert slope == pytest.approx([-1.0, -1.6, -2.0, -2.4, 0, 0, 0])
    assert outcome.high_N is not None
    assert outcome.high_N.tolist() == [False] * 4 + [True] * 3
    assert outcome.low_N is not None
    assert not outcome.low_N.any()


def test_gain_stops_below_the_lower_bound_where_the_advantage_is_negative() -> None:
    outcome, slope = at_ratios(Clipped(low=0.25, high=0.2), RATIO, -2.0)
    assert outcome.loss_N.tolist() == pytest.approx([1.5, 1.6, 2.0, 2.4, 2.56, 3.0, 8.0])
    assert slope == pytest.approx([0, 1.6, 2.0, 2.4, 2.56, 3.0, 8.0])
    assert outcome.low_N is not None
    assert outcome.low_N.tolist() == [True] + [False] * 6
    assert outcome.high_N is not None
    assert not outcome.high_N.any()


def test_dual_clip_bounds_the_loss_of_bad_tokens_alone() -> None:
    bad, bad_slope = at_ratios(Clipped(dual=3), [0.5, 1.5, 2.9, 3.1, 50.0], -2.0)
    assert bad.loss_N.tolist() == pytest.approx([1.6, 3.0, 5.8, 6.0, 6.0])
    assert bad_slope == pytest.approx([0, 3.0, 5.8, 0, 0])
    good, good_slope = at_ratios(Clipped(dual=3), [0.5, 1.5, 50.0], 2.0)
    assert good.loss_N.tolist() == pytest.approx([-1.0, -2.4, -2.4])
    assert good_slope == pytest.approx([-1.0, 0, 0])


def test_loop_bounds_are_symmetric_in_the_logarithm() -> None:
    piece = Clipped(low=0.1, high=0.1, symmetric_in_log=True)
    outcome, slope = at_ratios(piece, [0.905, 1 / 1.1 + 1e-9], -1.0)
    assert outcome.loss_N.tolist() == pytest.approx([1 / 1.1, 1 / 1.1])
    assert slope == pytest.approx([0, 1 / 1.1])
    plain, _ = at_ratios(Clipped(low=0.1, high=0.1), [0.905], -1.0)
    assert plain.loss_N.tolist() == pytest.approx([0.905])  # 1 − low = .9 would not have held it


def naive(ratio_N: Tensor, advantage_N: Tensor, lower: float, upper: float, dual: float) -> Tensor:
    """The formula as it is printed, min and max by branches."""
    losses = []
    for ratio, advantage in zip(ratio_N, advantage_N, strict=True):
        clip = ratio if lower <= ratio <= upper else torch.full_like(ratio, lower if ratio < lower else upper)
        objective = min(ratio * advantage, clip * advantage)
        if dual and advantage < 0:
            objective = max(objective, dual * advantage)
        losses.append(-objective)
    return torch.stack(losses)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(-3, 3)), min_size=1, max_size=12),
    st.floats(0, 0.9),
    st.floats(0, 0.9),
    st.sampled_from([0.0, 1.5, 3.0]),
    st.booleans(),
)
def test_equals_the_printed_formula_and_its_gradient(
    pairs: list[tuple[float, float]], low: float, high: float, dual: float, symmetric: bool
) -> None:
    lower, upper = 1 / (1 + low) if symmetric else 1 - low, 1 + high
    ratios = [math.exp(logprob) for logprob, _ in pairs]
    assume(all(abs(ratio - bound) > 1e-9 for ratio in ratios for bound in (lower, upper, dual)))
    now = now_of([logprob for logprob, _ in pairs])
    advantage_N = column([advantage for _, advantage in pairs])
    tokens = tokens_of([len(pairs)], old_logprob_N=[0.0] * len(pairs))
    found = Clipped(low=low, high=high, dual=dual, symmetric_in_log=symmetric)(now, tokens, advantage_N)
    oracle_N = naive(now.logprob_N.exp(), advantage_N, lower, upper, dual)
    torch.testing.assert_close(found.loss_N, oracle_N)
    (gradient,) = torch.autograd.grad(found.loss_N.sum(), now.logprob_N)
    # A bound where nothing depends on the policy any more has no graph at all.
    (oracle,) = torch.autograd.grad(oracle_N.sum() + 0 * now.logprob_N.sum(), now.logprob_N)
    torch.testing.assert_close(gradient, oracle)
    if not dual:
        assert found.low_N is not None
        assert found.high_N is not None
        assert torch.equal(found.low_N | found.high_N, (gradient == 0) & (advantage_N != 0))


@settings(deadline=None)
@given(st.lists(st.lists(st.floats(-0.01, 0.01), min_size=1, max_size=6), min_size=1, max_size=5), st.data())
def test_sequence_level_equals_the_loss_of_rows_and_its_gradient(rows: list[list[float]], data: st.DataObject) -> None:
    advantage_R = column(data.draw(st.lists(st.floats(-2, 2), min_size=len(rows), max_size=len(rows))))
    low, high = 3e-3, 4e-3
    tokens = tokens_of([len(row) for row in rows], old_logprob_N=[-1.0] * sum(map(len, rows)))
    now = now_of([-1.0 + value for row in rows for value in row])
    assume(all(min(abs(math.exp(sum(r) / len(r)) - b) for b in (1 - low, 1 + high)) > 1e-9 for r in rows))
    found = Clipped(level="sequence", low=low, high=high)(now, tokens, tokens.spread(advantage_R))
    weight_N = tokens.spread(1 / (len(rows) * tokens.length_R.double()))  # sequence-mean, in float64
    loss = (weight_N * found.loss_N).sum()

    log_ratio = [part.mean() for part in (now.logprob_N + 1.0).split(tokens.length_R.tolist())]
    oracle = naive(torch.stack(log_ratio).exp(), advantage_R, 1 - low, 1 + high, 0).mean()
    torch.testing.assert_close(loss, oracle, rtol=1e-9, atol=1e-12)
    (gradient,) = torch.autograd.grad(loss, now.logprob_N)
    (expected,) = torch.autograd.grad(oracle + 0 * now.logprob_N.sum(), now.logprob_N)
    torch.testing.assert_close(gradient, expected, rtol=1e-9, atol=1e-12)


def test_sequence_level_takes_the_rows_mean_advantage() -> None:
    """A row of advantages 3 and −1 counts as one of advantage 1; at s = 1.5 > 1 + high it gains no more."""
    now, tokens = now_of([math.log(1.5)] * 2 + [0.0]), tokens_of([2, 1], old_logprob_N=[0.0] * 3)
    found = Clipped(level="sequence", low=0.2, high=0.25)(now, tokens, column([3.0, -1.0, -2.0]))
    assert found.loss_N.tolist() == pytest.approx([-1.25, -1.25, 2.0])
    assert found.high_N is not None
    assert found.high_N.tolist() == [True, True, False]


def test_gspo_lets_a_single_token_pass_dapos_bound_from_618_tokens_on() -> None:
    """(1 + 4e-4)^617 < 1.28 < (1 + 4e-4)^618."""
    piece = Clipped(level="sequence", low=3e-4, high=4e-4)
    assert 1.0004**617 < 1.28 < 1.0004**618
    for length, clipped in ((616, True), (617, True), (618, False)):
        tokens = tokens_of([length], old_logprob_N=[0.0] * length)
        found = piece(now_of([math.log(1.28)] + [0.0] * (length - 1)), tokens, column([1.0] * length))
        assert found.high_N is not None
        assert found.high_N.tolist() == [clipped] * length
        expected = -1.0004 if clipped else -(1.28 ** (1 / length))
        assert found.loss_N.tolist() == pytest.approx([expected] * length, abs=1e-12)


@pytest.mark.parametrize("fields", [{"low": -0.1}, {"low": 1.0}, {"high": -0.1}, {"dual": 1.0}, {"dual": -3}])
@pytest.mark.parametrize("piece", [Clipped, Ppo])
def test_bounds_that_make_no_sense_are_refused(piece: type[Clipped] | type[Ppo], fields: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=next(iter(fields))):
        piece.model_validate(fields)
