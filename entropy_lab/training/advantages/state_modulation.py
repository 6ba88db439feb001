"""FR3E's modulation: states that raise the chance of success are trained on less, states that lower it more.

Shape letters: T trees, S states of a tree, root first; R rows.
"""

from typing import ClassVar

import torch
from torch import Tensor

from entropy_lab.errors import InputError
from entropy_lab.training.advantages import AdvantageStep
from entropy_lab.training.tokens import Tokens

POWER = 1.5


class StateModulation(AdvantageStep):
    """A′ = A·exp(−Δ_j) by the state j that a row continues: FR3E's modulation of advantages.

    Δ_j = V_j − V_{j−1} is what reaching state j adds to its value V, the mean reward of its continuations; at the root
    Δ_0 = 1 − V_0, 1 being the reward of a correct answer (Zheng et al. 2025). The factor is positive, so signs survive.
    A value that is unknown (NaN) leaves the states it would be compared with unchanged (ours). V = .25, .5, .375, .8125
    give the factors .4724, .7788, 1.1331, .6456, and .5565, .8933, 1.0407, .7702 with `sharpen`.
    """

    piece: ClassVar[str] = "state-modulation"

    sharpen: bool = False
    """Replace Δ by sign(Δ)·|Δ|^1.5 / Σ|Δ|^1.5, summed over a tree's root and states (all 0: 0)."""

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,), times the factor of its row's state."""
        trees = tokens.trees
        if trees is None:
            raise InputError(
                'advantage step state-modulation: these rows belong to no tree; use exploration.piece = "fr3e", '
                "which makes trees, or leave the step out of [[advantage]]."
            )
        delta_TS = _steps(trees.value_TS)
        if self.sharpen:
            power_TS = delta_TS.abs().pow(POWER)
            total_T1 = power_TS.sum(1, keepdim=True)
            delta_TS = delta_TS.sign() * power_TS / total_T1.masked_fill(total_T1 == 0, 1.0)
        factor_R = torch.exp(-delta_TS[trees.tree_R, trees.state_R])
        return advantage_N * tokens.spread(factor_R.to(advantage_N))


def _steps(value_TS: Tensor) -> Tensor:
    """Δ of every state, 0 where a value is unknown."""
    root_T1 = 1 - value_TS[:, :1]
    return torch.cat((root_T1, value_TS.diff(dim=1)), 1).nan_to_num(0.0)
