import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.ratio_bias import (
    FORMATS,
    SHIFT,
    clip_decisions,
    expected_bias,
    observed_bias,
    own_gradient,
    round_logits,
    rounded,
    shifted_logprobs,
    spacing,
)

BOUNDS = ((0.2, 0.2), (0.2, 0.28))


@given(
    value=st.floats(-6e4, 6e4) | st.floats(-1e-4, 1e-4),
    form=st.sampled_from(FORMATS),
)
def test_rounding_is_the_cast_of_torch(value, form):
    value = float(np.float32(value))
    assert rounded(value, form) == torch.tensor(value).to(getattr(torch, form)).item()


@pytest.mark.parametrize("form", FORMATS)
def test_spacing_is_the_distance_to_the_next_number(form):
    kind = getattr(torch, form)
    for value in (1.0, 1.5, 4.4, 7.6, 15.5, 20.0, 1e-3, 0.0):
        at = torch.tensor(value).to(kind)
        bits = at.view(torch.int16)
        following = (bits + 1).view(kind)
        assert spacing(value, form) == following.double() - at.double()


@pytest.mark.parametrize(
    ("form", "magnitudes", "bias"),
    [
        ("bfloat16", (4.4, 7.6), 8e-5),
        ("bfloat16", (8.6, 15.5), 3.3e-4),
        ("bfloat16", (19.0, 21.0), 1.3e-3),
        ("float16", (4.0, 7.99), 1.27e-6),
    ],
)
def test_the_bias_at_each_magnitude(form, magnitudes, bias):
    """Definitions §6, by theory and by 10 million ratios drawn at random."""
    low, high = magnitudes
    steps = spacing([low, high], form)
    np.testing.assert_allclose(expected_bias(steps), bias, rtol=0.03)
    np.testing.assert_allclose(expected_bias(steps), steps**2 / 12, rtol=1e-3)
    np.testing.assert_allclose(expected_bias(steps, 3 * steps), (1 + 9) * steps**2 / 24, rtol=1e-2)
    rng = np.random.default_rng(0)
    u, found = steps[0], []
    # Whole steps, so that errors of the old log-prob have mean 0.
    inner_low, inner_high = rounded([low + 0.3 * (high - low), high - 0.3 * (high - low)], form)
    for _ in range(10):
        old = -rng.uniform(inner_low, inner_high, 10**6)
        new = old + rng.normal(0, 0.1, old.size)
        keep = (-new > low) & (-new < high)
        old, new = old[keep], new[keep]
        found.append(observed_bias(new, old, rounded(new, form), rounded(old, form)).mean())
    error = u / math.sqrt(6) / math.sqrt(1e7)  # of the mean of r_obs/r
    assert abs(np.mean(found) - bias) <= max(4.5 * error, 0.03 * bias)
    assert 4.5 * error < 2 * bias


@pytest.mark.parametrize("form", FORMATS)
def test_equal_policies_have_ratio_one_exactly(form):
    logprob = -np.random.default_rng(1).exponential(2, 10_000)
    seen = rounded(logprob, form)
    assert (observed_bias(logprob, logprob, seen, seen) == 0).all()
    for low, high in BOUNDS:
        assert not clip_decisions(seen - seen, low, high).any()


def test_rounding_raises_the_upper_clip_rate():
    """Where the ratio's density falls, noise of ±u carries more ratios over the bound than back."""
    rng = np.random.default_rng(2)
    old = -rng.uniform(8.6, 15.0, 1_000_000)
    new = old + rng.normal(0, 0.06, old.size)
    exact = clip_decisions(new - old, 0.2, 0.28)
    seen = clip_decisions(rounded(new, "bfloat16") - rounded(old, "bfloat16"), 0.2, 0.28)
    assert (seen == 1).mean() > 1.5 * (exact == 1).mean() > 0
    fine = clip_decisions(rounded(new, "float16") - rounded(old, "float16"), 0.2, 0.28)
    assert 0 < (fine != exact).mean() < 0.2 * (seen != exact).mean()


def test_clip_decisions_follow_the_bounds():
    ratios = np.array([0.5, 0.79, 0.81, 1.0, 1.19, 1.21, 1.27, 1.29, 5.0])
    assert clip_decisions(np.log(ratios), 0.2, 0.2).tolist() == [-1, -1, 0, 0, 0, 1, 1, 1, 1]
    assert clip_decisions(np.log(ratios), 0.2, 0.28).tolist() == [-1, -1, 0, 0, 0, 0, 0, 1, 1]


def test_drawn_policies_shift_one_logit():
    """Against the softmax itself: the sampled token's logit plus δ, all others as they were."""
    logprob = np.log([1e-8, 0.02, 0.5, 0.98, 1 - 1e-9, 1.0])
    drawn = shifted_logprobs(logprob, 5, seed=3)
    shift = SHIFT * np.random.default_rng(3).standard_normal((6, 5))
    p = np.exp(logprob)[:, None]
    expected = p * np.exp(shift) / (p * np.exp(shift) + 1 - p)
    np.testing.assert_allclose(np.exp(drawn), expected, rtol=1e-12)
    assert (drawn <= 0).all()
    assert (shifted_logprobs(logprob, 5, seed=3) == drawn).all()
    assert (shifted_logprobs(logprob, 5, seed=4) != drawn).any()


@pytest.mark.parametrize("form", FORMATS)
def test_cast_logits_are_those_of_torch(form):
    generator = torch.Generator().manual_seed(5)
    logits = torch.randn(50, 300, generator=generator) * 6 + 3
    targets = torch.randint(0, 300, (50,), generator=generator)
    found = round_logits(logits.numpy(), targets.numpy(), form)
    expected = logits.to(getattr(torch, form)).double().log_softmax(1).gather(1, targets[:, None])[:, 0]
    np.testing.assert_allclose(found.logprob_N, expected.numpy(), rtol=1e-12, atol=1e-12)


def test_the_bias_of_logits_around_twenty():
    """Definitions §6: |z| ≈ 20 cast to bfloat16 costs 1.3e-3, for unlikely tokens of a broad distribution."""
    rng = np.random.default_rng(6)
    logits = 20 + rng.normal(0, 1, (400, 500))
    targets = rng.integers(0, 500, 400)
    old = round_logits(logits, targets, "bfloat16")
    near = np.abs(logits[np.arange(400), targets] - 20) < 3
    assert np.median(old.expected_bias_N[near]) == pytest.approx(1.3e-3, rel=0.03)
    biases = []
    for _ in range(60):
        moved = logits + rng.normal(0, 0.3, logits.shape)
        exact = [torch.from_numpy(z).log_softmax(1).numpy()[np.arange(400), targets] for z in (moved, logits)]
        new = round_logits(moved, targets, "bfloat16")
        biases.append(observed_bias(*exact, new.logprob_N, old.logprob_N).mean())
    found, error = np.mean(biases), np.std(biases) / math.sqrt(60)
    # The same old errors stand in every draw: e^(−error of old) averages over 400 targets only.
    assert abs(found - old.expected_bias_N.mean()) <= 4 * error + 4 * 0.125 / math.sqrt(12 * 400)


def test_a_certain_tokens_own_gradient_is_lost():
    assert own_gradient([-1e-9, -2.9e-8, 0.0]).tolist() == [0, 0, 0]
    assert own_gradient([-1.1e-7])[0] == np.float32(2**-23)
    assert own_gradient([math.log(0.25)])[0] == pytest.approx(0.75)
