"""REPO's ζ, doubled and halved so that the entropy stays near a target."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from entropy_lab.training.controllers import Controller

ENTROPY = "entropy.token_mean"
BOUNDS = {"repo-r": (1e-4, 0.05), "repo-d": (1e-3, 10.0)}
"""The least and the largest |ζ| of each step."""
START = {"repo-r": 1e-3, "repo-d": 0.01}


class Zeta(Controller):
    """ζ by need: doubled below the target entropy, halved above, within its bounds (REPO).

    Once an iteration with entropy H (token mean, nats). REPO-R, |ζ| in [1e-4, .05]: above the target a positive ζ is
    halved and turns to −1e-4 where that goes below the least, a negative one is doubled; below the target the mirror
    image; 0 goes to ±1e-4. REPO-D, ζ in [1e-3, 10]: halved above and doubled below. At the target nothing changes.
    """

    piece: ClassVar[str] = "zeta"

    step: Literal["repo-r", "repo-d"] = "repo-r"
    """The advantage step whose ζ is set."""
    target: Annotated[float, Field(ge=0)] | None = None
    """In nats; None takes the entropy of the first iteration."""

    def start(self) -> dict[str, float]:
        """The step's first ζ: 1e-3 for REPO-R, .01 for REPO-D (ours)."""
        memory = {self._path: START[self.step]}
        return memory if self.target is None else {**memory, "target": self.target}

    def __call__(self, memory: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
        """The memory with the next iteration's ζ."""
        entropy = metrics.get(ENTROPY)
        if entropy is None:
            return dict(memory)
        target = memory.get("target", entropy)
        need = (entropy < target) - (entropy > target)
        least, largest = BOUNDS[self.step]
        zeta = memory[self._path]
        if need and self.step == "repo-d":
            zeta = min(max(zeta * 2.0**need, least), largest)
        elif need:
            zeta = need * _towards(need * zeta, least, largest)
        return {self._path: zeta, "target": target}

    @property
    def _path(self) -> str:
        return f"advantage.{self.step}.zeta"


def _towards(zeta: float, least: float, largest: float) -> float:
    """ζ after one push upwards; the push downwards is its mirror image."""
    if zeta > 0:
        return min(max(2 * zeta, least), largest)
    return zeta / 2 if zeta / 2 <= -least else least
