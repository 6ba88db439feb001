"""What theory says of entropy under a gradient step, against enumeration, automatic differentiation and real steps."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.checkpoints.head import head_of
from entropy_lab.diagnostics.entropy_change import tabular_change
from entropy_lab.scoring.kernel import token_statistics

RNG = np.random.default_rng(11)


def softmax(z_V):
    p_V = np.exp(z_V - z_V.max())
    return p_V / p_V.sum()


def entropy(p_V):
    return float(-(p_V * np.log(p_V)).sum())


def covariance(p_V, x_V, y_V):
    return float((p_V * x_V * y_V).sum() - (p_V * x_V).sum() * (p_V * y_V).sum())


def step(z_V, push_V, rate):
    """How far H moves when the logits move by rate · push."""
    return entropy(softmax(z_V + rate * push_V)) - entropy(softmax(z_V))


def centred(p_V):
    advantage_V = RNG.normal(size=len(p_V))
    return advantage_V - (p_V * advantage_V).sum()


@pytest.mark.parametrize("seed", range(5))
def test_the_expected_gradient_of_repo_is_that_of_the_entropy(seed):
    """E_π[−L ∇logp] = ∇H with L = logp + H, every token enumerated."""
    torch.manual_seed(seed)
    logits_V = (3 * torch.randn(40, dtype=torch.float64)).requires_grad_()
    logp_V = logits_V.log_softmax(0)
    entropy_ = -(logp_V.exp() * logp_V).sum()
    (wanted_V,) = torch.autograd.grad(entropy_, logits_V, retain_graph=True)
    weight_V = (logp_V.exp() * -(logp_V + entropy_)).detach()
    (found_V,) = torch.autograd.grad((weight_V * logp_V).sum(), logits_V)
    assert wanted_V.abs().max() > 0.01
    torch.testing.assert_close(found_V, wanted_V, atol=1e-12, rtol=0)


def test_the_same_holds_through_the_head_of_a_real_checkpoint():
    """By hidden states and head weights of builtin:sft, through the kernel that training uses, in float64."""
    checkpoint = load_checkpoint("builtin:sft", device="cpu", dtype="float32")
    ids = torch.tensor([checkpoint.tokenizer.encode("3 5 7 = 15 : 3 + 5 = 8")])
    with torch.no_grad():
        states_LH = checkpoint.model.get_decoder()(input_ids=ids).last_hidden_state[0].double()
    weight_VH = head_of(checkpoint.model).weight_VH.detach().double().requires_grad_()
    vocabulary, seen = len(weight_VH), 0.0
    for state_H in states_LH[[0, 3, -1]]:
        hidden_1H = state_H[None].clone().requires_grad_()
        moving = (hidden_1H, weight_VH)
        own = token_statistics(hidden_1H, weight_VH, torch.zeros(1, dtype=torch.long))
        wanted = torch.autograd.grad(own.entropy_N.sum(), moving)
        every = token_statistics(hidden_1H.expand(vocabulary, -1), weight_VH, torch.arange(vocabulary))
        weight_V = (every.logprob_N.exp() * -(every.logprob_N + every.entropy_N)).detach()
        found = torch.autograd.grad((weight_V * every.logprob_N).sum(), moving)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=0)
            seen = max(seen, float(other.abs().max()))
    assert seen > 0.01


@pytest.mark.parametrize("token", [0, 4, 11])
@pytest.mark.parametrize("advantage", [1.5, -0.7])
def test_the_one_token_law_is_the_step_to_first_order(token, advantage):
    """The error of ηA{p(s − H) − E_π[p(s − H)]} falls with η²."""
    z_V = 2 * RNG.normal(size=12)
    p_V = softmax(z_V)
    h = entropy(p_V)
    drift = float((p_V**2 * (-np.log(p_V) - h)).sum())
    push_V = advantage * (np.eye(12)[token] - p_V)
    errors = []
    for rate in (1e-2, 5e-3, 2.5e-3):
        law = tabular_change(*(np.array([one]) for one in (advantage, np.log(p_V[token]), h, drift)), rate)[0]
        moved = step(z_V, push_V, rate)
        assert law == pytest.approx(moved, rel=0.2)
        errors.append(abs(law - moved))
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(4, rel=0.1)


def test_covariances_are_the_steps_of_softmax_and_natural_gradients():
    """−η Cov(logπ, π·A) with E_π[A] = 0, and −η Cov(logπ, A); the first is the law averaged over the sampled token."""
    rate = 1e-5
    for _ in range(20):
        z_V = 1.5 * RNG.normal(size=15)
        p_V = softmax(z_V)
        logp_V, h, advantage_V = np.log(p_V), entropy(p_V), centred(p_V)
        plain = -rate * covariance(p_V, logp_V, p_V * advantage_V)
        assert step(z_V, p_V * advantage_V, rate) == pytest.approx(plain, rel=1e-3, abs=1e-10)
        natural = -rate * covariance(p_V, logp_V, advantage_V)
        assert step(z_V, advantage_V, rate) == pytest.approx(natural, rel=1e-3, abs=1e-10)
        drift_V = np.full(15, (p_V**2 * (-logp_V - h)).sum())
        law_V = tabular_change(advantage_V, logp_V, np.full(15, h), drift_V, rate)
        assert (p_V * law_V).sum() == pytest.approx(plain, rel=1e-9)


def test_the_softmax_form_needs_a_centred_advantage():
    """A constant added to A changes no step, p ∘ (A − E_π[A]), but changes Cov(logπ, π·A)."""
    z_V = 1.5 * RNG.normal(size=15)
    p_V = softmax(z_V)
    logp_V, advantage_V = np.log(p_V), centred(p_V)
    shifted_V = advantage_V + 2
    push_V = p_V * (shifted_V - (p_V * shifted_V).sum())
    np.testing.assert_allclose(push_V, p_V * advantage_V, atol=1e-12)
    right = covariance(p_V, logp_V, p_V * advantage_V)
    assert abs(covariance(p_V, logp_V, p_V * shifted_V) - right) > 0.5 * abs(right)
    assert covariance(p_V, logp_V, shifted_V) == pytest.approx(covariance(p_V, logp_V, advantage_V))


@given(
    st.lists(st.tuples(st.floats(-6, 6), st.floats(-1, 1)), min_size=2, max_size=20),
    st.floats(0.01, 0.9),
    st.floats(0.01, 3),
)
def test_bounded_ratios_bound_the_entropy(rows, low, high):
    """(1 − ε_low)H ≤ H′ ≤ (1 + ε_high)H where every action's ratio lies in [1 − ε_low, 1 + ε_high]."""
    z_V, push_V = np.array(rows).T
    p_V = softmax(z_V)
    push_V = push_V - (p_V * push_V).sum()  # Σ p r = 1
    room = max(push_V.max() / high, -push_V.min() / low, 1e-6)
    ratio_V = 1 + push_V / room  # as far as the bounds let them go
    moved = entropy(p_V * np.maximum(ratio_V, 1e-300))
    assert (1 - low) * entropy(p_V) - 1e-9 <= moved <= (1 + high) * entropy(p_V) + 1e-9
