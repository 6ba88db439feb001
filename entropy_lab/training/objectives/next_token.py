"""Next-token prediction: supervised training on demonstrations."""

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from entropy_lab.training.columns import needed
from entropy_lab.training.objectives import Objective, Outcome
from entropy_lab.training.tokens import Now, Tokens


class NextToken(Objective):
    """−logp of each completion token, with label smoothing as an option: supervised fine-tuning.

    With smoothing s: (1 − s)·(−logp) + s·(−(1/V)·Σ_v log p_v), the cross-entropy (nats) to a target that gives each of
    the V tokens s/V and the right one 1 − s more (Szegedy et al. 2016). A model that caps its logits takes s = 0 only.
    """

    piece: ClassVar[str] = "next-token"
    needs_old: ClassVar[bool] = False
    needs_uniform: ClassVar[bool] = True

    label_smoothing: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """s; 0 is the plain cross-entropy."""

    def __call__(self, now: Now, tokens: Tokens, advantage_N: Tensor) -> Outcome:
        """The loss of each token, (N,); advantages are not looked at."""
        if not self.label_smoothing:
            return Outcome(-now.logprob_N)
        uniform_N = needed(now.uniform_logprob_N, "uniform_logprob_N")
        return Outcome(-(1 - self.label_smoothing) * now.logprob_N - self.label_smoothing * uniform_N)
