"""ADAPO: the upper clip bound opens while entropy is too low and closes while it is too high."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from entropy_lab.training.controllers import Controller

ENTROPY = "entropy.token_mean"
HIGH = "objective.high"


class Adapo(Controller):
    """ε_high grows by `factor` an iteration while H < target and shrinks while H > target; ε_low stays: ADAPO.

    H is the token-mean entropy in nats, the target that of the first iteration unless given; ε_high begins at `first`
    and stays within [.05, 1] (factor and bounds are ours). An iteration without an entropy changes nothing.
    """

    piece: ClassVar[str] = "adapo"

    first: Annotated[float, Field(ge=0.05, le=1)] = 0.28
    """ε_high of the first iteration."""
    factor: Annotated[float, Field(gt=1)] = 1.1
    target: Annotated[float, Field(ge=0)] | None = None

    def start(self) -> dict[str, float]:
        """The first bound."""
        memory = {HIGH: self.first}
        return memory if self.target is None else {**memory, "target": self.target}

    def __call__(self, memory: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
        """The memory with the next iteration's bound."""
        entropy = metrics.get(ENTROPY)
        if entropy is None:
            return dict(memory)
        target = memory.get("target", entropy)
        push = (entropy < target) - (entropy > target)
        return {HIGH: min(max(memory[HIGH] * self.factor**push, 0.05), 1.0), "target": target}
