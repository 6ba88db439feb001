"""Certainty and twins: what they are, that they are there only when asked for, and that they change nothing else."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

from entropy_lab import load_checkpoint
from entropy_lab.engines import decoding, drawing
from entropy_lab.engines.drawing import draw
from entropy_lab.engines.protocol import Request, Sampling
from entropy_lab.engines.transformers import TransformersEngine

PLAIN = Sampling(max_new_tokens=12, seed=3)
ASKED = replace(PLAIN, certainty=True, twins=True)
REQUESTS = [
    Request("a", (1, 5, 9), 5),
    Request("b", (1, 7), 3, prefix_ids=(4, 6)),
    Request("a", (1, 5, 9), 2, stream="other"),
]


def sampled(checkpoint, sampling, requests=REQUESTS):
    found = TransformersEngine(checkpoint).sample(requests, sampling)
    return {(one.problem_id, one.stream, one.sample_index): one for one in found}


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_nothing_else_changes(tiny_checkpoint, temperature):
    plain = sampled(tiny_checkpoint, replace(PLAIN, temperature=temperature))
    asked = sampled(tiny_checkpoint, replace(ASKED, temperature=temperature))
    assert plain.keys() == asked.keys()
    for name, one in plain.items():
        other = asked[name]
        assert one.certainty is None
        assert one.twin_ids is None
        assert len(other.certainty) == len(other.twin_ids) == len(one.token_ids)
        for column in ("token_ids", "logprobs", "logprob", "entropy", "varentropy"):
            assert np.array_equal(getattr(one, column), getattr(other, column))


def test_certainty_is_exact(tiny_checkpoint):
    for one in sampled(tiny_checkpoint, ASKED).values():
        request = next(each for each in REQUESTS if (each.problem_id, each.stream) == (one.problem_id, one.stream))
        context = [*one.prompt_ids, *request.prefix_ids]
        ids = torch.tensor([[*context, *one.token_ids.tolist()]], device=tiny_checkpoint.device)
        with torch.no_grad():
            logprob_TV = tiny_checkpoint.model(ids).logits[0].double().log_softmax(-1).cpu()
        own = logprob_TV[len(context) - 1 : -1]
        expected = -own.mean(1) - np.log(own.shape[1])
        assert one.certainty == pytest.approx(expected.numpy(), abs=2e-5)


@pytest.mark.parametrize("settings", [{}, {"temperature": 0.7}, {"top_k": 3}, {"top_p": 0.8}])
def test_certainty_of_a_trained_policy_is_that_of_the_whole_vocabulary(settings):
    checkpoint = load_checkpoint("builtin:sft", device="cpu", dtype="float32")
    sampling = replace(ASKED, max_new_tokens=24, **settings)
    found = sampled(checkpoint, sampling, [Request("a", (1, 5, 9), 6)])
    exact = copy.deepcopy(checkpoint.model).double()
    for one in found.values():
        ids = torch.tensor([[*one.prompt_ids, *one.token_ids.tolist()]])
        with torch.no_grad():
            logprob_TV = (exact(ids).logits[0] / sampling.temperature).log_softmax(-1)[len(one.prompt_ids) - 1 : -1]
        expected = -logprob_TV.mean(1) - np.log(logprob_TV.shape[1])
        assert one.certainty == pytest.approx(expected.numpy(), rel=1e-5)


def test_blocks_of_the_stream_and_tiles_of_rows_change_nothing(tiny_checkpoint, monkeypatch):
    whole = sampled(tiny_checkpoint, ASKED)
    monkeypatch.setattr(decoding, "UNIFORMS", 4)
    monkeypatch.setattr(drawing, "CACHE_BYTES", 1)
    cut = sampled(tiny_checkpoint, ASKED)
    for name, one in whole.items():
        for column in ("token_ids", "twin_ids", "certainty"):
            assert np.array_equal(getattr(one, column), getattr(cut[name], column))


def test_twins_depend_on_the_trajectory_alone(tiny_checkpoint):
    together = sampled(tiny_checkpoint, ASKED)
    alone = sampled(tiny_checkpoint, ASKED, [replace(REQUESTS[0], first_sample=3, count=1)])
    assert np.array_equal(alone["a", "", 3].twin_ids, together["a", "", 3].twin_ids)


def test_twins_are_independent_draws_of_the_same_distribution():
    logits_RV = torch.tensor([[2.0, 1.0, 0.0, -1.0]]).expand(20_000, -1).contiguous()
    uniform = torch.from_numpy(np.random.default_rng(0).random((2, 20_000)))
    found = draw(logits_RV, uniform[0], twin_uniform_R=uniform[1])
    joint = np.zeros((4, 4))
    np.add.at(joint, (found.token_R.numpy(), found.twin_R.numpy()), 1 / 20_000)
    p_V = logits_RV[0].softmax(0).numpy()
    assert joint == pytest.approx(np.outer(p_V, p_V), abs=0.012)
    truncated = draw(logits_RV, uniform[0], top_k=2, twin_uniform_R=uniform[1])
    assert truncated.twin_R.max() == 1


def test_impossible_tokens_do_not_count_in_certainty():
    logits = torch.tensor([[0.9, 0.1]]).log()
    masked = torch.cat((logits, torch.full((1, 3), -torch.inf)), 1)
    for one in (logits, masked):
        found = draw(one, torch.tensor([0.5], dtype=torch.float64), certainty=True)
        assert float(found.certainty_R[0]) == pytest.approx(0.51083, abs=1e-5)
