"""Penalties against their definitions, and their gradients down to the logits."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from entropy_lab.errors import InputError
from entropy_lab.scoring import token_statistics
from entropy_lab.training.penalties.entropy_bonus import EntropyBonus
from entropy_lab.training.penalties.reference_kl import ReferenceKl
from entropy_lab.training.tokens import Now, Tokens

logprob = st.floats(-15, 0)


def tokens_of(count: int, reference: list[float] | Tensor | None = None) -> Tokens:
    """One row of `count` tokens."""
    return Tokens(
        length_R=torch.tensor([count]),
        group_R=torch.tensor([0]),
        reward_R=torch.zeros(1),
        channel_RC=torch.zeros(1, 0),
        channel_weight_C=torch.zeros(0),
        truncated_R=torch.zeros(1, dtype=torch.bool),
        reference_logprob_N=None if reference is None else torch.as_tensor(reference, dtype=torch.float64),
    )


def now_of(logprobs: list[float]) -> Now:
    logprob_N = torch.tensor(logprobs, dtype=torch.float64, requires_grad=True)
    return Now(logprob_N, torch.zeros_like(logprob_N))


def statistics(logits_NV: Tensor, targets_N: Tensor) -> Now:
    """The scoring kernel's columns of these logits: an identity for a head hands gradients of logits through."""
    found = token_statistics(logits_NV, torch.eye(logits_NV.shape[1], dtype=logits_NV.dtype), targets_N)
    return Now(found.logprob_N, found.entropy_N)


def some_logits(rows: int = 6, vocabulary: int = 9, scale: float = 3.0) -> Tensor:
    generator = torch.Generator().manual_seed(4)
    return (scale * torch.randn(rows, vocabulary, generator=generator, dtype=torch.float64)).requires_grad_()


@given(pairs=st.lists(st.tuples(logprob, logprob), min_size=1, max_size=8), weight=st.floats(0, 2))
@settings(max_examples=60, deadline=None)
def test_kl_equals_its_definition(pairs: list[tuple[float, float]], weight: float) -> None:
    mine, reference = map(list, zip(*pairs, strict=True))
    for estimator, definition in (
        ("k1", lambda logp, ref: logp - ref),
        ("k3", lambda logp, ref: math.exp(ref - logp) - (ref - logp) - 1),
    ):
        found = ReferenceKl(estimator=estimator, weight=weight)(now_of(mine), tokens_of(len(pairs), reference))
        expected = [weight * definition(logp, ref) for logp, ref in pairs]
        torch.testing.assert_close(found.detach(), torch.tensor(expected).double(), rtol=1e-6, atol=1e-12)
        assert estimator == "k1" or (found >= 0).all()


@pytest.mark.parametrize("estimator", ["k1", "k3"])
def test_kl_is_exactly_zero_at_the_reference(estimator: str) -> None:
    now = now_of([-0.1, -7.3])
    loss_N = ReferenceKl.model_validate({"estimator": estimator, "weight": 1})(now, tokens_of(2, [-0.1, -7.3]))
    assert loss_N.tolist() == [0, 0]


def test_estimators_average_to_the_divergence() -> None:
    """Summed over all tokens by their probability, both are KL(policy ‖ reference)."""
    policy_V, reference_V = (row.log_softmax(0) for row in some_logits(2, scale=1.0).detach())
    exact = (policy_V.exp() * (policy_V - reference_V)).sum()
    for estimator in ("k1", "k3"):
        kl = ReferenceKl.model_validate({"estimator": estimator, "weight": 1})
        found_V = kl(Now(policy_V, torch.zeros_like(policy_V)), tokens_of(len(policy_V), reference_V))
        torch.testing.assert_close((policy_V.exp() * found_V).sum(), exact)


def test_the_gradient_of_k3_pulls_and_that_of_k1_does_not() -> None:
    """In the mean over a policy's own tokens: k1's gradient is 0, k3's is that of KL(reference ‖ policy)."""
    logits_NV, reference_NV = some_logits(2, scale=1.0)[:1], some_logits(2, scale=1.0)[1:].detach()
    logits_NV = logits_NV.detach().requires_grad_()
    vocabulary = logits_NV.shape[1]
    reference_V = reference_NV.log_softmax(1)[0]
    p_V = logits_NV.detach().softmax(1)[0]
    gradients = {}
    for estimator in ("k1", "k3"):
        now = statistics(logits_NV.expand(vocabulary, -1), torch.arange(vocabulary))
        kl = ReferenceKl.model_validate({"estimator": estimator, "weight": 1})
        loss = (p_V * kl(now, tokens_of(vocabulary, reference_V))).sum()
        (gradients[estimator],) = torch.autograd.grad(loss, logits_NV)
    torch.testing.assert_close(gradients["k1"], torch.zeros_like(logits_NV), rtol=0, atol=1e-12)
    torch.testing.assert_close(gradients["k3"][0], p_V - reference_V.exp(), rtol=0, atol=1e-12)


def test_k3_is_exact_near_the_reference_in_float32() -> None:
    """exp(d) − d − 1 as written would round to 0 for d = 1e-4, whose value is 5e-9."""
    now = Now(torch.tensor([-1e-4]), torch.zeros(1))
    reference_N = torch.zeros(1)
    found = ReferenceKl(weight=1)(now, tokens_of(1, reference_N))
    assert found.item() == pytest.approx(5e-9, rel=0.05)


def test_k3_stays_finite_however_far_the_reference() -> None:
    """Float32 overflows at a log-ratio of 89."""
    logprob_N = torch.tensor([-200.0, -0.0], requires_grad=True)
    found = ReferenceKl(weight=1)(Now(logprob_N, torch.zeros(2)), tokens_of(2, torch.tensor([0.0, -200.0])))
    found.sum().backward()
    assert found.isfinite().all()
    assert logprob_N.grad is not None
    assert logprob_N.grad.isfinite().all()
    assert found[1].item() == pytest.approx(199)


def test_what_kl_asks_for() -> None:
    assert ReferenceKl.needs_reference
    with pytest.raises(InputError, match="reference_logprob_N"):
        ReferenceKl()(now_of([-1.0]), tokens_of(1))
    with pytest.raises(ValidationError, match="estimator"):
        ReferenceKl.model_validate({"estimator": "k2"})


def test_nothing_is_learned_through_the_reference() -> None:
    reference_N = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    ReferenceKl()(now_of([-2.0]), tokens_of(1, reference_N)).sum().backward()
    assert reference_N.grad is None


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_the_bonus_reaches_the_logits(scale: float) -> None:
    """L12: dH/dz = −p(log p + H), times −coefficient, whatever token was sampled."""
    logits_NV = some_logits(scale=scale)
    rows = len(logits_NV)
    now = statistics(logits_NV, torch.arange(rows))
    loss_N = EntropyBonus(coefficient=0.3)(now, tokens_of(rows))
    loss_N.sum().backward()
    logp_NV = logits_NV.detach().log_softmax(1)
    entropy_N1 = -(logp_NV.exp() * logp_NV).sum(1, keepdim=True)
    torch.testing.assert_close(loss_N.detach(), -0.3 * entropy_N1[:, 0])
    assert logits_NV.grad is not None
    torch.testing.assert_close(logits_NV.grad, 0.3 * logp_NV.exp() * (logp_NV + entropy_N1), rtol=1e-9, atol=1e-12)
    assert logits_NV.grad.abs().max() > 1e-3


def test_a_step_down_the_bonus_raises_entropy() -> None:
    logits_NV = some_logits()
    now = statistics(logits_NV, torch.zeros(len(logits_NV), dtype=torch.int64))
    (gradient_NV,) = torch.autograd.grad(EntropyBonus(coefficient=1)(now, tokens_of(6)).sum(), logits_NV)
    after = statistics(logits_NV.detach() - 0.1 * gradient_NV, torch.zeros(6, dtype=torch.int64))
    assert (after.entropy_N > now.entropy_N).all()


def test_a_coefficient_of_zero_is_off_and_a_negative_one_refused() -> None:
    now = Now(torch.zeros(2), torch.tensor([0.7, 0.0], requires_grad=True))
    assert not EntropyBonus(coefficient=0)(now, tokens_of(2)).any()
    assert EntropyBonus(coefficient=0.5)(now, tokens_of(2)).tolist() == pytest.approx([-0.35, 0])
    with pytest.raises(ValidationError, match="coefficient"):
        EntropyBonus(coefficient=-0.1)
