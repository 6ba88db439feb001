"""What holds for every objective: exact ratios of 1, finite gradients, nothing from nothing, rows that stand alone."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_columns import column, now_of, tokens_of

from entropy_lab.errors import InputError
from entropy_lab.training.objectives import Objective
from entropy_lab.training.objectives.clipped import Clipped
from entropy_lab.training.objectives.dpo import Dpo
from entropy_lab.training.objectives.ppo import Ppo
from entropy_lab.training.piece import pieces_of
from entropy_lab.training.tokens import Now, Tokens

OBJECTIVES = [
    *(piece() for piece in pieces_of("objectives").values()),
    Clipped(level="sequence", low=3e-4, high=4e-4, reduction="sequence-mean"),
    Clipped(dual=3.0, symmetric_in_log=True),
]
BY_ADVANTAGE = [one for one in OBJECTIVES if one.piece not in ("dpo", "next-token")]
BY_RATIO = [one for one in BY_ADVANTAGE if one.needs_old]


def names(one: Objective) -> str:
    return f"{one.piece}{'-' + one.level if isinstance(one, Clipped) else ''}"


def pair_batch(logprob: list[float], old: list[float]) -> tuple[Now, Tokens]:
    """Two groups of two rows (3, 1, 2, 2 tokens), every column filled."""
    values = [0.1 * step for step in range(8)]
    now = now_of(logprob, uniform_logprob_N=[-4.0] * 8, value_N=values, twin_gap_N=values)
    columns = dict.fromkeys(("old_logprob_N", "reference_logprob_N"), old)
    tokens = tokens_of(
        [3, 1, 2, 2], [0, 0, 1, 1], [1.0, 0.0, 0.0, 1.0], old_value_N=[0.2] * 8, mark_N=[0.0] * 8, **columns
    )
    return now, tokens


def test_names_are_those_of_the_recipes() -> None:
    assert set(pieces_of("objectives")) >= {"reinforce", "clipped", "cispo", "sapo", "ppo", "dpo", "next-token"}


@pytest.mark.parametrize("objective", BY_RATIO, ids=names)
@settings(deadline=None)
@given(logprob=st.lists(st.floats(-60, 0, width=32), min_size=8, max_size=8))
def test_same_weights_give_the_policy_gradient_exactly(objective: Objective, logprob: list[float]) -> None:
    """A ratio of exactly 1: every one of these losses then has the slope −A, bit for bit in float32."""
    now_N = torch.tensor(logprob, dtype=torch.float32).requires_grad_()
    now, tokens = pair_batch(logprob, logprob)
    now = replace(now, logprob_N=now_N)
    tokens = replace(tokens, old_logprob_N=now_N.detach().clone())
    advantage_N = tokens.spread(torch.tensor([1.5, -0.5, 0.0, -2.0]))
    outcome = objective(now, tokens, advantage_N)
    (slope_N,) = torch.autograd.grad(outcome.loss_N.sum(), now_N)
    if objective.piece == "sapo":  # 4·σ(0)·(1 − σ(0)) rounds
        torch.testing.assert_close(slope_N, -advantage_N)
    else:
        assert torch.equal(tokens.row_mean(slope_N), tokens.row_mean(-advantage_N))
    for held_N in (outcome.low_N, outcome.high_N):
        assert held_N is None or not held_N.any()


@pytest.mark.parametrize("objective", OBJECTIVES, ids=names)
@settings(deadline=None)
@given(
    logprob=st.lists(st.floats(-1e4, 0), min_size=8, max_size=8),
    old=st.lists(st.floats(-1e4, 0), min_size=8, max_size=8),
)
def test_no_log_prob_whatever_makes_a_loss_or_gradient_infinite(
    objective: Objective, logprob: list[float], old: list[float]
) -> None:
    now, tokens = pair_batch([0.0] * 8, old)
    now_N = torch.tensor(logprob, dtype=torch.float32).requires_grad_()
    marks_N = torch.tensor([0.0, 1.0] * 4)
    tokens = replace(tokens, old_logprob_N=torch.tensor(old, dtype=torch.float32), mark_N=marks_N)
    advantage_N = tokens.spread(torch.tensor([1.5, -0.5, 0.0, -2.0]))
    loss_N = objective(replace(now, logprob_N=now_N), tokens, advantage_N).loss_N
    assert loss_N.isfinite().all()
    (slope_N,) = torch.autograd.grad(loss_N.sum(), now_N)
    assert slope_N.isfinite().all()


@pytest.mark.parametrize("objective", BY_RATIO, ids=names)
def test_the_guard_changes_no_ratio_an_update_can_reach(objective: Objective) -> None:
    """A token of probability e⁻¹⁵ that became certain still has its slope where nothing clips it."""
    now, tokens = pair_batch([0.0] * 8, [-15.0] * 8)
    outcome = objective(now, tokens, column([-1.0] * 8))
    (slope_N,) = torch.autograd.grad(outcome.loss_N.sum(), now.logprob_N)
    ratio = math.exp(15)
    expected = {"cispo": 5.0, "sapo": 0.0, "ppo": ratio}.get(objective.piece, ratio)
    if isinstance(objective, Clipped) and objective.dual:
        expected = 0.0
    assert slope_N.tolist() == pytest.approx([expected] * 8)


@pytest.mark.parametrize("objective", BY_ADVANTAGE, ids=names)
def test_no_advantage_no_gradient(objective: Objective) -> None:
    """A batch whose groups all agree: finite, and nothing moves."""
    now, tokens = pair_batch([-1.0] * 8, [-2.0] * 8)
    loss_N = objective(now, tokens, column([0.0] * 8)).loss_N
    (slope_N,) = torch.autograd.grad(loss_N.sum(), now.logprob_N)
    assert slope_N.tolist() == [0.0] * 8
    if not isinstance(objective, Ppo):
        assert loss_N.tolist() == [0.0] * 8


@pytest.mark.parametrize("objective", OBJECTIVES, ids=names)
def test_no_rows_no_loss(objective: Objective) -> None:
    now, tokens = pair_batch([-1.0] * 8, [-2.0] * 8)
    nothing = torch.tensor([], dtype=torch.int64)
    columns = {name: value[nothing] for name, value in vars(now).items()}
    loss_N = objective(Now(**columns), tokens.of_rows(nothing), column([])).loss_N
    assert loss_N.shape == (0,)
    assert loss_N.sum() == 0


@pytest.mark.parametrize("objective", OBJECTIVES, ids=names)
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]])
def test_losses_do_not_depend_on_the_order_or_company_of_rows(objective: Objective, order: list[int]) -> None:
    """Rows in any order, and each group alone, have the losses they have together."""
    generator = torch.Generator().manual_seed(1)
    logprob_N, old_N = -torch.rand(2, 8, generator=generator, dtype=torch.float64)
    now, tokens = pair_batch(logprob_N.tolist(), old_N.tolist())
    tokens = replace(tokens, mark_N=column([0.0, 1.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]))
    advantage_N = tokens.spread(column([1.5, -0.5, 0.3, -2.0]))
    together = objective(now, tokens, advantage_N).loss_N
    for rows in (order, [row for row in order if row < 2], [row for row in order if row >= 2]):
        chosen = torch.tensor(rows)
        index = tokens.token_index(chosen)
        part = Now(**{name: value[index] for name, value in vars(now).items()})
        apart = objective(part, tokens.of_rows(chosen), advantage_N[index]).loss_N
        torch.testing.assert_close(apart, together[index], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("objective", [*BY_RATIO, Dpo()], ids=names)
def test_a_missing_column_is_named(objective: Objective) -> None:
    now, tokens = pair_batch([-1.0] * 8, [-2.0] * 8)
    bare = replace(tokens, old_logprob_N=None, reference_logprob_N=None)
    with pytest.raises(InputError, match="reference_logprob_N" if objective.needs_reference else "old_logprob_N"):
        objective(now, bare, column([1.0] * 8))


def test_a_missing_value_is_named() -> None:
    now, tokens = pair_batch([-1.0] * 8, [-2.0] * 8)
    with pytest.raises(InputError, match="old_value_N"):
        Ppo()(now, replace(tokens, old_value_N=None), column([1.0] * 8))
    with pytest.raises(InputError, match="value_N"):
        Ppo()(replace(now, value_N=None), tokens, column([1.0] * 8))
