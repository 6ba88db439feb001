"""What an iteration's updates are seen by: sums over every token of every update, so nothing depends on micro-batches.

Names as in `metrics.jsonl`; entropies and log-probs in nats.
"""

import torch
from torch import Tensor

from entropy_lab.training.objectives import Outcome
from entropy_lab.training.tokens import Now, Tokens

EARLY = 8  # tokens of a completion that count as its beginning; as in the diagnosis


class UpdateMetrics:
    """Running sums of one iteration."""

    def __init__(self) -> None:
        self._tokens = 0
        self._sums: dict[str, float] = {}
        self._largest = 0.0
        self._at_start: float | None = None
        self._updates = 0
        self._norm = 0.0

    def add(self, loss: Tensor, outcome: Outcome, now: Now, tokens: Tokens) -> None:
        """Count one micro-batch; `loss` is its share of the update's loss."""
        self._sums["loss"] = self._sums.get("loss", 0.0) + float(loss)
        count = len(now.logprob_N)
        self._tokens += count
        if outcome.low_N is not None and outcome.high_N is not None:
            self._count("clip.low", outcome.low_N)
            self._count("clip.high", outcome.high_N)
        if tokens.old_logprob_N is not None:
            ratio_N = torch.exp((now.logprob_N.detach() - tokens.old_logprob_N).clamp(max=80.0))
            self._count("ratio.mean", ratio_N)
            self._largest = max(self._largest, float(ratio_N.max()))
            if self._updates == 0:
                self._at_start = max(self._at_start or 0.0, float((ratio_N - 1).abs().max()))
        if tokens.reference_logprob_N is not None:
            difference_N = tokens.reference_logprob_N - now.logprob_N.detach()
            self._count("kl.reference", difference_N.expm1() - difference_N)

    def stepped(self, norm: Tensor) -> None:
        """Count one optimizer step; `norm` is the gradient's before clipping."""
        self._updates += 1
        self._norm += float(norm)

    def summary(self) -> dict[str, float]:
        """Means over all tokens (ratios, clips, KL) or updates (loss, gradient norm).

        `ratio.start` is the largest |ratio − 1| of the first update, where weights are those of the old log-probs.
        """
        per_token = {name: total / self._tokens for name, total in self._sums.items() if name != "loss"}
        found = {"loss": self._sums["loss"] / self._updates, "gradient_norm": self._norm / self._updates, **per_token}
        if self._at_start is not None:
            found |= {"ratio.max": self._largest, "ratio.start": self._at_start}
        return found

    def _count(self, name: str, value_N: Tensor) -> None:
        self._sums[name] = self._sums.get(name, 0.0) + float(value_N.sum(dtype=torch.float64))


def old_metrics(tokens: Tokens) -> dict[str, float]:
    """Entropy of the trained tokens under the old policy, and how far the sampler's log-probs are from its own.

    `kl.teacher` estimates KL(old policy ‖ teacher) on these tokens by k3, which varies less than the plain mean.
    `entropy.problem_mean` is the mean over groups of the mean over rows of their token means.
    """
    found: dict[str, float] = {}
    if tokens.old_entropy_N is not None:
        entropy_N = tokens.old_entropy_N.double()
        rows_R = tokens.row_mean(entropy_N)
        _, group_R = torch.unique(tokens.group_R, return_inverse=True)
        sums = rows_R.new_zeros(int(group_R.max()) + 1).index_add(0, group_R, rows_R)
        starts_R = tokens.length_R.cumsum(0) - tokens.length_R
        early_N = torch.arange(len(entropy_N), device=entropy_N.device) - tokens.spread(starts_R) < EARLY
        found |= {
            "entropy.token_mean": float(entropy_N.mean()),
            "entropy.problem_mean": float((sums / torch.bincount(group_R)).mean()),
            "entropy.early": float(entropy_N[early_N].mean()),
        }
    if tokens.old_logprob_N is not None and tokens.teacher_logprob_N is not None:
        difference_N = (tokens.teacher_logprob_N - tokens.old_logprob_N).double()
        found["kl.teacher"] = float((difference_N.expm1() - difference_N).mean())
    if tokens.old_logprob_N is not None and tokens.sampler_logprob_N is not None:
        gap_N = (tokens.sampler_logprob_N - tokens.old_logprob_N).abs().double()
        found |= {"sampler_gap.mean": float(gap_N.mean()), "sampler_gap.max": float(gap_N.max())}
    return found
