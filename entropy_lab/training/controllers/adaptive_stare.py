"""STARE's weights, moved so that the entropy stays near a target."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from entropy_lab.training.controllers import Controller

ENTROPY = "entropy.token_mean"
LIFT, DAMP = "advantage.stare.lift", "advantage.stare.damp"


class AdaptiveStare(Controller):
    """STARE by need: lift ← clip(lift + step·s, 1, 1.5), damp ← clip(damp − step·s, .5, 1), s = sgn(target − H).

    After each iteration with entropy H (token mean, nats); an iteration without an entropy changes nothing.
    """

    piece: ClassVar[str] = "adaptive-stare"

    step: Annotated[float, Field(gt=0)] = 0.01
    target: Annotated[float, Field(ge=0)] = 0.3
    """In nats; that of the step `stare`."""
    lift: Annotated[float, Field(ge=1, le=1.5)] = 1.1
    damp: Annotated[float, Field(ge=0.5, le=1)] = 0.9

    def start(self) -> dict[str, float]:
        """The first weights."""
        return {LIFT: self.lift, DAMP: self.damp}

    def __call__(self, memory: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
        """The memory with the next iteration's weights."""
        entropy = metrics.get(ENTROPY)
        if entropy is None:
            return dict(memory)
        change = self.step * ((entropy < self.target) - (entropy > self.target))
        return {LIFT: min(max(memory[LIFT] + change, 1.0), 1.5), DAMP: min(max(memory[DAMP] - change, 0.5), 1.0)}
