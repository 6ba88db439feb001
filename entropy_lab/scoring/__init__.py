"""Trajectories in, exact token statistics out: the kernel, the model's head, the teacher-forced pass."""

from entropy_lab.scoring.kernel import statistics_from_logits, token_statistics
from entropy_lab.scoring.moments import NonFiniteLogits, TokenStatistics

__all__ = ["NonFiniteLogits", "TokenStatistics", "statistics_from_logits", "token_statistics"]
