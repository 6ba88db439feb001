"""The weight of the sampler's gap."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_rows import rows_of, zeros
from pydantic import ValidationError

from entropy_lab.errors import InputError
from entropy_lab.training.advantages.truncated_importance import TruncatedImportance

advantage = st.integers(-24, 24).map(lambda eighths: eighths / 8)
logprob = st.floats(-30, 0)


@given(pairs=st.lists(st.tuples(logprob, logprob, advantage), min_size=1, max_size=10), cap=st.floats(0.5, 10))
@settings(max_examples=60, deadline=None)
def test_equals_the_definition(pairs: list[tuple[float, float, float]], cap: float) -> None:
    old, sampler, before = map(list, zip(*pairs, strict=True))
    tokens = rows_of([0], lengths=[len(pairs)], old_logprob_N=old, sampler_logprob_N=sampler)
    advantage_N = torch.tensor(before, dtype=torch.float64)
    expected = [one * min(math.exp(mine - theirs), cap) for mine, theirs, one in pairs]
    found = TruncatedImportance(cap=cap)(tokens, advantage_N)
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)
    assert torch.equal(found.sign(), torch.tensor(expected, dtype=torch.float64).sign())


def test_equal_log_probs_change_nothing_and_a_huge_gap_stays_finite() -> None:
    tokens = rows_of([0], lengths=[3], old_logprob_N=[-1.3, -0.1, -900], sampler_logprob_N=[-1.3, -900, -0.1])
    found = TruncatedImportance()(tokens, torch.tensor([0.7, -0.5, 0.0]))
    assert found.tolist() == pytest.approx([0.7, -1.0, 0.0])


def test_what_it_asks_for() -> None:
    assert TruncatedImportance().needs == "tokens"
    tokens = rows_of([1.0], old_logprob_N=[-1.0])
    with pytest.raises(InputError, match=r"truncated-importance.*sampler_logprob_N"):
        TruncatedImportance()(tokens, zeros(tokens))
    with pytest.raises(ValidationError):
        TruncatedImportance(cap=0)


def test_nothing_is_learned_through_the_weight() -> None:
    tokens = rows_of([1.0], old_logprob_N=[-1.0], sampler_logprob_N=[-1.1])
    assert tokens.old_logprob_N is not None
    tokens.old_logprob_N.requires_grad_()
    found = TruncatedImportance()(tokens, torch.ones(1))
    assert (found.dtype, found.requires_grad) == (torch.float32, False)
