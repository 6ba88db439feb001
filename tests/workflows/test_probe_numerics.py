"""`probe numerics` on the embedded checkpoint and on the model's own logits; what is left behind."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.checkpoints.head import check_head
from entropy_lab.diagnostics.numerics import Tokens, softmax_columns
from entropy_lab.diagnostics.ratio_bias import FORMATS, own_gradient
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.progress import Silent
from entropy_lab.rollouts import Rollouts
from entropy_lab.scoring import token_statistics
from entropy_lab.workflows.probe_numerics import ProbePlan, probe_numerics
from entropy_lab.workflows.probe_passes import LOG_RATIO, Texts, passes_of, perturb

PLAN = ProbePlan(problems=4, samples=4, device="cpu", sampling=Sampling(max_new_tokens=40, seed=2))


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    return probe_numerics(PLAN, tmp_path_factory.mktemp("probe") / "run")


@pytest.fixture(scope="module")
def texts(probe):
    table = Rollouts.read(probe.folder / "rollouts" / "part-00000.parquet").table
    return Texts(*(table[name].to_pylist() for name in ("problem_id", "prompt_ids", "token_ids")))


@pytest.fixture
def sft():
    """A copy of one's own, to perturb."""
    return load_checkpoint("builtin:sft", device="cpu", dtype="float32")


@pytest.fixture(scope="module")
def measured(texts):
    checkpoint = load_checkpoint("builtin:sft", device="cpu", dtype="float32")
    return passes_of(checkpoint, check_head(checkpoint.model), texts, Silent())


def test_identical_weights_give_ratio_one_exactly_in_every_format(probe):
    found = {row.metric: row for row in probe.metrics if row.metric.startswith("ratio.identical.")}
    stages = {f"{stage}.{form}" for stage in ("logprobs", "logits", "pass") for form in FORMATS}
    assert {name.removeprefix("ratio.identical.") for name in found} == stages | {"pass.float32"}
    assert all(row.value == 0 for row in found.values())


def test_the_sampler_and_the_scorer_agree_as_far_as_the_format_goes(probe):
    found = {row.metric: row.value for row in probe.metrics}
    assert found["gap.float32.max"] < 1e-4
    assert found["gap.float32.mean"] < found["gap.float16.mean"] < found["gap.bfloat16.mean"] < 0.05
    assert found["gap.float32.kl"] < found["gap.bfloat16.kl"]
    assert found["gap.float32.beyond.20-20"] == 0
    assert found["ratio.theory.logprobs.bfloat16"] == pytest.approx(
        64 * found["ratio.theory.logprobs.float16"], rel=0.01
    )
    assert found["clip.changed.logprobs.float16.20-20"] < found["clip.changed.logprobs.bfloat16.20-20"] < 0.05


def test_what_is_left_behind(probe, tmp_path):
    rows = json.loads((probe.folder / "metrics.json").read_text())
    assert [row["metric"] for row in rows] == [row.metric for row in probe.metrics]
    assert len({row["metric"] for row in rows}) == len(rows)
    for row in rows:
        assert row["checkpoint"] == "builtin:sft"
        assert row["value"] is not None
        assert row["note"]
        assert row["low"] is None or row["low"] <= row["value"] <= row["high"]
    values = pq.read_table(probe.folder / "problems.parquet").to_pylist()
    assert {row["problem_id"] for row in values} == {
        row["problem_id"] for row in values if row["metric"].startswith("gap")
    }
    assert len({row["problem_id"] for row in values}) == 4
    assert json.loads((probe.folder / "run.json").read_text())["asked"]["samples"] == 4
    assert probe_numerics(PLAN, probe.folder).metrics == probe.metrics
    with pytest.raises(InputError, match="other settings"):
        probe_numerics(replace(PLAN, samples=3), probe.folder)


def own_logits(model, texts, row):
    """The model's own logits (T, V) in front of each completion token, in one plain forward pass."""
    prompt, completion = texts.prompts[row], texts.completions[row]
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[*prompt, *completion]])).logits[0]
    return logits[len(prompt) - 1 : -1], torch.tensor(completion)[:, None]


def test_passes_are_those_of_the_model_itself(measured, texts, sft):
    """Cast logits and float64 softmax from the model's own logits; autocast from its own pass under autocast."""
    start = 0
    for row in range(4):
        logits, targets = own_logits(sft.model, texts, row)
        part = slice(start, start + len(targets))
        start = part.stop
        exact = logits.double().log_softmax(1).gather(1, targets)[:, 0].numpy()
        np.testing.assert_allclose(measured.exact_N[part], exact, atol=1e-4)
        np.testing.assert_allclose(measured.single_N[part], exact, atol=1e-4)
        for form in FORMATS:
            cast = logits.to(getattr(torch, form)).double().log_softmax(1).gather(1, targets)[:, 0].numpy()
            close = np.isclose(measured.logits[form][part], cast, atol=1e-4)
            assert close.mean() > 0.9  # a logit between two steps may fall to either side
            with torch.autocast("cpu", getattr(torch, form)):
                again, _ = own_logits(sft.model, texts, row)
            low = again.double().log_softmax(1).gather(1, targets)[:, 0].numpy()
            error = np.abs(measured.passes[form][part] - exact)
            assert 0 < error.max() < 0.5
            assert np.abs(measured.passes[form][part] - low).mean() < 10 * error.mean()
    for form in FORMATS:
        assert (measured.passes[form] != measured.single_N).any()
        assert (measured.logit_bias[form] > 0).all()


def test_the_perturbed_policy_moves_as_far_as_asked_and_repeats(measured, texts, sft):
    head = check_head(sft.model)
    before = [weight.detach().clone() for weight in sft.model.parameters()]
    perturb(sft, head, texts, measured.single_N, 5, Silent())
    moved = passes_of(sft, head, texts, Silent()).single_N - measured.single_N
    assert LOG_RATIO / 2 < np.sqrt(np.mean(moved**2)) < LOG_RATIO * 2
    assert all((now != was).any() for now, was in zip(sft.model.parameters(), before, strict=True))
    other = load_checkpoint("builtin:sft", device="cpu", dtype="float32")
    perturb(other, check_head(other.model), texts, measured.single_N, 5, Silent())
    pairs = zip(other.model.parameters(), sft.model.parameters(), strict=True)
    assert all(torch.equal(one, two) for one, two in pairs)


def test_vanishing_gradients_are_those_of_the_kernel(texts, sft):
    """A model four times as sure: the tokens counted are those whose gradient the kernel's way back makes 0."""
    with torch.no_grad():
        sft.model.get_decoder().norm.weight.mul_(4)
    head = check_head(sft.model)
    found = passes_of(sft, head, texts, Silent())
    tokens = Tokens(np.zeros(len(found.exact_N), np.int64), 1)
    _, counts = softmax_columns(tokens, found.exact_N, found.single_N)
    assert counts["softmax.vanishing"] >= counts["softmax.rounds_to_one"] > 20
    logits, targets = own_logits(sft.model, texts, 0)
    eye = torch.eye(logits.shape[1])
    own = []
    for softmax_fix in (False, True):
        hidden = logits.clone().requires_grad_()
        token_statistics(hidden, eye, targets.clone()[:, 0], softmax_fix=softmax_fix).logprob_N.sum().backward()
        own.append(hidden.grad.gather(1, targets)[:, 0])
    rest = -np.expm1(found.exact_N[: len(targets)])
    assert ((own[0] == 0).numpy() == (own_gradient(found.single_N[: len(targets)]) == 0)).all()
    assert (own[0] == 0).any()
    np.testing.assert_allclose(own[1].numpy(), rest, rtol=1e-2, atol=1e-16)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"samples": 0}, "--samples"),
        ({"problems": 0}, "--problems"),
        ({"sampling": Sampling(temperature=0.5)}, "temperature 1"),
        ({"task": "nothing.jsonl"}, "nothing.jsonl"),
    ],
)
def test_what_cannot_be_probed_is_refused(change, message, tmp_path):
    with pytest.raises(InputError, match=message):
        probe_numerics(replace(PLAN, **change), tmp_path / "run")
    assert not (tmp_path / "run").exists()
