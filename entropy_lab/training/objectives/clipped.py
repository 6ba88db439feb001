"""The clipped surrogate of PPO in the forms of GRPO, Dr.GRPO, DAPO, FR3E, GSPO and LOOP."""

from typing import ClassVar, Literal

from torch import Tensor

from entropy_lab.training.clipping import Dual, High, Low, clipped_surrogate, log_ratio, ratio_of
from entropy_lab.training.objectives import Objective, Outcome
from entropy_lab.training.tokens import Now, Tokens


class Clipped(Objective):
    """−min(r·A, clip(r)·A): the clipped surrogate of GRPO, DAPO, Dr.GRPO, FR3E, GSPO and LOOP.

    r = exp(logp − old) of each token, held within [1 − low, 1 + high] (Schulman et al. 2017; high > low is DAPO's
    clip-higher).
    """

    piece: ClassVar[str] = "clipped"

    low: Low = 0.2
    high: High = 0.2
    dual: Dual = 0.0
    """Dual clip c > 1 (3 or 10 in use; Ye et al. 2020): the loss of a token with A < 0 is at most −c·A. 0: off."""
    level: Literal["token", "sequence"] = "token"
    """`sequence` is GSPO (Zheng et al. 2025): all tokens of a row share s = exp(mean log-ratio of the row) for r, and
    the row's mean advantage; GSPO's bounds are 3e-4 and 4e-4, its reduction `sequence-mean`."""
    symmetric_in_log: bool = False
    """Bounds [1/(1 + low), 1 + high] (LOOP, Chen et al. 2025, with .1 for both), at equal distances of log r."""

    def __call__(self, now: Now, tokens: Tokens, advantage_N: Tensor) -> Outcome:
        """The loss of each token, (N,), and the tokens cut off: on the sequence level whole rows."""
        log_ratio_N = log_ratio(now, tokens)
        if self.level == "sequence":
            log_ratio_N = tokens.spread(tokens.row_mean(log_ratio_N))
            advantage_N = tokens.spread(tokens.row_mean(advantage_N))
        lower = 1 / (1 + self.low) if self.symmetric_in_log else 1 - self.low
        return clipped_surrogate(ratio_of(log_ratio_N), advantage_N, lower, 1 + self.high, self.dual)
