"""Updates: gradients that micro-batches do not change, whose log-probs are the old ones, when an extra pass is made."""

from typing import ClassVar

import numpy as np
import pytest
import torch

from entropy_lab.errors import InputError
from entropy_lab.training.advantages import AdvantageStep
from entropy_lab.training.advantages.centred import Centred
from entropy_lab.training.batch import batch_of
from entropy_lab.training.exploration.groups import Groups
from entropy_lab.training.objectives import Objective, Outcome
from entropy_lab.training.objectives.clipped import Clipped
from entropy_lab.training.penalties.entropy_bonus import EntropyBonus
from entropy_lab.training.penalties.reference_kl import ReferenceKl
from entropy_lab.training.policy import TrainedPolicy
from entropy_lab.training.recipe import Optimizer, Recipe
from entropy_lab.training.rewards.correctness import Correctness
from entropy_lab.training.update import Method, Updater
from tests.training.made import made_rollout
from tests.training.test_policy import tiny

CPU = torch.device("cpu")


class ByLogProb(AdvantageStep):
    piece: ClassVar[str] = "by-log-prob"
    needs: ClassVar = "tokens"

    def __call__(self, tokens, advantage_N):
        return advantage_N * (1 - tokens.old_logprob_N)


class ByBatchMean(AdvantageStep):
    piece: ClassVar[str] = "by-batch-mean"
    needs: ClassVar = "batch"

    def __call__(self, tokens, advantage_N):
        return advantage_N * tokens.old_entropy_N.mean()


class Scaled(AdvantageStep):
    piece: ClassVar[str] = "scaled"

    def __call__(self, tokens, advantage_N):
        return advantage_N * 1e-3


class Overflowing(Objective):
    piece: ClassVar[str] = "overflowing"

    def __call__(self, now, tokens, advantage_N):
        return Outcome(now.logprob_N * torch.inf)


def recipe(**optimizer):
    return Recipe(
        name="made",
        steps=1,
        exploration=Groups(),
        rewards=(Correctness(),),
        advantage=(Centred(),),
        objective=Clipped(),
        optimizer=Optimizer(learning_rate=1e-2, **optimizer),
    )


def rows(seed=0, groups=5, each=3):
    generator = np.random.default_rng(seed)
    made = []
    for group in range(groups):
        prompt = generator.integers(0, 31, 4)
        for index in range(each):
            completion = generator.integers(0, 31, generator.integers(1, 7))
            made.append(made_rollout(prompt, completion, group=f"g{group}", reward=float(index == 0), index=index))
    return made


def updated(method, made=None, seed=0, reference=False, **optimizer):
    """Parameters after one iteration, its metrics, and the updater."""
    model, policy_seed = tiny(torch.float32), seed
    torch.manual_seed(policy_seed)
    policy = TrainedPolicy(model)
    chosen = recipe(**optimizer)
    step = torch.optim.AdamW(model.parameters(), chosen.optimizer.learning_rate)
    kept = TrainedPolicy(tiny(torch.float32)) if reference else None
    updater = Updater(policy, step, chosen, reference=kept)
    metrics = updater(batch_of(made or rows(), CPU), method)
    return {name: one.detach().clone() for name, one in model.named_parameters()}, metrics, updater


PLAIN = Method((Centred(),), Clipped(), ())
METHODS = {
    "plain": PLAIN,
    "sequence-mean": Method((Centred(),), Clipped(reduction="sequence-mean"), ()),
    "length-constant": Method((Centred(),), Clipped(reduction="length-constant"), ()),
    "tokens": Method((Centred(), ByLogProb()), Clipped(), ()),
    "batch": Method((Centred(), ByLogProb(), ByBatchMean()), Clipped(), ()),
    "penalties": Method((Centred(),), Clipped(), (EntropyBonus(coefficient=0.1), ReferenceKl(weight=0.2))),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("epochs", [1, 3])
def test_micro_batches_change_nothing(name, epochs):
    method = METHODS[name]
    whole, metrics, _ = updated(method, reference=True, epochs=epochs)
    split, again, _ = updated(method, reference=True, epochs=epochs, token_budget=12)
    for parameter in whole:
        torch.testing.assert_close(split[parameter], whole[parameter], rtol=1e-4, atol=2e-5)
    assert again == pytest.approx(metrics, rel=1e-4, abs=1e-6)


def test_the_order_of_rows_changes_nothing():
    made = rows()
    shuffled = [made[place] for place in np.random.default_rng(1).permutation(len(made))]
    first, metrics, _ = updated(METHODS["tokens"], made, epochs=2)
    second, again, _ = updated(METHODS["tokens"], shuffled, epochs=2)
    for parameter in first:
        torch.testing.assert_close(second[parameter], first[parameter], rtol=1e-4, atol=2e-5)
    assert again == pytest.approx(metrics, rel=1e-4, abs=1e-6)


def test_the_first_pass_gives_the_old_log_probs_and_no_other_is_made():
    _, metrics, updater = updated(PLAIN, epochs=2)
    one_pass = sum(len(one.trajectory.token_ids) - 1 for one in rows()) + 5 * 4
    assert updater.policy.forward_tokens == 2 * one_pass
    assert metrics["ratio.start"] == 0.0
    assert metrics["ratio.max"] > 1


@pytest.mark.parametrize(("method", "optimizer"), [("batch", {}), ("plain", {"minibatches": 2})])
def test_a_pass_of_its_own_where_old_log_probs_are_needed_early(method, optimizer):
    _, metrics, updater = updated(METHODS[method], **optimizer)
    assert updater.policy.forward_tokens == 2 * (sum(len(one.trajectory.token_ids) - 1 for one in rows()) + 5 * 4)
    assert metrics["ratio.start"] == 0.0  # equal weights, equal micro-batches: equal bits


def test_minibatches_use_log_probs_from_before_the_first_update():
    model = tiny(torch.float32)
    before = TrainedPolicy(model)(batch_of(rows(), CPU), np.arange(15)).logprob_N.detach()
    seen = []

    class Watching(AdvantageStep):
        piece: ClassVar[str] = "watching"
        needs: ClassVar = "tokens"

        def __call__(self, tokens, advantage_N):
            seen.append(tokens.old_logprob_N.clone())
            return advantage_N

    updated(Method((Centred(), Watching()), Clipped(), ()), minibatches=3, epochs=2)
    torch.testing.assert_close(torch.cat(seen), before, rtol=0, atol=1e-5)


def test_a_step_on_rewards_behind_one_on_tokens_sees_whole_groups():
    sizes = []

    class Counting(AdvantageStep):
        piece: ClassVar[str] = "counting"

        def __call__(self, tokens, advantage_N):
            sizes.append(len(tokens.length_R))
            return advantage_N

    updated(Method((Centred(), ByLogProb(), Counting()), Clipped(), ()), token_budget=5)
    assert sizes == [15]


def test_the_loss_logged_is_that_of_the_whole_step():
    _, whole, _ = updated(METHODS["tokens"])
    _, split, _ = updated(METHODS["tokens"], token_budget=1)
    assert abs(whole["loss"]) > 1e-3
    assert split["loss"] == pytest.approx(whole["loss"], rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_gives_the_same_gradient_but_for_rounding(dtype):
    """Also where each token's share of the loss is far below what float16 can hold."""
    gradients = []
    for one in (torch.float32, dtype):
        model = tiny(torch.float32)
        settings = recipe()
        updater = Updater(TrainedPolicy(model, dtype=one), torch.optim.SGD(model.parameters(), 0.0), settings)
        updater(batch_of(rows(groups=60, each=4), CPU), Method((Centred(), Scaled()), Clipped(), ()))
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    exact, rounded = gradients
    assert float((rounded - exact).norm() / exact.norm()) < 0.05


def test_all_rewards_equal_moves_nothing_and_is_no_nan():
    made = [made_rollout((1, 2), (3, 4), group="g", reward=1.0, index=index) for index in range(4)]
    parameters, metrics, _ = updated(PLAIN, made)
    start = dict(tiny(torch.float32).named_parameters())
    assert metrics["gradient_norm"] == 0.0
    for name, parameter in parameters.items():
        torch.testing.assert_close(parameter, start[name], rtol=0, atol=1e-3)  # weight decay alone


def test_an_empty_batch_is_no_update():
    policy = TrainedPolicy(tiny(torch.float32))
    updater = Updater(policy, torch.optim.AdamW(policy.model.parameters()), recipe())
    assert updater(batch_of([], CPU), PLAIN) == {}


def test_a_gradient_that_is_not_finite_is_refused_before_it_reaches_the_weights():
    model = tiny(torch.float32)
    policy = TrainedPolicy(model)
    updater = Updater(policy, torch.optim.AdamW(model.parameters()), recipe())
    with pytest.raises(InputError, match="learning_rate"):
        updater(batch_of(rows(), CPU), Method((Centred(),), Overflowing(), ()))
    assert all(torch.isfinite(parameter).all() for parameter in model.parameters())
