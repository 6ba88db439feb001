"""DPO: preferences between two completions of a prompt, without a reward model."""

from typing import Annotated, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import softplus

from entropy_lab.errors import InputError
from entropy_lab.training.columns import needed
from entropy_lab.training.objectives import Objective, Outcome
from entropy_lab.training.tokens import Now, Tokens


class Dpo(Objective):
    """−log σ(β·[(logπ − logref)_chosen − (logπ − logref)_rejected]) of each pair (Rafailov et al. 2023).

    logπ and logref (nats) are sums over a row's tokens under the policy and under the checkpoint the run started from.
    A group is a pair of rows; the one with the larger reward was chosen. Every token of both rows carries the
    pair's loss, so that the mean over rows of their token means is the mean over pairs.
    """

    piece: ClassVar[str] = "dpo"
    needs_old: ClassVar[bool] = False
    needs_reference: ClassVar[bool] = True
    whole_groups: ClassVar[bool] = True

    reduction: Literal["sequence-mean"] = "sequence-mean"
    beta: Annotated[float, Field(gt=0)] = 0.1
    """How much a preference counts against the distance from the reference."""

    def __call__(self, now: Now, tokens: Tokens, advantage_N: Tensor) -> Outcome:
        """The loss of each token, (N,).

        Raises:
            InputError: a group that is not a pair, or one whose rewards are equal.
        """
        pair_R, sign_R = _pairs(tokens)
        gain_R = tokens.row_sum(now.logprob_N - needed(tokens.reference_logprob_N, "reference_logprob_N"))
        margin_G = gain_R.new_zeros(len(pair_R) // 2).index_add(0, pair_R, sign_R * gain_R)
        return Outcome(tokens.spread(softplus(-self.beta * margin_G)[pair_R]))


def _pairs(tokens: Tokens) -> tuple[Tensor, Tensor]:
    """The pair of each row, counted from 0, and 1 for chosen or −1 for rejected rows, each (R,)."""
    group_G, pair_R, count_G = torch.unique(tokens.group_R, return_inverse=True, return_counts=True)
    if bool((count_G != 2).any()):
        odd = int((count_G != 2).int().argmax())
        raise InputError(
            f"Group {int(group_G[odd])} has {int(count_G[odd])} rows, but dpo compares two; use an exploration that "
            "gives pairs."
        )
    mean_G = tokens.reward_R.new_zeros(len(group_G)).index_add(0, pair_R, tokens.reward_R / 2)
    sign_R = torch.sign(tokens.reward_R - mean_G[pair_R])
    if bool((sign_R == 0).any()):
        group = int(tokens.group_R[int((sign_R == 0).int().argmax())])
        raise InputError(
            f"Both rows of group {group} have the same reward, so dpo cannot tell chosen from rejected; leave such "
            "pairs out."
        )
    return pair_R, sign_R
