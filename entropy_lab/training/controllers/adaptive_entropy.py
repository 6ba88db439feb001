"""Holding the entropy above a target by the coefficient of the entropy bonus."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from entropy_lab.training.controllers import Controller

ENTROPY = "entropy.token_mean"


class AdaptiveEntropy(Controller):
    """Entropy bonus by need: its coefficient grows below a target entropy, shrinks above, and is 0 unless below.

    After each iteration with entropy H (token mean, nats) a level c ≥ 0, which starts at 0, becomes c + step for
    H < target and c − step for H > target; the coefficient of the next iteration is c for H < target, else 0 (Skywork
    Open Reasoner 1, He et al. 2025). An iteration without an entropy changes nothing.
    """

    piece: ClassVar[str] = "adaptive-entropy"

    penalty: Literal["entropy-bonus", "paired-entropy-bonus"] = "entropy-bonus"
    """The penalty whose coefficient is set."""
    step: Annotated[float, Field(gt=0)] = 0.005
    target: Annotated[float, Field(ge=0)] | None = None
    """In nats; None takes the entropy of the first iteration."""

    def start(self) -> dict[str, float]:
        """No bonus yet."""
        memory = {self._path: 0.0, "level": 0.0}
        return memory if self.target is None else {**memory, "target": self.target}

    def __call__(self, memory: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
        """The memory with the next iteration's coefficient."""
        entropy = metrics.get(ENTROPY)
        if entropy is None:
            return dict(memory)
        target = memory.get("target", entropy)
        change = self.step * ((entropy < target) - (entropy > target))
        level = max(0.0, memory["level"] + change)
        return {self._path: level if entropy < target else 0.0, "level": level, "target": target}

    @property
    def _path(self) -> str:
        return f"penalties.{self.penalty}.coefficient"
