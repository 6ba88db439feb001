"""A soft limit of length: completions are penalised before they reach the hard one."""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from entropy_lab.training.rewards import Reward
from entropy_lab.training.rollout import Rollout

Tokens = Annotated[int, Field(gt=0)]


class Overlong(Reward):
    """min(−(length − (limit − cache))/cache, 0): DAPO's soft penalty of overlong completions.

    length counts the tokens of a completion, given and drawn (Yu et al. 2025). The penalty grows linearly over the last
    `cache` tokens before `limit`, from 0 to −1, and on at the same slope beyond. The paper has limit = 20480 and
    cache = 4096: 16384 tokens give 0, 18432 give −.5, 20480 give −1.
    """

    piece: ClassVar[str] = "overlong"

    limit: Tokens
    """The length that costs 1, in tokens; usually `sampling.max_new_tokens`."""
    cache: Tokens
    """How many tokens before the limit the penalty begins."""

    @model_validator(mode="after")
    def _cache_fits(self) -> Self:
        if self.cache > self.limit:
            raise ValueError(f"cache = {self.cache} must not be larger than limit = {self.limit}")
        return self

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        """The penalty of each rollout, at most 0."""
        return [self._penalty(len(one.prefix_ids) + len(one.trajectory.token_ids)) for one in rollouts]

    def _penalty(self, length: int) -> float:
        return min((self.limit - self.cache - length) / self.cache, 0.0)
