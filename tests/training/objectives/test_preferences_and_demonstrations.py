"""DPO on pairs and next-token prediction on demonstrations."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_columns import column, now_of, tokens_of
from pydantic import ValidationError
from torch.nn.functional import cross_entropy, logsigmoid

from entropy_lab.errors import InputError
from entropy_lab.training.objectives.dpo import Dpo
from entropy_lab.training.objectives.next_token import NextToken
from entropy_lab.training.reductions import reduction_weights
from entropy_lab.training.tokens import Now

number = st.floats(-20, 0)


def test_dpo_in_closed_form() -> None:
    """Gains (logπ − logref): chosen 1.5, rejected −.5; margin 2."""
    now = now_of([-1.0, -0.5, -2.0])
    tokens = tokens_of([1, 2], [7, 7], [0.0, 1.0], reference_logprob_N=[-0.5, -1.0, -3.0])
    found = Dpo(beta=0.5)(now, tokens, column([0.0] * 3))
    assert found.loss_N.tolist() == pytest.approx([math.log(1 + math.exp(-1.0))] * 3)
    weight_N = reduction_weights(Dpo().reduction, tokens.length_R, 40).double()
    (slope_N,) = torch.autograd.grad((weight_N * found.loss_N).sum(), now.logprob_N)
    pull = 0.5 / (1 + math.exp(1.0))
    assert slope_N.tolist() == pytest.approx([pull, -pull, -pull])


def test_dpo_starts_at_the_logarithm_of_two() -> None:
    tokens = tokens_of([2, 2], [0, 0], [1.0, 0.0], reference_logprob_N=[-1.0] * 4)
    assert Dpo()(now_of([-1.0] * 4), tokens, column([0.0] * 4)).loss_N.tolist() == pytest.approx([math.log(2)] * 4)


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.lists(st.tuples(number, number), min_size=1, max_size=4)] * 2), max_size=4), st.data())
def test_dpo_is_the_mean_over_pairs_whatever_the_order_of_rows(
    pairs: list[tuple[list[tuple[float, float]], ...]], data: st.DataObject
) -> None:
    rows = [row for pair in pairs for row in pair]
    tokens = tokens_of(
        [len(row) for row in rows],
        [group for group in range(len(pairs)) for _ in range(2)],
        [1.0, -1.0] * len(pairs),
        reference_logprob_N=[reference for row in rows for _, reference in row],
    )
    now = now_of([logprob for row in rows for logprob, _ in row])
    order = torch.tensor(data.draw(st.permutations(range(len(rows)))), dtype=torch.int64)
    index = tokens.token_index(order)
    shuffled = tokens.of_rows(order)
    found = Dpo()(Now(now.logprob_N[index], now.entropy_N[index]), shuffled, torch.zeros(len(index)))
    weight_N = reduction_weights("sequence-mean", shuffled.length_R, 40).double()
    loss = (weight_N * found.loss_N).sum()
    gain_N = now.logprob_N - tokens.reference_logprob_N
    gain_R = [part.sum() for part in gain_N.split(tokens.length_R.tolist())]
    oracle = sum(
        (-logsigmoid(0.1 * (won - lost)) for won, lost in zip(gain_R[::2], gain_R[1::2], strict=True)),
        start=0 * now.logprob_N.sum(),
    ) / max(1, len(pairs))
    torch.testing.assert_close(loss, oracle, rtol=1e-6, atol=1e-9)
    (gradient,) = torch.autograd.grad(loss, now.logprob_N)
    (expected,) = torch.autograd.grad(oracle, now.logprob_N)
    torch.testing.assert_close(gradient, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(
    ("groups", "rewards", "said"),
    [
        ([4, 4, 4], [1.0, 0.0, 0.0], "Group 4 has 3 rows"),
        ([2, 2, 5], [1.0, 0.0, 0.0], "Group 5 has 1 rows"),
        ([2, 5, 5], [1.0, 0.5, 0.5], "Group 2 has 1 rows"),
        ([6, 6], [0.5, 0.5], "Both rows of group 6 have the same reward"),
    ],
)
def test_dpo_refuses_what_is_no_pair(groups: list[int], rewards: list[float], said: str) -> None:
    rows = len(groups)
    tokens = tokens_of([1] * rows, groups, rewards, reference_logprob_N=[0.0] * rows)
    with pytest.raises(InputError, match=said):
        Dpo()(now_of([0.0] * rows), tokens, column([0.0] * rows))


def test_dpo_has_one_reduction() -> None:
    with pytest.raises(ValidationError, match="sequence-mean"):
        Dpo.model_validate({"reduction": "token-mean"})


@settings(deadline=None)
@given(st.integers(2, 9), st.integers(1, 6), st.floats(0, 0.9), st.integers(0, 2**31))
def test_next_token_is_cross_entropy_with_label_smoothing(
    vocabulary: int, count: int, smoothing: float, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits_NV = torch.randn(count, vocabulary, generator=generator, dtype=torch.float64, requires_grad=True)
    targets_N = torch.randint(vocabulary, (count,), generator=generator)
    logprob_NV = logits_NV.log_softmax(1)
    now = Now(logprob_NV.gather(1, targets_N[:, None])[:, 0], logits_NV[:, 0], logprob_NV.mean(1))
    found = NextToken(label_smoothing=smoothing)(now, tokens_of([count]), column([0.0] * count))
    oracle_N = cross_entropy(logits_NV, targets_N, reduction="none", label_smoothing=smoothing)
    torch.testing.assert_close(found.loss_N, oracle_N)
    (gradient,) = torch.autograd.grad(found.loss_N.sum(), logits_NV)
    (expected,) = torch.autograd.grad(oracle_N.sum(), logits_NV)
    torch.testing.assert_close(gradient, expected)


def test_without_smoothing_masked_ids_do_no_harm() -> None:
    """A masked id has log-prob −inf, and so has the mean over the vocabulary."""
    found = NextToken()(now_of([-0.5], uniform_logprob_N=[-math.inf]), tokens_of([1]), column([0.0]))
    assert found.loss_N.tolist() == [0.5]
