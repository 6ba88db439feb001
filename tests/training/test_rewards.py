"""Rewards of rollouts made by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made import made_rollout
from pydantic import ValidationError

from entropy_lab.errors import InputError
from entropy_lab.tasks.protocol import Grade
from entropy_lab.training.piece import pieces_of
from entropy_lab.training.rewards.correctness import Correctness
from entropy_lab.training.rewards.overlong import Overlong
from entropy_lab.training.rollout import Rollout


def of_length(drawn: int, given_tokens: int = 0) -> Rollout:
    return made_rollout([1], [2] * drawn, prefix=[3] * given_tokens)


def test_pieces_are_found_by_name() -> None:
    found = pieces_of("rewards")
    assert (found["correctness"], found["overlong"]) == (Correctness, Overlong)


def test_right_and_wrong() -> None:
    rollouts = [made_rollout([1], [2], reward=reward) for reward in (1.0, 0.0, 1.0)]
    assert Correctness()(rollouts) == [1, 0, 1]
    assert Correctness()([]) == []


def test_a_failed_grader_is_no_wrong_answer() -> None:
    """T6: what could not be graded never becomes a number."""
    broken = replace(made_rollout([1], [2], index=5), grade=Grade(None, "grader-failure"))
    with pytest.raises(InputError, match=r"problem p, sample 5.*grader-failure"):
        Correctness()([made_rollout([1], [2]), broken])


def test_the_published_soft_limit() -> None:
    lengths = [1, 16384, 18432, 20480]
    assert Overlong(limit=20480, cache=4096)([of_length(length) for length in lengths]) == [0, 0, -0.5, -1]


@given(limit=st.integers(1, 60), data=st.data(), drawn=st.integers(1, 80), given_tokens=st.integers(0, 20))
def test_penalty_by_length(limit: int, data: st.DataObject, drawn: int, given_tokens: int) -> None:
    """0 up to limit − cache, one cache-th more for each token beyond; tokens that were given count."""
    cache = data.draw(st.integers(1, limit))
    reward = Overlong(limit=limit, cache=cache)
    (found,) = reward([of_length(drawn, given_tokens)])
    beyond = sum(1 for place in range(drawn + given_tokens) if place >= limit - cache)
    assert found == pytest.approx(-beyond / cache)
    assert reward([of_length(drawn + given_tokens)]) == [found]


@pytest.mark.parametrize("fields", [{"limit": 40}, {"cache": 8}, {"limit": 40, "cache": 0}, {"limit": 8, "cache": 9}])
def test_limits_that_make_no_sense(fields: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match=r"cache|limit"):
        Overlong.model_validate(fields)
