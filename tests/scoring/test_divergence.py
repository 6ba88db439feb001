import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles.token_statistics import logits_by_definition
from torch import Tensor

from entropy_lab.errors import InputError
from entropy_lab.scoring import NonFiniteLogits
from entropy_lab.scoring import tiles as tiles_module
from entropy_lab.scoring.divergence import Side, divergence
from entropy_lab.scoring.tiles import LogitMap


@pytest.fixture(params=[3, 1024], ids=["many-tiles", "one-tile"])
def tile_side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(tiles_module, "_CPU_SIDE", request.param)
    return request.param


def side(
    seed: int,
    tokens: int = 7,
    hidden: int = 5,
    rows: int = 11,
    dtype: torch.dtype = torch.float64,
    logit_map: LogitMap = LogitMap(1.0),  # noqa: B008
    bias: bool = True,
) -> Side:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    return Side(draw(tokens, hidden), draw(rows, hidden), draw(rows) if bias else None, logit_map)


def logits(one: Side, ids: int | None = None) -> Tensor:
    z = logits_by_definition(
        one.hidden_NH,
        one.weight_VH,
        bias=one.bias_V,
        temperature=one.logit_map.temperature,
        soft_cap=one.logit_map.soft_cap,
        scale=one.logit_map.scale,
    )
    return z[:, :ids]


def by_definition(z_p: Tensor, z_q: Tensor) -> Tensor:
    """Σ p (log p − log q) in float64, with 0·log 0 = 0 and infinity where only q is 0."""
    log_p, log_q = torch.log_softmax(z_p.double(), -1), torch.log_softmax(z_q.double(), -1)
    return torch.where(log_p > -torch.inf, log_p.exp() * (log_p - log_q), 0.0).sum(-1)


@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("hidden", [(5, 5), (5, 9)])
def test_equals_the_definition_through_scale_bias_cap_and_temperature(hidden: tuple[int, int]) -> None:
    """Each side has its own head, hidden size and map to logits."""
    p = side(0, hidden=hidden[0], logit_map=LogitMap(0.6, None, 0.25))
    q = side(1, hidden=hidden[1], logit_map=LogitMap(0.8, 2.0, 1.7))
    found = divergence(p, q)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, by_definition(logits(p), logits(q)), rtol=1e-12, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(
    tokens=st.integers(0, 9),
    rows=st.integers(1, 30),
    width=st.integers(1, 12),
    temperature=st.floats(0.2, 5),
    spread=st.floats(0, 4),
    seed=st.integers(0, 2**31),
)
def test_any_tiling_gives_the_same_divergence_and_never_a_negative_one(
    tokens: int, rows: int, width: int, temperature: float, spread: float, seed: int
) -> None:
    p = side(seed, tokens, 4, rows, torch.float32, LogitMap(temperature, None, 1.0))
    q = side(seed + 1, tokens, 4, rows, torch.float32, LogitMap(temperature, None, 1.0))
    near = replace(q, hidden_NH=p.hidden_NH + spread * q.hidden_NH, weight_VH=p.weight_VH, bias_V=p.bias_V)
    for other in (q, near):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tiles_module, "_CPU_SIDE", width)
            found = divergence(p, other)
        assert (found >= 0).all()
        torch.testing.assert_close(found.double(), by_definition(logits(p), logits(other)), rtol=3e-5, atol=3e-6)


@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_a_distribution_has_no_divergence_from_itself(dtype: torch.dtype) -> None:
    p = side(3, dtype=dtype)
    assert divergence(p, p).tolist() == [0] * 7
    shifted = replace(p, bias_V=p.bias_V.double() + 64)  # the same distribution, other logits
    assert divergence(p, shifted).abs().max() < 1e-6


def test_error_at_sigma_three_over_a_large_vocabulary() -> None:
    """Small divergences between large vocabularies keep six digits after the point in float32."""
    generator = torch.Generator().manual_seed(5)
    weight = torch.randn(50_000, 16, generator=generator) * 3 / 4
    p = Side(torch.randn(24, 16, generator=generator), weight)
    for step in (1e-3, 0.1, 1.0):
        q = Side(p.hidden_NH + step * torch.randn(24, 16, generator=generator), weight)
        expected = by_definition(logits(p), logits(q))
        torch.testing.assert_close(divergence(p, q).double(), expected, rtol=2e-6, atol=2e-6)


def test_is_the_expected_log_ratio() -> None:
    """KL(p‖q) = E_p[log p − log q]: draws from p estimate it within their own error."""
    p, q = side(8, tokens=3), side(9, tokens=3)
    log_p, log_q = torch.log_softmax(logits(p), -1), torch.log_softmax(logits(q), -1)
    drawn = torch.multinomial(log_p.exp(), 40_000, replacement=True, generator=torch.Generator().manual_seed(0))
    ratio = (log_p - log_q).gather(1, drawn)
    error = ratio.std(1) / ratio.shape[1] ** 0.5
    assert ((divergence(p, q) - ratio.mean(1)).abs() < 4 * error).all()


@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("mask_p", [-torch.inf, -1e9, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("masked", [[0, 1, 2, 3], [4, 9], [10]])
def test_ids_that_neither_side_gives_add_nothing(mask_p: float, masked: list[int]) -> None:
    p, q = side(0, dtype=torch.float32), side(1, dtype=torch.float32)
    p.bias_V[masked], q.bias_V[masked] = mask_p, -torch.inf
    kept = [index for index in range(11) if index not in masked]
    expected = by_definition(logits(p)[:, kept], logits(q)[:, kept])
    torch.testing.assert_close(divergence(p, q).double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("tile_side")
def test_what_only_the_first_side_gives_is_infinite_and_what_only_the_second_gives_is_not() -> None:
    p, q = side(0), side(1)
    z_p, z_q = logits(p), logits(q)
    masked = replace(q, bias_V=q.bias_V.index_fill(0, torch.tensor([4]), -torch.inf))
    assert divergence(p, masked).tolist() == [torch.inf] * 7
    z_q[:, 4] = -torch.inf
    torch.testing.assert_close(divergence(masked, p), by_definition(z_q, z_p))


@pytest.mark.usefixtures("tile_side")
def test_padded_rows_are_refused_or_masked_on_both_sides() -> None:
    p, q = side(0, rows=14), side(1, rows=11)
    with pytest.raises(InputError, match="14 and 11 rows"):
        divergence(p, q)
    torch.testing.assert_close(divergence(p, q, ids=9), by_definition(logits(p, 9), logits(q, 9)))
    with pytest.raises(InputError, match="from 1 to 11"):
        divergence(p, q, ids=12)
    with pytest.raises(InputError, match="7 and 6 tokens"):
        divergence(side(0), side(1, tokens=6))


@pytest.mark.usefixtures("tile_side")
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
@pytest.mark.parametrize("which", ["first", "second"])
def test_broken_logits_name_the_row_and_the_side(bad: float, which: str) -> None:
    good, broken = side(0), side(1)
    broken.hidden_NH[3, 0] = bad
    sides = (broken, good) if which == "first" else (good, broken)
    with pytest.raises(NonFiniteLogits, match=f"NaN or \\+inf on the {which} side") as caught:
        divergence(*sides)
    assert caught.value.row == 3
    empty = replace(good, bias_V=torch.full((11,), -torch.inf))
    with pytest.raises(NonFiniteLogits, match="every logit is -inf"):
        divergence(empty, empty)


MEASURE = r"""
import re, torch
from entropy_lab.scoring.divergence import Side, divergence
torch.set_num_threads(1)
peak = lambda: int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) // 1024
p, q = (Side(torch.randn(4096, 16), torch.randn(9216, 16) / 4) for _ in range(2))
divergence(Side(p.hidden_NH[:64], p.weight_VH[:64]), Side(q.hidden_NH[:64], q.weight_VH[:64]))
start = peak()
divergence(p, q)
found = peak()
p.hidden_NH @ p.weight_VH.T
print(found - start, peak() - start)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
def test_peak_memory_is_bounded() -> None:
    """4,096 × 9,216 logits take 144 MiB for each side; both sides together stay within 96 MiB."""
    answer = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True)
    found, control = map(int, answer.stdout.split())
    assert found <= 96
    assert control >= 120
