"""The paired bonus has the exact bonus's gradient in expectation, and finds its columns."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab import load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.training.batch import batch_of
from entropy_lab.training.controllers.adaptive_entropy import AdaptiveEntropy
from entropy_lab.training.penalties.entropy_bonus import EntropyBonus
from entropy_lab.training.penalties.paired_entropy_bonus import PairedEntropyBonus
from entropy_lab.training.policy import TrainedPolicy
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.training.tokens import Now
from entropy_lab.workflows.train import train
from tests.training.made import made_rollout
from tests.training.objectives.packed_columns import tokens_of

PAIRED = 'penalties=[{piece="paired-entropy-bonus", coefficient=0.01}]'
SMALL = ["steps=2", "exploration.prompts=4", "evaluation.every=0", "save.trackers=[]", "start.device=cpu"]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 7))
def test_over_all_pairs_it_is_the_exact_gradient(seed, vocabulary):
    generator = torch.Generator().manual_seed(seed)
    logits_V = (2 * torch.randn(vocabulary, generator=generator, dtype=torch.float64)).requires_grad_()
    logprob_V = logits_V.log_softmax(0)
    weight_VV = (logprob_V[:, None] + logprob_V[None]).exp().detach()
    gap_VV = logits_V[:, None] - logits_V[None]
    penalty = PairedEntropyBonus(coefficient=0.3)
    tokens = tokens_of([vocabulary**2])
    loss_N = penalty(Now(logprob_V, logprob_V, twin_gap_N=gap_VV.flatten()), tokens)
    (paired,) = torch.autograd.grad((weight_VV.flatten() * loss_N).sum(), logits_V, retain_graph=True)
    entropy = -(logprob_V.exp() * logprob_V).sum()
    (exact,) = torch.autograd.grad(EntropyBonus(coefficient=0.3)(Now(logprob_V, entropy[None]), tokens).sum(), logits_V)
    assert torch.allclose(paired, exact, atol=1e-12)


def test_the_gap_is_a_difference_of_log_probs():
    checkpoint = load_checkpoint("builtin:sft", device="cpu", dtype="float32")
    one = made_rollout([5, 9, 7], [11, 3, 30])
    trajectory = one.trajectory
    object.__setattr__(trajectory, "twin_ids", torch.tensor([4, 3, 17]).int().numpy())
    batch = batch_of([one], torch.device("cpu"))
    now = TrainedPolicy(checkpoint.model, temperature=0.5, twins=True)(batch, torch.tensor([0]).numpy())
    ids = torch.tensor([[5, 9, 7, 11, 3, 30]])
    with torch.no_grad():
        logprob_TV = (checkpoint.model(ids).logits[0] / 0.5).log_softmax(-1)[2:5]
    expected = [float(logprob_TV[row, own] - logprob_TV[row, twin]) for row, (own, twin) in enumerate(
        [(11, 4), (3, 3), (30, 17)]
    )]  # fmt: skip
    assert now.twin_gap_N.tolist() == pytest.approx(expected, abs=1e-4)
    assert now.twin_gap_N.requires_grad


@pytest.mark.parametrize("name", ["grpo", "fr3e"])
def test_it_trains(name, tmp_path):
    controller = 'controllers=[{piece="adaptive-entropy", penalty="paired-entropy-bonus", target=9.0}]'
    trained = train(load_recipe(name, [*SMALL, PAIRED, controller]), tmp_path)
    assert trained.metrics["controllers.penalties.paired-entropy-bonus.coefficient"] == pytest.approx(0.01)
    assert AdaptiveEntropy().start().keys() == {"penalties.entropy-bonus.coefficient", "level"}


def test_rows_that_were_not_sampled_have_no_twins():
    with pytest.raises(InputError, match="twin_gap_N"):
        PairedEntropyBonus()(Now(torch.zeros(1), torch.zeros(1)), tokens_of([1]))
