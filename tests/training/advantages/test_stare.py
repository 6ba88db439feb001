"""STARE: which tokens, how many, and when not."""

import pytest
import torch
from packed_rows import rows_of

from entropy_lab.training.advantages.stare import Stare


def weights(step, advantage, logprob, entropy=0.1):
    tokens = rows_of([0], lengths=[len(logprob)], old_logprob_N=logprob, old_entropy_N=[entropy] * len(logprob))
    before = torch.tensor(advantage, dtype=torch.float64)
    return (step(tokens, before) / before).tolist()


@pytest.mark.parametrize(("count", "expected"), [(25, 3), (20, 2), (1, 1)])
def test_how_many(count, expected):
    found = weights(Stare(), [1.0] * count, [-float(place) for place in range(count)])
    assert found == pytest.approx([1.0] * (count - expected) + [1.1] * expected)


def test_each_sign_has_its_own_most_surprising_tokens():
    advantage, logprob = [1, 1, -2, -2, 3], [-0.1, -5, -0.2, -3, -1]
    assert weights(Stare(), advantage, logprob) == pytest.approx([1, 1.1, 1, 0.9, 1])
    assert weights(Stare(variant="o1"), advantage, logprob) == pytest.approx([1, 1.1, 1, 1, 1])
    assert weights(Stare(share=1), advantage, logprob) == pytest.approx([1.1, 1.1, 0.9, 0.9, 1.1])


def test_tokens_without_advantage_are_not_counted():
    tokens = rows_of([0], lengths=[4], old_logprob_N=[-9.0, -8, -1, -2], old_entropy_N=[0.0] * 4)
    assert Stare()(tokens, torch.tensor([0.0, 0, 1, 1])).tolist() == pytest.approx([0, 0, 1, 1.1])


def test_ties_count_alike():
    assert weights(Stare(), [1] * 4, [-2, -2, -1, -2]) == pytest.approx([1.1, 1.1, 1, 1.1])


def test_the_gate_looks_at_the_mean_entropy_of_the_batch():
    assert weights(Stare(target=0.3), [1, 1], [-1, -2], entropy=0.3) == [1, 1]
    assert weights(Stare(target=0.3), [1, 1], [-1, -2], entropy=0.2999) == pytest.approx([1, 1.1])


def test_one_sign_or_no_tokens_at_all():
    assert weights(Stare(), [-1, -1], [-1, -2]) == pytest.approx([1, 0.9])
    empty = rows_of([], old_logprob_N=[], old_entropy_N=[])
    assert Stare()(empty, torch.zeros(0)).shape == (0,)
    assert Stare().needs == "batch"
