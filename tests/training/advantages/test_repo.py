"""REPO: the published figures, the identity behind it, and what it does to the entropy of a small policy."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_rows import rows_of

from entropy_lab.training.advantages.repo_d import RepoD
from entropy_lab.training.advantages.repo_r import RepoR

finite = st.floats(-5, 5)
logprobs = st.floats(-40, 0)


def applied(step, advantage, logprob, entropy=None):
    columns = {"old_logprob_N": logprob} | ({} if entropy is None else {"old_entropy_N": entropy})
    tokens = rows_of([0], lengths=[len(logprob)], **columns)
    return step(tokens, torch.tensor(advantage, dtype=torch.float64)).tolist()


def test_published_figures():
    assert applied(RepoR(zeta=0.1), [2, -2, 0], [-3, -3, -3]) == pytest.approx([2.6, -1.4, 0])


@given(st.lists(st.tuples(finite, logprobs), min_size=1, max_size=9), st.floats(-1, 1))
def test_repo_r_by_definition(pairs, zeta):
    advantage, logprob = map(list, zip(*pairs, strict=True))

    def one(a, p):
        p = max(p, -20)
        return max(a * (1 - zeta * p), 0) if a > 0 else min(a * (1 + zeta * p), 0)

    found = applied(RepoR(zeta=zeta), advantage, logprob)
    assert found == pytest.approx([one(*pair) for pair in pairs], abs=1e-12)
    assert all(after * before >= 0 for after, before in zip(found, advantage, strict=True))


@given(st.lists(st.tuples(finite, logprobs, st.floats(0, 6)), min_size=1, max_size=9), st.floats(0, 10))
def test_repo_d_token_by_token(rows, zeta):
    advantage, logprob, entropy = map(list, zip(*rows, strict=True))
    expected = [a * max(1 - zeta * math.exp(p) * (p + h) ** 2, 0) for a, p, h in rows]
    assert applied(RepoD(zeta=zeta), advantage, logprob, entropy) == pytest.approx(expected, abs=1e-9)


def test_repo_d_of_states_by_hand():
    advantage, logprob, entropy = [1.0, -1.0, 0.0], [-0.5, -2.0, -1.0], [0.7, 0.7, 0.7]
    surplus = [0.2, -1.3, -0.3]
    mean = (-0.2 * math.exp(-0.5) + (-1.3) * math.exp(-2.0)) / 3
    expected = [1 + 2 * mean * surplus[0], -1 + 2 * mean * surplus[1], 0]
    found = applied(RepoD(zeta=2, granularity="state"), advantage, logprob, entropy)
    assert found == pytest.approx(expected)
    assert applied(RepoD(zeta=50, granularity="state"), advantage, logprob, entropy)[1] <= 0


def test_what_they_ask_for():
    assert RepoR().needs == RepoD().needs == "tokens"
    assert RepoD(granularity="state").needs == "batch"
    assert applied(RepoD(granularity="state"), [], [], []) == []


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 9))
def test_the_identity(seed, vocabulary):
    """E_π[−(log p − E log p) ∇ log p] = ∇H, summed over the whole vocabulary in float64."""
    logits = torch.randn(vocabulary, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * 2
    logits.requires_grad_()
    logprob_V = logits.log_softmax(0)
    probability_V = logprob_V.exp().detach()
    entropy = -(logprob_V.exp() * logprob_V).sum()
    surplus_V = logprob_V.detach() + entropy.detach()
    weighted = (probability_V * -surplus_V * logprob_V).sum()
    (left,) = torch.autograd.grad(weighted, logits, retain_graph=True)
    (right,) = torch.autograd.grad(entropy, logits)
    assert torch.allclose(left, right, atol=1e-12)


@pytest.mark.parametrize("step", [RepoR(zeta=0.5), RepoD(zeta=1.0)])
def test_an_expected_update_leaves_more_entropy_than_without_it(step):
    """Right and wrong tokens of one position, all of them at their probability: the exact policy gradient."""
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0], dtype=torch.float64)
    logprob_V = logits.log_softmax(0)
    entropy = float(-(logprob_V.exp() * logprob_V).sum())
    right_V = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    advantage_V = right_V - (logprob_V.exp() * right_V).sum()

    def entropy_after(advantage_V):
        z = logits.clone().requires_grad_()
        (logprob_V.exp() * advantage_V * z.log_softmax(0)).sum().backward()
        after_V = (logits + 0.5 * z.grad).log_softmax(0)
        return float(-(after_V.exp() * after_V).sum())

    tokens = rows_of([0], lengths=[4], old_logprob_N=logprob_V.tolist(), old_entropy_N=[entropy] * 4)
    assert entropy_after(step(tokens, advantage_V)) > entropy_after(advantage_V)
