"""GAE against its definition, a sum over the rest of the row."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_rows import rows_of, zeros

from entropy_lab.errors import InputError
from entropy_lab.training.advantages.gae import Gae

shares = st.sampled_from([0.0, 0.3, 0.9, 0.95, 1.0])
values = st.floats(-2, 2)
batches = st.lists(st.tuples(values, st.lists(values, min_size=1, max_size=6)), min_size=1, max_size=5)


def by_definition(reward: float, value: list[float], gamma: float, lambda_: float) -> list[float]:
    ahead = [*value, 0.0]
    delta = [(reward if at == len(value) - 1 else 0.0) + gamma * ahead[at + 1] - ahead[at] for at in range(len(value))]
    return [
        sum((gamma * lambda_) ** (later - at) * delta[later] for later in range(at, len(value)))
        for at in range(len(value))
    ]


@given(batch=batches, gamma=shares, lambda_=shares)
@settings(max_examples=40, deadline=None)
def test_equals_the_definition(batch: list[tuple[float, list[float]]], gamma: float, lambda_: float) -> None:
    """L6: the length of other rows in the batch is of no account."""
    tokens = rows_of(
        [reward for reward, _ in batch],
        lengths=[len(value) for _, value in batch],
        old_value_N=[one for _, value in batch for one in value],
    )
    expected = [one for reward, value in batch for one in by_definition(reward, value, gamma, lambda_)]
    found = Gae.model_validate({"gamma": gamma, "lambda": lambda_})(tokens, zeros(tokens))
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)


@given(batch=batches)
@settings(max_examples=30, deadline=None)
def test_by_default_it_is_the_reward_minus_the_value(batch: list[tuple[float, list[float]]]) -> None:
    tokens = rows_of(
        [reward for reward, _ in batch],
        lengths=[len(value) for _, value in batch],
        old_value_N=[one for _, value in batch for one in value],
    )
    expected = tokens.spread(tokens.reward_R) - tokens.old_value_N
    torch.testing.assert_close(Gae()(tokens, zeros(tokens)), expected, rtol=0, atol=1e-12)


def test_lambda_zero_trusts_the_value_head_alone() -> None:
    tokens = rows_of([1.0], lengths=[3], old_value_N=[0.2, 0.5, 0.4])
    found = Gae.model_validate({"lambda": 0})(tokens, zeros(tokens))
    torch.testing.assert_close(found, torch.tensor([0.3, -0.1, 0.6], dtype=torch.float64))


def test_what_it_asks_for() -> None:
    assert (Gae().needs, Gae.needs_value) == ("tokens", True)
    assert Gae().model_dump(by_alias=True) == {"gamma": 1, "lambda": 1}
    tokens = rows_of([1.0])
    with pytest.raises(InputError, match="old_value_N"):
        Gae()(tokens, zeros(tokens))


def test_nothing_is_learned_through_the_old_values() -> None:
    tokens = rows_of([1.0], lengths=[2], old_value_N=[0.2, 0.5])
    assert tokens.old_value_N is not None
    tokens.old_value_N.requires_grad_()
    found = Gae()(tokens, zeros(tokens, torch.float32))
    assert (found.dtype, found.requires_grad) == (torch.float32, False)


def test_no_rows() -> None:
    tokens = rows_of([], old_value_N=[])
    assert Gae()(tokens, zeros(tokens)).shape == (0,)
