"""REINFORCE: the policy gradient itself, for batches that the policy has just sampled."""

from typing import ClassVar

from torch import Tensor

from entropy_lab.training.objectives import Objective, Outcome
from entropy_lab.training.tokens import Now, Tokens


class Reinforce(Objective):
    """−A·logp: the plain policy gradient, without a ratio (Williams 1992; RLOO, Ahmadian et al. 2024).

    logp (nats) the log-prob of each token, A its advantage. Right for one update an iteration: a second one would
    take the batch for the new policy's own.
    """

    piece: ClassVar[str] = "reinforce"
    needs_old: ClassVar[bool] = False

    def __call__(self, now: Now, tokens: Tokens, advantage_N: Tensor) -> Outcome:
        """The loss of each token, (N,)."""
        return Outcome(-advantage_N * now.logprob_N)
