"""One iteration's updates: advantage steps, passes over the batch, gradients that do not depend on micro-batches.

The loss of an update is Σ weight · (objective + penalties) over all its tokens, accumulated over micro-batches whose
weights were fixed beforehand. Old log-probs are the first pass's own, detached, unless something needs them earlier.
Shape letters: R rows, N tokens of all rows, n tokens of a micro-batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import torch
from torch import Tensor

from entropy_lab.errors import InputError
from entropy_lab.training.advantages import AdvantageStep
from entropy_lab.training.batch import Batch, Ids, micro_batches, minibatches
from entropy_lab.training.objectives import Objective
from entropy_lab.training.penalties import Penalty
from entropy_lab.training.policy import TrainedPolicy
from entropy_lab.training.recipe import Recipe
from entropy_lab.training.reductions import reduction_weights
from entropy_lab.training.tokens import Now, Tokens
from entropy_lab.training.update_metrics import UpdateMetrics, old_metrics


@dataclass(frozen=True)
class Method:
    """The pieces of a recipe that an update uses."""

    advantage: Sequence[AdvantageStep]
    objective: Objective
    penalties: Sequence[Penalty]

    @property
    def needs_reference(self) -> bool:
        """Whether log-probs of the starting checkpoint are wanted."""
        return self.objective.needs_reference or any(one.needs_reference for one in self.penalties)

    @property
    def needs_teacher(self) -> bool:
        """Whether log-probs of a teacher are wanted."""
        return any(one.needs_teacher for one in self.advantage)

    @property
    def needs_value(self) -> bool:
        """Whether there is a value head."""
        return self.objective.needs_value or any(one.needs_value for one in self.advantage)

    @property
    def needs_batch(self) -> bool:
        """Whether old columns of all rows must be known before the first update.

        So that a step on grouped rewards never sees half a group, also where one stands behind a step on tokens.
        """
        later = [one.needs for one in self.advantage[len(self.from_rewards) :]]
        return self.objective.needs_batch or "batch" in later or "rewards" in later

    @property
    def from_rewards(self) -> Sequence[AdvantageStep]:
        """The leading steps that need the grouped rewards alone."""
        count = next((place for place, one in enumerate(self.advantage) if one.needs != "rewards"), len(self.advantage))
        return self.advantage[:count]


class Updater:
    """Updates `policy` by `method`; `sampled` is the policy that the rollouts came from, where that is another one."""

    def __init__(
        self,
        policy: TrainedPolicy,
        optimizer: torch.optim.Optimizer,
        recipe: Recipe,
        *,
        reference: TrainedPolicy | None = None,
        teacher: TrainedPolicy | None = None,
        sampled: TrainedPolicy | None = None,
    ) -> None:
        self.policy = policy
        self.optimizer = optimizer
        self.recipe = recipe
        self.reference = reference
        self.teacher = teacher
        self.sampled = sampled

    def __call__(self, batch: Batch, method: Method) -> dict[str, float]:
        """Run all updates of one iteration; the metrics of the whole iteration (nothing for an empty batch).

        Raises:
            InputError: a loss or a gradient is not finite; the weights are then those before that update.
        """
        if not len(batch):
            return {}
        metrics = UpdateMetrics()
        settings = self.recipe.optimizer
        parts = minibatches(batch, settings.minibatches)
        work = self._before(batch, method, early=len(parts) > 1 or self.sampled is not None)
        for epoch in range(settings.epochs):
            for rows in parts:
                self._update(batch, rows, method, work, epoch == 0, metrics)
        return {**metrics.summary(), **old_metrics(work.tokens)}

    def _before(self, batch: Batch, method: Method, early: bool) -> "_Work":
        """Columns and advantages as far as they are known before the first update, and the steps that remain."""
        tokens = batch.tokens
        if self.reference is not None and method.needs_reference:
            reference = self._columns(self.reference, batch, method)
            tokens = replace(tokens, reference_logprob_N=reference.logprob_N)
        if self.teacher is not None and method.needs_teacher:
            teacher = self._columns(self.teacher, batch, method)
            tokens = replace(tokens, teacher_logprob_N=teacher.logprob_N)
        known = method.needs_batch or (early and method.objective.needs_old)
        advantage_N = torch.zeros(int(tokens.length_R.sum()), device=self.policy.device)
        if known:
            old = self._columns(self.sampled or self.policy, batch, method)
        else:
            empty = advantage_N.clone
            old = Now(empty(), empty(), value_N=empty() if method.needs_value else None)
        steps = method.advantage if known else method.from_rewards
        for step in steps:
            advantage_N = step(tokens if not known else _with_old(tokens, old), advantage_N)
        tokens = _with_old(tokens, old)
        if method.objective.needs_batch:
            tokens = replace(tokens, mark_N=method.objective.mark(tokens, advantage_N))
        return _Work(tokens, advantage_N, () if known else method.advantage[len(steps) :], known)

    @torch.no_grad()
    def _columns(self, policy: TrainedPolicy, batch: Batch, method: Method) -> Now:
        """Columns of all rows, in the micro-batches of the update, so that equal weights give equal bits."""
        parts = [
            part
            for rows in minibatches(batch, self.recipe.optimizer.minibatches)
            for part in self._cut(batch, rows, method)
        ]
        found = [policy(batch, part) for part in parts]
        index = torch.cat([batch.tokens.token_index(self._tensor(part)) for part in parts])

        def whole(column: str) -> Tensor | None:
            values = [getattr(one, column) for one in found]
            if values[0] is None:
                return None
            value_N = torch.cat(values).to(index.device)  # a teacher may live elsewhere
            return torch.empty_like(value_N).index_copy_(0, index, value_N)

        return Now(cast(Tensor, whole("logprob_N")), cast(Tensor, whole("entropy_N")), value_N=whole("value_N"))

    def _update(
        self, batch: Batch, rows: Ids, method: Method, work: "_Work", first: bool, metrics: UpdateMetrics
    ) -> None:
        """One optimizer step on `rows`; the first pass over them leaves its own columns in `work` as the old ones."""
        index_N = work.tokens.token_index(self._tensor(rows))
        weight_N = torch.zeros_like(work.advantage_N)
        weight_N[index_N] = reduction_weights(
            method.objective.reduction, work.tokens.length_R[self._tensor(rows)], self.recipe.sampling.max_new_tokens
        )
        # Divided by its tokens, a token's loss would underflow in float16; a power of two costs no rounding.
        scale = 2.0 ** len(index_N).bit_length() if self.policy.dtype == torch.float16 else 1.0
        self.optimizer.zero_grad(set_to_none=True)
        for part in self._cut(batch, rows, method):
            index_n = work.tokens.token_index(self._tensor(part))
            now = self.policy(batch, part)
            if first and not work.known:
                work.remember(now, index_n)
            tokens = work.tokens.of_rows(self._tensor(part))
            if first and work.later:
                advantage_n = work.advantage_N[index_n]
                for step in work.later:
                    advantage_n = step(tokens, advantage_n)
                work.advantage_N[index_n] = advantage_n
            outcome = method.objective(now, tokens, work.advantage_N[index_n])
            loss_n = outcome.loss_N
            for penalty in method.penalties:
                loss_n = loss_n + penalty(now, tokens)
            loss = (weight_N[index_n] * loss_n).sum()
            (loss * scale).backward()
            metrics.add(loss.detach(), outcome, now, tokens)
        for parameter in self._parameters():
            if parameter.grad is not None and scale != 1:
                parameter.grad /= scale
        norm = torch.nn.utils.clip_grad_norm_(self._parameters(), self.recipe.optimizer.clip_norm)
        if not torch.isfinite(norm):
            raise InputError(
                f"The gradient's norm is {norm.item()}: the run has diverged, or a number format overflows; lower "
                "optimizer.learning_rate or train with numerics.dtype = float32. The last checkpoint kept is sound."
            )
        self.optimizer.step()
        metrics.stepped(norm)

    def _parameters(self) -> list[torch.nn.Parameter]:
        return [parameter for group in self.optimizer.param_groups for parameter in group["params"]]

    def _cut(self, batch: Batch, rows: Ids, method: Method) -> list[Ids]:
        return micro_batches(batch, rows, self.recipe.optimizer.token_budget, method.objective.whole_groups)

    def _tensor(self, rows: Ids) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(rows)).to(self.policy.device)


@dataclass
class _Work:
    """What changes while an iteration is trained on: old columns and advantages, filled by the first pass if not yet
    `known`, and the advantage steps that remain for it."""

    tokens: Tokens
    advantage_N: Tensor
    later: Sequence[AdvantageStep]
    known: bool

    def remember(self, now: Now, index_n: Tensor) -> None:
        """Take a micro-batch's columns as the old ones."""
        pairs = (
            (self.tokens.old_logprob_N, now.logprob_N),
            (self.tokens.old_entropy_N, now.entropy_N),
            (self.tokens.old_value_N, now.value_N),
        )
        for old, new in pairs:
            if old is not None and new is not None:
                old[index_n] = new.detach()


def _with_old(tokens: Tokens, old: Now) -> Tokens:
    return replace(tokens, old_logprob_N=old.logprob_N, old_entropy_N=old.entropy_N, old_value_N=old.value_N)
