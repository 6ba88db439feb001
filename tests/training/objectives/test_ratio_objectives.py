"""CISPO, SAPO, PPO and REINFORCE in closed form and against autograd of the formulas as they are printed."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from packed_columns import column, now_of, tokens_of

from entropy_lab.training.objectives.cispo import Cispo
from entropy_lab.training.objectives.clipped import Clipped
from entropy_lab.training.objectives.ppo import Ppo
from entropy_lab.training.objectives.reinforce import Reinforce
from entropy_lab.training.objectives.sapo import Sapo

tokens_drawn = st.lists(st.tuples(st.floats(-8, -0.01), st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=12)


def test_reinforce_is_the_advantage_times_the_gradient_of_the_log_prob() -> None:
    now = now_of([-0.5, -2.0, -1.0])
    outcome = Reinforce()(now, tokens_of([2, 1]), column([1.0, -3.0, 0.0]))
    assert outcome.loss_N.tolist() == [0.5, -6.0, 0.0]
    assert outcome.low_N is None
    assert outcome.high_N is None
    (slope_N,) = torch.autograd.grad(outcome.loss_N.sum(), now.logprob_N)
    assert slope_N.tolist() == [-1.0, 3.0, 0.0]


def test_cispo_caps_weights_and_keeps_every_gradient() -> None:
    now = now_of([-1.0, -1.0, -1.0, -2.0])
    old = [-1.0 - math.log(ratio) for ratio in (0.5, 4.0, 8.0)] + [-2.0 - math.log(8.0)]
    outcome = Cispo()(now, tokens_of([4], old_logprob_N=old), column([1.0, 1.0, 1.0, -1.0]))
    assert outcome.loss_N.tolist() == pytest.approx([0.5, 4.0, 5.0, -10.0])
    (slope_N,) = torch.autograd.grad(outcome.loss_N.sum(), now.logprob_N)
    assert slope_N.tolist() == pytest.approx([-0.5, -4.0, -5.0, 5.0])
    assert outcome.high_N is not None
    assert outcome.high_N.tolist() == [False, False, True, False]
    assert outcome.low_N is not None
    assert not outcome.low_N.any()


@settings(deadline=None)
@given(tokens_drawn, st.floats(0.1, 6))
def test_cispo_gradient_is_that_of_the_log_prob_under_a_constant_weight(
    drawn: list[tuple[float, float, float]], cap: float
) -> None:
    now = now_of([one[0] for one in drawn])
    old_N, advantage_N = now.logprob_N.detach() - column([one[1] for one in drawn]), column([one[2] for one in drawn])
    found = Cispo(cap=cap)(now, tokens_of([len(drawn)], old_logprob_N=old_N), advantage_N)
    weight_N = torch.minimum((now.logprob_N.detach() - old_N).exp(), column([cap]))
    (gradient,) = torch.autograd.grad(found.loss_N.sum(), now.logprob_N)
    torch.testing.assert_close(gradient, -weight_N * advantage_N)
    torch.testing.assert_close(found.loss_N, -weight_N * advantage_N * now.logprob_N)


def test_sapo_has_the_slope_of_the_policy_gradient_at_one_and_fades_on_both_sides() -> None:
    ratios = [0.1, 1.0, 2.0, 6.0]
    for advantage, tau in ((1.5, 1.0), (-1.5, 1.05)):
        now = now_of([math.log(ratio) for ratio in ratios])
        found = Sapo()(now, tokens_of([4], old_logprob_N=[0.0] * 4), column([advantage] * 4))
        gates = [1 / (1 + math.exp(-tau * (ratio - 1))) for ratio in ratios]
        assert found.loss_N.tolist() == pytest.approx([-advantage * gate * 4 / tau for gate in gates])
        (slope_N,) = torch.autograd.grad(found.loss_N.sum(), now.logprob_N)
        by_ratio = [slope / ratio for slope, ratio in zip(slope_N.tolist(), ratios, strict=True)]
        assert by_ratio == pytest.approx([-advantage * 4 * gate * (1 - gate) for gate in gates])
        assert by_ratio[1] == pytest.approx(-advantage)


def test_sapo_fades_faster_where_the_advantage_is_negative() -> None:
    now, tokens = now_of([math.log(3.0)]), tokens_of([1], old_logprob_N=[0.0])
    slopes = [
        abs(float(torch.autograd.grad(Sapo()(now, tokens, column([one])).loss_N.sum(), now.logprob_N)[0]))
        for one in (1.0, -1.0)
    ]
    assert slopes[1] < slopes[0]


def test_ppo_value_loss_in_closed_form() -> None:
    """R = A + v_old = (1, 1, 1, 0); the clipped value counts where it is the worse of the two."""
    now = now_of([-1.0] * 4, value_N=[0.9, 0.55, 1.4, 0.1])
    tokens = tokens_of([4], old_logprob_N=[-1.0] * 4, old_value_N=[0.5, 0.5, 1.5, 0.5])
    advantage_N = column([0.5, 0.5, -0.5, -0.5])
    found = Ppo(value_clip=0.2, value_weight=0.1)(now, tokens, advantage_N)
    # clip(v): .7, .55, 1.4, .3; errors −.1/−.3, −.45, .4, .1/.3
    value_loss = [0.3**2 / 2, 0.45**2 / 2, 0.4**2 / 2, 0.3**2 / 2]
    expected = [0.1 * loss - advantage for loss, advantage in zip(value_loss, advantage_N.tolist(), strict=True)]
    assert found.loss_N.tolist() == pytest.approx(expected)
    assert now.value_N is not None
    (slope_N,) = torch.autograd.grad(found.loss_N.sum(), now.value_N)
    assert slope_N.tolist() == pytest.approx([0, -0.045, 0.04, 0])


@settings(deadline=None)
@given(tokens_drawn, st.floats(0.05, 0.5), st.sampled_from([0.0, 3.0]))
def test_ppo_is_the_clipped_surrogate_beside_a_value_loss(
    drawn: list[tuple[float, float, float]], clip: float, dual: float
) -> None:
    logprob, old, advantage = ([one[place] for one in drawn] for place in range(3))
    values = column([one[1] / 3 + one[2] for one in drawn])
    old_values = column([one[2] / 2 for one in drawn])
    assume(bool(((values - old_values).abs() - clip).abs().min() > 1e-9))
    now, other = now_of(logprob, value_N=values), now_of(logprob)
    tokens = tokens_of([len(drawn)], old_logprob_N=old, old_value_N=old_values)
    found = Ppo(value_clip=clip, value_weight=0.7, dual=dual)(now, tokens, column(advantage))
    policy = Clipped(dual=dual)(other, tokens, column(advantage))
    assert now.value_N is not None
    return_N = column(advantage) + old_values
    near_N = old_values + torch.minimum(torch.maximum(now.value_N - old_values, column(-clip)), column(clip))
    worst_N = torch.where(
        (now.value_N - return_N).abs() > (near_N - return_N).abs(), now.value_N - return_N, near_N - return_N
    )
    oracle_N = policy.loss_N + 0.35 * worst_N**2
    torch.testing.assert_close(found.loss_N, oracle_N)
    by_logprob, by_value = torch.autograd.grad(found.loss_N.sum(), (now.logprob_N, now.value_N))
    policy_slope, value_slope = torch.autograd.grad(oracle_N.sum(), (other.logprob_N, now.value_N))
    torch.testing.assert_close(by_logprob, policy_slope)
    torch.testing.assert_close(by_value, value_slope)
    assert found.high_N is not None
    assert policy.high_N is not None
    assert torch.equal(found.high_N, policy.high_N)
