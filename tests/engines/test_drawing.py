"""Drawing and step statistics against float64, torch.distributions and brute force."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from entropy_lab.engines import drawing
from entropy_lab.engines.drawing import BLOCK, draw


def logits(rows: int, columns: int, scale: float = 3.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return scale * torch.randn(rows, columns, generator=torch.Generator().manual_seed(0), dtype=dtype)


def uniform(rows: int) -> torch.Tensor:
    return torch.rand(rows, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("columns", [1, 5, BLOCK, 2 * BLOCK + 1, 50_000])
@pytest.mark.parametrize("offset", [0.0, 1000.0, -1000.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.7])
def test_statistics_equal_float64(columns: int, offset: float, temperature: float) -> None:
    """L2, L11: one temperature on both sides; a shift of the logits changes nothing, and no log-prob is above 0."""
    z = logits(3, columns) + offset
    found = draw(z, uniform(3), temperature)
    exact = torch.distributions.Categorical(logits=z.double() / temperature)
    varentropy = (exact.probs * (exact.logits + exact.entropy()[:, None]) ** 2).sum(1)
    assert torch.allclose(found.entropy_R.double(), exact.entropy(), atol=3e-6, rtol=0)
    assert torch.allclose(found.varentropy_R.double(), varentropy, atol=2e-5, rtol=0)
    assert torch.allclose(found.logprob_R.double(), exact.log_prob(found.token_R), atol=3e-6, rtol=0)
    assert torch.equal(found.logprob_R, found.logprobs_R)
    assert (found.logprob_R <= 0).all()


def test_masked_head_rows_give_finite_statistics() -> None:
    """L1: −inf logits are probability 0, not NaN, and are never drawn."""
    z = logits(64, 700)
    z[:, 3:650] = -torch.inf
    found = draw(z, uniform(64), certainty=True)
    exact = torch.distributions.Categorical(logits=z[:, [0, 1, 2, *range(650, 700)]].double())
    assert torch.allclose(found.entropy_R.double(), exact.entropy(), atol=3e-6)
    assert not ((found.token_R >= 3) & (found.token_R < 650)).any()
    assert torch.isfinite(torch.stack(found[1:6])).all()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_broken_logits_show_in_their_own_row(bad: float) -> None:
    z = logits(4, 600)
    z[1, 300] = bad
    z[2] = -torch.inf
    assert torch.isnan(draw(z, uniform(4)).entropy_R).tolist() == [False, True, True, False]


@given(st.integers(1, 1500), st.integers(0, 2**32 - 1), st.floats(0, 1, exclude_max=True))
@settings(max_examples=60, deadline=None)
def test_draw_inverts_the_cumulative_distribution(columns: int, seed: int, u: float) -> None:
    """The token is the one whose stretch of the cumulative distribution holds u, to the rounding of a sum."""
    z = 4 * torch.randn(1, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    token = int(draw(z, torch.tensor([u], dtype=torch.float64)).token_R)
    cumulative = np.concatenate([[0], np.cumsum(z[0].softmax(0).numpy())])
    assert cumulative[token] - 1e-12 <= u <= cumulative[token + 1] + 1e-12


@pytest.mark.parametrize("u", [0.0, 0.5, 1 - 2.0**-53])
@pytest.mark.parametrize("only", [0, 255, 256, 699])
def test_extreme_uniforms_never_draw_an_impossible_token(u: float, only: int) -> None:
    z = torch.full((1, 700), -torch.inf)
    z[0, only] = 2.0
    found = draw(z, torch.tensor([u], dtype=torch.float64))
    assert found.token_R.tolist() == [only]
    assert found.entropy_R.tolist() == [0.0]


def test_frequencies_follow_the_softmax() -> None:
    rows = 20_000
    z = logits(1, 300, scale=1.0).expand(rows, -1)
    token = draw(z, uniform(rows), temperature=0.8).token_R
    expected = (z[0].double() / 0.8).softmax(0).numpy() * rows
    assert stats.chisquare(np.bincount(token, minlength=300), expected).pvalue > 1e-3


@pytest.mark.parametrize(("top_k", "top_p"), [(1, 1.0), (7, 1.0), (0, 0.6), (40, 0.5), (10_000, 1.0), (0, 1e-9)])
def test_truncation_draws_from_the_renormalised_rest(top_k: int, top_p: float) -> None:
    """Log-probs are the sampler's own after truncation; the statistics stay those of the full vocabulary."""
    rows = 4000
    z = logits(1, 600, scale=2.0)
    p = z[0].double().softmax(0).numpy()
    order = np.argsort(-p, kind="stable")[: top_k or None]
    before = np.cumsum(p[order]) - p[order]
    kept = order[before < top_p * p[order].sum()]
    q = p[kept] / p[kept].sum()
    found = draw(z.expand(rows, -1), uniform(rows), 1.0, top_k, top_p)
    assert set(found.token_R.tolist()) <= set(kept.tolist())
    chosen = {token: float(share) for token, share in zip(kept, np.log(q), strict=True)}
    assert found.logprobs_R.tolist() == pytest.approx([chosen[token] for token in found.token_R.tolist()], abs=1e-5)
    full = draw(z.expand(rows, -1), uniform(rows))
    assert torch.equal(found.entropy_R, full.entropy_R)
    assert found.logprob_R.tolist() == pytest.approx(np.log(p[found.token_R.numpy()]).tolist(), abs=1e-5)


def test_top_k_breaks_ties_towards_the_smaller_id() -> None:
    found = draw(torch.zeros(500, 900), uniform(500), 1.0, 3)
    assert set(found.token_R.tolist()) == {0, 1, 2}


def test_greedy_takes_the_first_of_the_largest_and_reports_temperature_one() -> None:
    z = logits(5, 400)
    z[0, [17, 30]] = 100.0
    found = draw(z, uniform(5), temperature=0.0)
    assert found.token_R.tolist() == z.argmax(1).tolist()
    assert found.token_R[0] == 17
    assert found.logprobs_R.tolist() == [0.0] * 5
    assert torch.equal(found.entropy_R, draw(z, uniform(5)).entropy_R)


def test_a_tile_of_one_row_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    z = logits(9, 1000)
    whole = draw(z, uniform(9), certainty=True, twin_uniform_R=1 - uniform(9))
    monkeypatch.setattr(drawing, "CACHE_BYTES", 1)
    parts = draw(z, uniform(9), certainty=True, twin_uniform_R=1 - uniform(9))
    assert all(torch.equal(a, b) for a, b in zip(whole, parts, strict=True))
