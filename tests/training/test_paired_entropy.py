"""The paired bonus has the exact bonus's gradient in expectation, and finds its columns."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab import load_checkpoint
from entropy_lab.engines.protocol import Request, Sampling
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.errors import InputError
from entropy_lab.prompts import encode_prompt
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Grade
from entropy_lab.training.batch import batch_of
from entropy_lab.training.controllers.adaptive_entropy import AdaptiveEntropy
from entropy_lab.training.penalties.entropy_bonus import EntropyBonus
from entropy_lab.training.penalties.paired_entropy_bonus import PairedEntropyBonus
from entropy_lab.training.policy import TrainedPolicy
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.training.rollout import Rollout
from entropy_lab.training.tokens import Now
from entropy_lab.workflows.train import train
from tests.engines.small_models import small_model
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


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4))
def test_over_kept_pairs_it_is_the_gradient_of_the_truncated_entropy(seed, kept):
    generator = torch.Generator().manual_seed(seed)
    logits_V = torch.randn(5, generator=generator, dtype=torch.float64).requires_grad_()
    top_K = logits_V.topk(kept).indices
    logprob_K = logits_V[top_K].log_softmax(0)
    weight_KK = (logprob_K[:, None] + logprob_K[None]).exp().detach()
    gap_KK = logits_V[top_K][:, None] - logits_V[top_K][None]
    loss_N = PairedEntropyBonus(coefficient=1)(Now(gap_KK, gap_KK, twin_gap_N=gap_KK.flatten()), tokens_of([kept**2]))
    (paired,) = torch.autograd.grad((weight_KK.flatten() * loss_N).sum(), logits_V, retain_graph=True)
    (exact,) = torch.autograd.grad((logprob_K.exp() * logprob_K).sum(), logits_V)
    assert torch.allclose(paired, exact, atol=1e-12)


HEADS = {
    "llama": {},
    "gemma2": {"final_logit_softcapping": 2.0},
    "cohere": {"logit_scale": 0.3},
    "granite": {"logits_scaling": 4.0},
    "phi": {},
}


@pytest.mark.parametrize("kind", HEADS)
def test_the_gap_is_a_difference_of_log_probs_with_its_gradient(kind):
    model = small_model(kind, torch.float32, **HEADS[kind])
    head = model.get_output_embeddings()
    if head.bias is not None:
        torch.nn.init.normal_(head.bias, generator=torch.Generator().manual_seed(0))
    own, twins = [11, 3, 30], [4, 3, 17]
    one = made_rollout([5, 9, 7], own)
    one = replace(one, trajectory=replace(one.trajectory, twin_ids=np.array(twins, np.int32)))
    now = TrainedPolicy(model, temperature=0.5, twins=True)(batch_of([one], torch.device("cpu")), np.array([0]))
    logprob_TV = (model(torch.tensor([[5, 9, 7, *own]])).logits[0] / 0.5).log_softmax(-1)[2:5]
    expected_N = logprob_TV[range(3), own] - logprob_TV[range(3), twins]
    assert torch.allclose(now.twin_gap_N, expected_N, atol=1e-5)
    found, expected = (
        torch.autograd.grad(gap_N.square().sum(), head.weight)[0] for gap_N in (now.twin_gap_N, expected_N)
    )
    assert torch.allclose(found, expected, atol=1e-4 * float(expected.abs().max()))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_drawn_twins_give_the_gradient_of_the_exact_bonus(temperature):
    checkpoint = load_checkpoint("builtin:sft", device="cpu", dtype="float32")
    task = load_task("countdown-train")
    problem = task.problems()[0]
    request = Request(problem.id, encode_prompt(checkpoint, task.messages(problem), "auto"), 2048)
    sampling = Sampling(temperature=temperature, max_new_tokens=1, seed=9, twins=True)
    drawn = TransformersEngine(checkpoint).sample([request], sampling)
    rollouts = [Rollout(one, "", Grade(True, "made"), "g", one.sample_index) for one in drawn]
    batch = batch_of(rollouts, torch.device("cpu"))
    now = TrainedPolicy(checkpoint.model, temperature=temperature, twins=True)(batch, np.arange(len(batch)))
    parameters = list(checkpoint.model.parameters())
    paired, exact = (
        torch.cat([each.flatten() for each in torch.autograd.grad(loss, parameters, retain_graph=True)])
        for loss in (PairedEntropyBonus()(now, batch.tokens).mean(), EntropyBonus()(now, batch.tokens).mean())
    )
    assert float(torch.cosine_similarity(paired, exact, 0)) > 0.98
    assert float(paired @ exact / exact.square().sum()) == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize("name", ["grpo", "fr3e"])
def test_it_trains(name, tmp_path):
    controller = 'controllers=[{piece="adaptive-entropy", penalty="paired-entropy-bonus", target=9.0}]'
    trained = train(load_recipe(name, [*SMALL, PAIRED, controller]), tmp_path)
    assert trained.metrics["controllers.penalties.paired-entropy-bonus.coefficient"] == pytest.approx(0.01)
    assert AdaptiveEntropy().start().keys() == {"penalties.entropy-bonus.coefficient", "level"}


def test_rows_that_were_not_sampled_have_no_twins():
    with pytest.raises(InputError, match="twin_gap_N"):
        PairedEntropyBonus()(Now(torch.zeros(1), torch.zeros(1)), tokens_of([1]))
