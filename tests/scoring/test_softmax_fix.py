"""The softmax-gradient fix against float64: what a nearly certain target loses in float32, and what the fix gives."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.token_statistics import logits_by_definition, statistics_by_definition
from torch import Tensor

from entropy_lab.scoring import tiles as tiles_module
from entropy_lab.scoring import token_statistics

MAPS = [
    {},
    {"temperature": 0.6},
    {"scale": 0.25, "temperature": 1.5},
    {"soft_cap": 30.0, "scale": 1.7, "temperature": 0.8},
]
REST = 1.1e-7


@pytest.fixture(params=[5, 1024], ids=["many-tiles", "one-tile"])
def tile_side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(tiles_module, "_CPU_SIDE", request.param)
    return request.param


def sharp_inputs(tokens: int = 12, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Float32 states, head, bias and targets; in turn a target is nearly certain, likely, or any."""
    generator = torch.Generator().manual_seed(seed)
    weight_VH = torch.randn(40, 32, generator=generator)
    bias_V = torch.randn(40, generator=generator)
    targets_N = torch.randint(0, 40, (tokens,), generator=generator)
    aligned_NH = weight_VH[targets_N] / weight_VH[targets_N].square().sum(1, keepdim=True)
    size_N1 = torch.tensor([30.0, 8.0, 0.0])[torch.arange(tokens) % 3, None]
    hidden_NH = size_N1 * aligned_NH + 0.1 * torch.randn(tokens, 32, generator=generator)
    return hidden_NH, weight_VH, bias_V, targets_N


def gradients(leaves: tuple[Tensor, ...], targets: Tensor, by: tuple[Tensor, ...], **options) -> tuple[Tensor, ...]:
    """Of Σ by·statistic, through the kernel."""
    hidden, weight, bias = (leaf.detach().requires_grad_() for leaf in leaves)
    found = token_statistics(hidden, weight, targets, bias=bias, **options)
    loss = sum((share * column).sum() for share, column in zip(by, found, strict=True))
    return torch.autograd.grad(loss, (hidden, weight, bias))


def exact_gradients(leaves: tuple[Tensor, ...], targets: Tensor, by: tuple[Tensor, ...], **options):
    """The same by the definition, in float64."""
    hidden, weight, bias = (leaf.detach().double().requires_grad_() for leaf in leaves)
    found = statistics_by_definition(logits_by_definition(hidden, weight, bias=bias, **options), targets)
    loss = sum((share.double() * column).sum() for share, column in zip(by, found, strict=True))
    return torch.autograd.grad(loss, (hidden, weight, bias))


def certain(vocabulary: int, temperature: float = 1.0) -> Tensor:
    """Logits (V, 1) of one token whose id 7 has p = 1 − 1.1e-7, the rest spread evenly: a head for hidden state 1."""
    logits = torch.full((vocabulary, 1), math.log(REST / (vocabulary - 1)) * temperature)
    logits[7] = 0.0
    return logits


@pytest.mark.parametrize(("side", "own"), [(64, 0.0), (1024, 2**-23)], ids=["many-tiles", "one-tile"])
@pytest.mark.parametrize("vocabulary", [50_000, 150_000])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_gradient_that_float32_loses(
    side: int, own: float, vocabulary: int, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Definitions §6: own gradient exactly 0 (or one step of float32), the others −1.1e-7; the fix brings them to 0."""
    monkeypatch.setattr(tiles_module, "_CPU_SIDE", side)
    weight = certain(vocabulary, temperature)
    target = torch.tensor([7])
    exact = -torch.expm1(statistics_by_definition(weight.double().T / temperature, target).logprob)
    assert exact.item() == pytest.approx(REST, rel=1e-4)
    others = torch.arange(vocabulary) != 7

    def logit_gradient(softmax_fix: bool) -> Tensor:
        head = weight.clone().requires_grad_()
        found = token_statistics(torch.ones(1, 1), head, target, temperature=temperature, softmax_fix=softmax_fix)
        (gradient,) = torch.autograd.grad(found.logprob_N.sum(), head)
        return gradient.double().squeeze(1) * temperature

    lost = logit_gradient(softmax_fix=False)
    assert lost[7] == own
    assert lost[others].sum().item() == pytest.approx(-REST, rel=1e-4)
    fixed = logit_gradient(softmax_fix=True)
    assert fixed[7].item() == pytest.approx(exact.item(), rel=2e-5)  # all others share one rounding of their logit
    assert abs(fixed.sum().item()) <= 1e-6 * REST
    assert torch.equal(fixed[others], lost[others])


@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("options", MAPS)
def test_equals_float64_through_scale_bias_cap_and_temperature(options: dict[str, float]) -> None:
    """Row by row, so that a certain token's tiny gradient is compared with its own size and not with a large one's."""
    hidden, weight, bias, targets = sharp_inputs()
    hidden = hidden * (options.get("temperature", 1.0) / options.get("scale", 1.0))  # equally sharp in all cases
    sizes = []
    for row in range(len(targets)):
        leaves, target = (hidden[row : row + 1], weight, bias), targets[row : row + 1]
        by = (torch.ones(1), torch.zeros(1), torch.zeros(1))
        expected = exact_gradients(leaves, target, by, **options)
        found = gradients(leaves, target, by, softmax_fix=True, **options)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=2e-5 * float(theirs.abs().max()))
        sizes.append(float(expected[2].abs().max()))
    assert min(sizes) < 2e-7
    assert max(sizes) > 0.5


@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("options", MAPS)
def test_all_statistics_of_many_tokens_equal_float64(options: dict[str, float]) -> None:
    """Log-prob, entropy and varentropy together; several tokens share a target."""
    *leaves, targets = sharp_inputs(tokens=17, seed=3)
    targets[4] = targets[0]
    by = tuple(torch.randn(17, generator=torch.Generator().manual_seed(place)) for place in range(3))
    expected = exact_gradients(tuple(leaves), targets, by, **options)
    found = gradients(tuple(leaves), targets, by, softmax_fix=True, **options)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=2e-4, atol=2e-5 * float(theirs.abs().max()))


@settings(max_examples=30, deadline=None)
@given(
    tokens=st.integers(0, 9),
    vocabulary=st.integers(1, 30),
    side=st.integers(1, 12),
    size=st.floats(0.1, 30),
    seed=st.integers(0, 2**31),
)
def test_a_certain_rows_logit_gradients_sum_to_zero(
    tokens: int, vocabulary: int, side: int, size: float, seed: int
) -> None:
    """With an identity head a row of the hidden gradient is the logit gradient; tokens that are not top keep theirs."""
    generator = torch.Generator().manual_seed(seed)
    logits = (torch.randn(tokens, vocabulary, generator=generator) * size).requires_grad_()
    targets = torch.randint(0, vocabulary, (tokens,), generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles_module, "_CPU_SIDE", side)
        rows = []
        for softmax_fix in (False, True):
            found = token_statistics(logits, torch.eye(vocabulary), targets, softmax_fix=softmax_fix)
            (gradient,) = torch.autograd.grad(found.logprob_N.sum(), logits)
            rows.append(gradient)
    plain, fixed = rows
    likely_N = logits.double().softmax(1).gather(1, targets[:, None])[:, 0] > 0.5
    assert torch.equal(fixed[~likely_N], plain[~likely_N])
    total_N = fixed.double().sum(1)[likely_N].abs()
    assert (total_N <= 1e-6 * fixed.double().abs().sum(1)[likely_N]).all()
    kept = torch.ones_like(fixed, dtype=torch.bool).scatter_(1, targets[:, None], False)
    assert torch.equal(fixed[kept], plain[kept])


def test_only_wanted_gradients_and_half_precision_keep_their_type() -> None:
    hidden, weight, _, targets = sharp_inputs()
    weight = weight.bfloat16().requires_grad_()
    token_statistics(hidden.bfloat16(), weight, targets, softmax_fix=True).logprob_N.sum().backward()
    assert weight.grad is not None
    assert weight.grad.dtype == torch.bfloat16
    exact = weight.detach().double().requires_grad_()
    logits = logits_by_definition(hidden.bfloat16(), exact)
    statistics_by_definition(logits, targets).logprob.sum().backward()
    assert exact.grad is not None
    assert (weight.grad - exact.grad).abs().max() <= torch.finfo(torch.bfloat16).eps * exact.grad.abs().max()


def test_the_values_are_those_without_the_fix() -> None:
    hidden, weight, bias, targets = sharp_inputs()
    plain = token_statistics(hidden, weight, targets, bias=bias)
    fixed = token_statistics(hidden, weight, targets, bias=bias, softmax_fix=True)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(fixed, plain, strict=True))


def test_a_masked_target_keeps_its_gradient() -> None:
    """A target of probability 0 is no top token: nothing is corrected, and nothing becomes NaN."""
    *leaves, targets = sharp_inputs()
    leaves[2][targets[2]] = -torch.inf
    by = (torch.zeros(12), torch.ones(12), torch.ones(12))
    for one in gradients(tuple(leaves), targets, by, softmax_fix=True):
        assert one.isfinite().all()
