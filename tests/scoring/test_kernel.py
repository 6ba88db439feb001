import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.token_statistics import logits_by_definition, statistics_by_definition
from torch import Tensor

from entropy_lab.errors import InputError
from entropy_lab.scoring import NonFiniteLogits, statistics_from_logits, token_statistics
from entropy_lab.scoring import tiles as tiles_module
from entropy_lab.scoring.kernel import full_statistics
from entropy_lab.scoring.tiles import tile_shape

MAPS = [
    {},
    {"temperature": 0.6},
    {"scale": 0.25, "temperature": 1.5},
    {"soft_cap": 2.0, "scale": 1.7, "temperature": 0.8},
]


@pytest.fixture(params=[3, 1024], ids=["many-tiles", "one-tile"])
def tile_side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Side of a tile: 3 makes every small test cross tile borders in both directions."""
    monkeypatch.setattr(tiles_module, "_CPU_SIDE", request.param)
    return request.param


def inputs(
    tokens: int = 7, hidden: int = 5, vocabulary: int = 11, dtype: torch.dtype = torch.float64, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    hidden_NH = torch.randn(tokens, hidden, generator=generator, dtype=torch.float64).to(dtype)
    weight_VH = torch.randn(vocabulary, hidden, generator=generator, dtype=torch.float64).to(dtype)
    bias_V = torch.randn(vocabulary, generator=generator, dtype=torch.float64).to(dtype)
    return hidden_NH, weight_VH, bias_V, torch.randint(0, vocabulary, (tokens,), generator=generator)


def assert_close(found: tuple[Tensor, ...], expected: tuple[Tensor, ...], tolerance: float) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("options", MAPS)
def test_equals_the_definition_through_scale_bias_cap_and_temperature(options: dict[str, float]) -> None:
    """L2, L4, L10: one distribution, softmax(cap(scale·r + bias)/T), in this order, over the full vocabulary."""
    hidden, weight, bias, targets = inputs()
    found = token_statistics(hidden, weight, targets, bias=bias, **options)
    assert found.entropy_N.dtype == torch.float64
    assert_close(
        found, statistics_by_definition(logits_by_definition(hidden, weight, bias=bias, **options), targets), 1e-12
    )


@settings(max_examples=40, deadline=None)
@given(
    tokens=st.integers(0, 9),
    vocabulary=st.integers(1, 30),
    side=st.integers(1, 12),
    temperature=st.floats(0.2, 5),
    seed=st.integers(0, 2**31),
)
def test_any_tiling_gives_the_same_statistics(
    tokens: int, vocabulary: int, side: int, temperature: float, seed: int
) -> None:
    """L5: the tile bounds memory and changes nothing else."""
    hidden, weight, bias, targets = inputs(tokens, 4, vocabulary, torch.float32, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiles_module, "_CPU_SIDE", side)
        found = token_statistics(hidden, weight, targets, bias=bias, temperature=temperature)
    logits = logits_by_definition(hidden, weight, bias=bias, temperature=temperature)
    assert_close(found, statistics_by_definition(logits, targets), 2e-5)


@pytest.mark.usefixtures("tile_side")
def test_equals_categorical_with_masked_ids() -> None:
    """L1: −inf logits have probability 0; values and gradients stay finite and equal those of the rest alone."""
    hidden, weight, bias, _ = inputs()
    bias[[0, 4, 10]] = -torch.inf
    targets = torch.tensor([1, 2, 3, 5, 6, 7, 9])
    hidden.requires_grad_()
    found = token_statistics(hidden, weight, targets, bias=bias)
    kept = bias.isfinite()
    peer = torch.distributions.Categorical(logits=hidden @ weight[kept].T + bias[kept])
    position = (kept.cumsum(0) - 1)[targets]
    torch.testing.assert_close(found.entropy_N, peer.entropy())
    torch.testing.assert_close(found.logprob_N, peer.log_prob(position))
    (ours,) = torch.autograd.grad(sum(column.sum() for column in found), hidden)
    reference = statistics_by_definition(hidden @ weight[kept].T + bias[kept], position)
    (theirs,) = torch.autograd.grad(sum(column.sum() for column in reference), hidden)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.usefixtures("tile_side")
def test_a_masked_target_has_logprob_minus_infinity_and_finite_entropy() -> None:
    hidden, weight, bias, targets = inputs(dtype=torch.float32)
    bias[targets[2]] = -torch.inf
    found = token_statistics(hidden, weight, targets, bias=bias)
    assert found.logprob_N[2] == -torch.inf
    assert found.entropy_N.isfinite().all()
    assert found.varentropy_N.isfinite().all()


@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("options", MAPS)
def test_gradients_are_those_of_the_definition(options: dict[str, float]) -> None:
    """L12: gradients of all three outputs reach hidden, weight and bias."""
    hidden, weight, bias, targets = inputs(tokens=4, vocabulary=7)

    def run(hidden: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, ...]:
        return tuple(token_statistics(hidden, weight, targets[:4], bias=bias, **options))

    leaves = tuple(tensor.requires_grad_() for tensor in (hidden, weight, bias))
    assert torch.autograd.gradcheck(run, leaves)


def test_entropy_gradient_is_minus_p_logp_plus_h() -> None:
    """L12: with an identity head the gradient of H by the hidden state is −p(log p + H)."""
    logits = torch.tensor([[2.0, -1.0, 0.5, 0.0]], requires_grad=True)
    entropy = token_statistics(logits, torch.eye(4), torch.tensor([0])).entropy_N
    entropy.sum().backward()
    logp = logits.detach().log_softmax(-1)
    torch.testing.assert_close(logits.grad, -logp.exp() * (logp + entropy.detach()))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gradients_keep_the_type_and_sum_in_float32(
    dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles_module, "_CPU_SIDE", 4)
    hidden, weight, bias, targets = inputs(64, 16, 33, dtype)
    leaves = [tensor.requires_grad_() for tensor in (hidden, weight, bias)]
    token_statistics(hidden, weight, targets, bias=bias).entropy_N.sum().backward()
    exact = [tensor.detach().double().requires_grad_() for tensor in leaves]
    logits = logits_by_definition(exact[0], exact[1], bias=exact[2])
    statistics_by_definition(logits, targets).entropy.sum().backward()
    for ours, theirs in zip(leaves, exact, strict=True):
        assert ours.grad is not None
        assert theirs.grad is not None
        assert ours.grad.dtype == dtype
        scale = theirs.grad.abs().max()
        assert (ours.grad - theirs.grad).abs().max() <= torch.finfo(dtype).eps * scale


def test_only_wanted_gradients_are_computed() -> None:
    hidden, weight, _, targets = inputs()
    weight.requires_grad_()
    token_statistics(hidden, weight, targets).logprob_N.sum().backward()
    assert weight.grad is not None
    assert hidden.grad is None


@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("offset", [-1000.0, 0.0, 1000.0])
def test_shifting_all_logits_changes_nothing(offset: float) -> None:
    """L11: all-negative and huge logits alike; a log-prob never exceeds 0."""
    generator = torch.Generator().manual_seed(1)
    # Steps of 2⁻⁸ survive the offset exactly, so any difference is the method's.
    logits = (torch.randn(6, 500, generator=generator) * 3 * 256).round() / 256
    targets = logits.argmax(1)
    found = statistics_from_logits(logits + offset, targets)
    assert_close(found, statistics_by_definition(logits, targets), 3e-6)
    assert (found.logprob_N <= 0).all()


def test_error_at_sigma_three_over_a_large_vocabulary() -> None:
    """Definitions §1: the shifted form is exact to about 1e-6 at σ = 3, against float64 of the same logits."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(8, 151_936, generator=generator) * 3
    targets = torch.randint(0, 151_936, (8,), generator=generator)
    found, exact = statistics_from_logits(logits, targets), statistics_by_definition(logits, targets)
    assert (found.entropy_N - exact.entropy).abs().max() <= 3e-6
    assert (found.logprob_N - exact.logprob).abs().max() <= 3e-6
    assert (found.varentropy_N - exact.varentropy).abs().max() <= 3e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_products_are_kept_in_float32(dtype: torch.dtype) -> None:
    """Definitions §1: rounding finished logits to bfloat16 costs 0.04 nats at σ = 3; the product costs nothing."""
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(6, 64, generator=generator).to(dtype)
    weight = (torch.randn(5000, 64, generator=generator) * 3 / 8).to(dtype)
    targets = torch.randint(0, 5000, (6,), generator=generator)
    found = token_statistics(hidden, weight, targets)
    assert found.entropy_N.dtype == torch.float32
    assert_close(found, statistics_by_definition(logits_by_definition(hidden, weight), targets), 1e-5)


def test_autocast_does_not_lower_the_precision() -> None:
    hidden, weight, _, targets = inputs(dtype=torch.float32)
    weight.requires_grad_()
    plain = token_statistics(hidden, weight, targets)
    (plain_grad,) = torch.autograd.grad(plain.entropy_N.sum(), weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = token_statistics(hidden, weight, targets)
        (grad,) = torch.autograd.grad(found.entropy_N.sum(), weight)
    assert torch.equal(found.entropy_N, plain.entropy_N)
    assert torch.equal(grad, plain_grad)


def test_closed_forms() -> None:
    """Uniform over V: H = log V, varentropy 0. Two outcomes: varentropy p·q·log²(p/q)."""
    uniform = statistics_from_logits(torch.zeros(1, 1000), torch.tensor([3]))
    assert uniform.entropy_N.item() == pytest.approx(math.log(1000), abs=1e-6)
    assert uniform.varentropy_N.item() == pytest.approx(0, abs=1e-6)
    p = 0.9
    two = statistics_from_logits(torch.tensor([[math.log(p), math.log(1 - p)]]), torch.tensor([0]))
    assert two.varentropy_N.item() == pytest.approx(p * (1 - p) * math.log(p / (1 - p)) ** 2, abs=1e-6)


def test_temperature_divides_logits_not_logprobs() -> None:
    """L2: (log p)/T is not the log-prob at T; statistics of logits and of hidden states agree on the same T."""
    hidden, weight, _, targets = inputs(dtype=torch.float32)
    found = token_statistics(hidden, weight, targets, temperature=0.5)
    assert_close(statistics_from_logits(hidden @ weight.T, targets, 0.5), tuple(x.double() for x in found), 1e-5)
    assert (found.logprob_N - token_statistics(hidden, weight, targets).logprob_N / 0.5).abs().max() > 0.1


@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_nan_and_infinity_name_the_row(bad: float) -> None:
    """L1: a broken row is an error with its index, whichever tile it is in, never a number."""
    logits = torch.randn(8, 10, generator=torch.Generator().manual_seed(4))
    logits[5, 9] = bad
    with pytest.raises(NonFiniteLogits, match="NaN or \\+inf") as caught:
        statistics_from_logits(logits, torch.zeros(8, dtype=torch.long))
    assert caught.value.row == 5
    hidden, weight, _, targets = inputs()
    hidden[3, 0] = bad
    with pytest.raises(NonFiniteLogits) as caught:
        token_statistics(hidden, weight, targets)
    assert caught.value.row == 3


@pytest.mark.usefixtures("tile_side")
def test_a_row_with_no_finite_logit_is_an_error() -> None:
    logits = torch.zeros(5, 7)
    logits[4] = -torch.inf
    with pytest.raises(NonFiniteLogits, match="every logit is -inf") as caught:
        statistics_from_logits(logits, torch.zeros(5, dtype=torch.long))
    assert caught.value.row == 4


@pytest.mark.usefixtures("tile_side")
def test_the_lowest_finite_number_as_a_mask() -> None:
    """Code elsewhere masks with the lowest finite number instead of −inf; a whole tile of it is no exception."""
    logits = torch.full((2, 9), torch.finfo(torch.float32).min)
    logits[:, 7] = torch.tensor([5.0, -5.0])
    found = statistics_from_logits(logits, torch.tensor([7, 7]))
    assert found.entropy_N.tolist() == [0, 0]
    assert found.logprob_N.tolist() == [0, 0]


@pytest.mark.usefixtures("tile_side")
def test_unused_rows_are_reported_and_can_be_dropped() -> None:
    """Definitions §1: head rows beyond the tokenizer stay in the distribution unless masked; their mass is known."""
    hidden, weight, bias, targets = inputs()
    targets = targets.clamp(max=7)
    p = logits_by_definition(hidden, weight, bias=bias, temperature=0.7).softmax(-1)
    found = full_statistics(hidden, weight, targets, bias=bias, temperature=0.7, tokenizer_size=8)
    torch.testing.assert_close(found.unused_mass_N, p[:, 8:].sum(1))
    assert_close(found[:3], token_statistics(hidden, weight, targets, bias=bias, temperature=0.7), 1e-12)
    masked = full_statistics(
        hidden, weight, targets, bias=bias, temperature=0.7, tokenizer_size=8, mask_unused=True, alternatives=11
    )
    assert_close(
        masked[:3], token_statistics(hidden, weight[:8], targets, bias=bias[:8], temperature=0.7), 1e-12
    )  # fmt: skip
    assert masked.unused_mass_N.tolist() == [0] * 7
    assert masked.alternative_ids_Nm.max() < 8
    targets[0] = 9
    outside = full_statistics(hidden, weight, targets, tokenizer_size=8, mask_unused=True)
    assert outside.logprob_N[0] == -torch.inf


@pytest.mark.usefixtures("tile_side")
def test_alternatives_are_the_most_probable_ids() -> None:
    hidden, weight, _, targets = inputs()
    expected = logits_by_definition(hidden, weight).softmax(-1).topk(4)
    found = full_statistics(hidden, weight, targets, alternatives=4)
    assert torch.equal(found.alternative_ids_Nm, expected.indices)
    torch.testing.assert_close(found.alternative_probabilities_Nm, expected.values)


def test_logits_are_left_as_they_were_and_give_no_silent_gradient() -> None:
    """L12: where no gradient exists, asking for one is an error."""
    logits = torch.randn(3, 8, generator=torch.Generator().manual_seed(5))
    before = logits.clone()
    statistics_from_logits(logits, torch.tensor([0, 1, 2]), 0.5)
    assert torch.equal(logits, before)
    with pytest.raises(InputError, match="no gradients"):
        statistics_from_logits(logits.requires_grad_(), torch.tensor([0, 1, 2]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets_N": torch.tensor([0, 11, 2, 3, 4, 5, 6])}, r"targets\[1\] is 11"),
        ({"targets_N": torch.tensor([0, 1, -1, 3, 4, 5, 6])}, r"targets\[2\] is -1"),
        ({"targets_N": torch.tensor([0, 1])}, "7 token ids"),
        ({"targets_N": torch.zeros(7)}, "token ids"),
        ({"temperature": 0.0}, "temperature"),
        ({"temperature": math.nan}, "temperature"),
        ({"soft_cap": -1.0}, "soft_cap"),
        ({"scale": math.inf}, "scale"),
        ({"bias": torch.zeros(3)}, r"bias must have shape \(11,\)"),
        ({"weight_VH": torch.zeros(11, 4)}, "flatten"),
        ({"hidden_NH": torch.zeros(1, 7, 5)}, "flatten"),
        ({"hidden_NH": torch.zeros(7, 5, dtype=torch.long)}, "floating point"),
    ],
)
def test_wrong_input_is_refused(change: dict[str, object], message: str) -> None:
    hidden, weight, _, targets = inputs()
    arguments = {"hidden_NH": hidden, "weight_VH": weight, "targets_N": targets} | change
    with pytest.raises(InputError, match=message):
        token_statistics(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("hidden_size", [64, 896, 8192, 20_000])
@pytest.mark.parametrize("tokens", [1, 32, 1024, 10**6])
def test_tiles_stay_within_their_budget(device: str, hidden_size: int, tokens: int) -> None:
    """L5: buffers, a block of hidden states and a cast of head rows are bounded whatever N and H."""
    rows, columns = tile_shape(tokens, hidden_size, torch.device(device), 4)
    limit = (48 if device == "cpu" else 192) * 2**20
    assert (2 * rows * columns + (2 * rows + columns) * hidden_size) * 4 <= limit
    assert 1 <= rows <= tokens
    assert columns >= 1


MEASURE = r"""
import re, torch
from entropy_lab.scoring import token_statistics
torch.set_num_threads(1)
peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) // 1024
hidden = torch.randn(4096, 16)
weight, targets = torch.randn(9216, 16) / 4, torch.randint(0, 9216, (4096,))
small = torch.randn(64, 16, requires_grad=True)
token_statistics(small, weight[:64], targets[:64] % 64).entropy_N.sum().backward()
start = peak()
token_statistics(hidden, weight, targets)
forward = peak()
token_statistics(hidden.requires_grad_(), weight, targets).entropy_N.sum().backward()
backward = peak()
(hidden.detach() @ weight.T)
print(forward - start, backward - start, peak() - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_peak_memory_is_bounded() -> None:
    """L5: 4,096 × 9,216 logits take 144 MiB; forward and backward stay within 64 MiB."""
    answer = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    forward, backward, control = map(int, answer.stdout.split())
    assert forward <= 64
    assert backward <= 64
    assert control >= 120
