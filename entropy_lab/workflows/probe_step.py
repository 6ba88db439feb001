"""One plain gradient step of a recipe on the real weights, watched, and taken back to the last bit.

Shape letters: N tokens of all rows of the batch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import PrivateAttr
from torch import Tensor

from entropy_lab.errors import InputError
from entropy_lab.training.assembly import Assembly, method_of
from entropy_lab.training.batch import Batch, micro_batches
from entropy_lab.training.penalties import Penalty
from entropy_lab.training.recipe import Recipe
from entropy_lab.training.recipe_files import with_field
from entropy_lab.training.reductions import reduction_weights
from entropy_lab.training.tokens import Now, Tokens
from entropy_lab.workflows.probe_positions import Direction

Floats = NDArray[np.float64]
UNCLIPPED = 1e30
"""A gradient norm that no step reaches."""


class Watch(Penalty):
    """Adds nothing to the loss; keeps the columns of every micro-batch, whose gradients are then the loss's own."""

    piece: ClassVar[str] = "watch"

    _seen: list[Now] = PrivateAttr(default_factory=list)

    def __call__(self, now: Now, tokens: Tokens) -> Tensor:
        """Zeros, (N,)."""
        now.logprob_N.retain_grad()
        now.entropy_N.retain_grad()
        self._seen.append(now)
        return torch.zeros_like(now.logprob_N, requires_grad=False)

    def gradients(self) -> tuple[Tensor, Tensor]:
        """∂loss/∂logp and ∂loss/∂H of every token seen, in that order."""

        def of(column_N: Tensor) -> Tensor:
            return torch.zeros_like(column_N) if column_N.grad is None else column_N.grad

        logprobs, entropies = ([of(getattr(one, name)) for one in self._seen] for name in ("logprob_N", "entropy_N"))
        return torch.cat(logprobs).detach(), torch.cat(entropies).detach()


@dataclass(frozen=True)
class Step:
    """The step θ ← θ − η·g: `gradient` is g, weight by weight.

    `advantage_N` is −∂loss/∂logp and `bonus_N` −∂loss/∂H of each token, per unit of the weight that the loss gives it;
    `weight_N` has mean 1. On fresh samples the first is the advantage of the recipe's last advantage step.
    """

    gradient: Direction
    advantage_N: Floats
    bonus_N: Floats
    weight_N: Floats


def plain(recipe: Recipe) -> Recipe:
    """The recipe with one update over the whole batch, float32 throughout and no clipping of the gradient."""
    settings = {
        "optimizer.epochs": 1,
        "optimizer.minibatches": 1,
        "optimizer.clip_norm": UNCLIPPED,
        "numerics.dtype": "float32",
        "sampling.staleness": 0,
    }
    for path, value in settings.items():
        recipe = with_field(recipe, path, value)
    return recipe


@contextmanager
def stepped(parts: Assembly, recipe: Recipe, batch: Batch, rate: float) -> Iterator[Step]:
    """Hold the weights one plain step of size `rate` from where they were; afterwards they are what they were.

    `recipe` is a `plain` one, `parts` put together from it.

    Raises:
        InputError: the gradient is zero or not finite.
    """
    weights = list(parts.parameters.values())
    kept = [weight.detach().clone() for weight in weights]
    watch, method = Watch(), method_of(recipe)
    parts.updater.optimizer = torch.optim.SGD(weights, lr=rate)
    try:
        parts.updater(batch, replace(method, penalties=(*method.penalties, watch)))
        gradient = [(weight, weight.grad.detach()) for weight in weights if weight.grad is not None]
        if not any(bool(one.any()) for _, one in gradient):
            raise InputError(
                f"Recipe {recipe.name}: the gradient of its loss is 0 on these {len(batch)} trajectories, so nothing "
                "would change; give more problems or samples, or problems that the policy solves now and then."
            )
        yield Step(gradient, *_loss_columns(watch, recipe, batch))
    finally:
        with torch.no_grad():
            for weight, before in zip(weights, kept, strict=True):
                weight.copy_(before)
                weight.grad = None


def _loss_columns(watch: Watch, recipe: Recipe, batch: Batch) -> tuple[Floats, Floats, Floats]:
    """Advantages, bonuses and weights in the order of the batch's tokens."""
    objective, tokens = recipe.objective, batch.tokens
    parts = micro_batches(batch, np.arange(len(batch)), recipe.optimizer.token_budget, objective.whole_groups)
    rows = torch.from_numpy(np.concatenate(parts)).to(tokens.length_R.device)
    weight_N = reduction_weights(objective.reduction, tokens.length_R, recipe.sampling.max_new_tokens)
    place_N = tokens.token_index(rows)
    columns = [torch.empty_like(weight_N).index_copy_(0, place_N, -one) for one in watch.gradients()]
    advantage_N, bonus_N = ((one / weight_N).double().cpu().numpy() for one in columns)
    return advantage_N, bonus_N, (weight_N / weight_N.mean()).double().cpu().numpy()
