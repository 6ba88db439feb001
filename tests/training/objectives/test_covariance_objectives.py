"""KL-Cov and Clip-Cov: which tokens they mark, once for a whole batch, and what becomes of those."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from packed_columns import now_of, tokens_of

from entropy_lab.training.covariance import covariance
from entropy_lab.training.objectives.clip_cov import ClipCov
from entropy_lab.training.objectives.clipped import Clipped
from entropy_lab.training.objectives.kl_cov import KlCov

A = torch.tensor([1.0, 1, 1, -1, -1, -1], dtype=torch.float64)
LOGP = torch.tensor([-0.01, -0.5, -3, -0.02, -1, -4], dtype=torch.float64)
MARKED = tokens_of([6], old_logprob_N=LOGP)


def with_mark(objective, tokens, advantage_N):
    return replace(tokens, mark_N=objective.mark(tokens, advantage_N))


def test_published_covariances():
    expected = [1.412, 0.922, -1.578, -1.402, -0.422, 2.578]
    assert covariance(A, LOGP).tolist() == pytest.approx(expected, abs=5e-4)
    assert covariance(A[:0], LOGP[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("share", "marked"), [(2e-4, [5]), (0.34, [0, 5]), (0.5, [0, 1, 5]), (1.0, [0, 1, 2, 3, 4, 5])]
)
def test_kl_cov_marks_the_top_fraction(share, marked):
    assert torch.nonzero(KlCov(share=share).mark(MARKED, A))[:, 0].tolist() == marked


def test_kl_cov_pulls_the_marked_back_and_clips_nothing():
    objective = KlCov(share=0.34, beta=0.5)
    tokens = with_mark(objective, MARKED, A)
    change = torch.tensor([0.3, 0.9, -0.9, 0.2, -0.1, -0.4], dtype=torch.float64)
    now = now_of(LOGP + change)
    found = objective(now, tokens, A)
    held = torch.tensor([1.0, 0, 0, 0, 0, 1], dtype=torch.float64)
    assert torch.allclose(found.loss_N, -A * change.exp() + 0.5 * held * change.abs())
    assert found.low_N is None
    found.loss_N.sum().backward()
    assert torch.allclose(now.logprob_N.grad, -A * change.exp() + 0.5 * held * change.sign())


def test_at_equal_weights_kl_cov_is_the_plain_policy_gradient():
    objective = KlCov()
    now = now_of(LOGP)
    objective(now, with_mark(objective, MARKED, A), A).loss_N.sum().backward()
    assert torch.allclose(now.logprob_N.grad, -A)


def test_clip_cov_leaves_out_candidates_only():
    assert torch.nonzero(ClipCov(share=1).mark(MARKED, A))[:, 0].tolist() == [0, 5]  # 1 < cov < 5
    assert torch.nonzero(ClipCov(share=1, highest=2.5).mark(MARKED, A))[:, 0].tolist() == [0]
    assert ClipCov().mark(MARKED, A).sum() == 1
    assert not ClipCov(lowest=4.0).mark(MARKED, A).any()


@given(st.integers(1, 400), st.integers(0, 99))
def test_how_many_clip_cov_leaves_out(count, seed):
    generator = torch.Generator().manual_seed(seed)
    logprob_N = -10 * torch.rand(count, generator=generator, dtype=torch.float64)
    advantage_N = torch.randn(count, generator=generator, dtype=torch.float64)
    tokens = tokens_of([count], old_logprob_N=logprob_N)
    objective = ClipCov(share=0.05)
    mark_N = objective.mark(tokens, advantage_N)
    cov_N = covariance(advantage_N, logprob_N)
    candidates = int(((cov_N > 1) & (cov_N < 5)).sum())
    assert mark_N.sum() == min(candidates, max(1, math.floor(0.05 * count + 1e-9)))
    assert ((cov_N > 1) & (cov_N < 5))[mark_N.bool()].all()
    assert torch.equal(mark_N, objective.mark(tokens, advantage_N))  # a repeated iteration draws the same


def test_the_draw_is_the_batch_s_own():
    """Different batches leave out different places, so that no position is always spared."""
    found = set()
    for shift in range(20):
        tokens = tokens_of([6], old_logprob_N=LOGP - shift / 7)
        found.add(int(ClipCov().mark(tokens, A).argmax()))
    assert found == {0, 5}


def test_clip_cov_is_the_clipped_surrogate_elsewhere():
    objective = ClipCov(share=1)
    tokens = with_mark(objective, MARKED, A)
    change = torch.tensor([0.5, 0.5, -0.5, -0.5, -0.1, -0.5], dtype=torch.float64)
    now, plain_now = now_of(LOGP + change), now_of(LOGP + change)
    found, plain = objective(now, tokens, A), Clipped()(plain_now, tokens, A)
    found.loss_N.sum().backward()
    plain.loss_N.sum().backward()
    spared = torch.tensor([0, 5])
    kept = torch.tensor([1, 2, 3, 4])
    assert not now.logprob_N.grad[spared].any()
    assert torch.equal(now.logprob_N.grad[kept], plain_now.logprob_N.grad[kept])
    assert found.high_N.tolist() == [False, True, False, False, False, False]
    assert found.low_N.tolist() == [False, False, False, True, False, False]
