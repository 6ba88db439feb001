"""Correcting for a sampler whose log-probs are not quite the trainer's."""

from typing import Annotated, ClassVar

from pydantic import Field
from torch import Tensor

from entropy_lab.errors import InputError
from entropy_lab.training.advantages import AdvantageStep, Needs
from entropy_lab.training.columns import needed
from entropy_lab.training.tokens import Tokens


class TruncatedImportance(AdvantageStep):
    """A′ = A·min(exp(old − sampler), cap): truncated importance correction of the gap between sampler and trainer.

    `old` is the log-prob of each token from the trainer's own pass before the update, `sampler` the engine's of the
    distribution it drew from, in nats (Yao et al. 2025). The weight carries no gradient and never changes a sign.
    """

    piece: ClassVar[str] = "truncated-importance"

    cap: Annotated[float, Field(gt=0)] = 2.0
    """The largest weight."""

    @property
    def needs(self) -> Needs:
        """See `AdvantageStep`."""
        return "tokens"

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        """The advantage of every token, (N,), times its weight."""
        if tokens.sampler_logprob_N is None:
            raise InputError(
                "advantage step truncated-importance: these rows carry no log-probs of the sampler "
                "(sampler_logprob_N); use an exploration that samples, or leave the step out of [[advantage]]."
            )
        old_N = needed(tokens.old_logprob_N, "old_logprob_N")
        weight_N = (old_N - tokens.sampler_logprob_N).detach().exp().clamp(max=self.cap)
        return advantage_N * weight_N.to(advantage_N)
