"""When SAF's teacher is listened to: a warm-up that ends early once the policy is near, then an annealing."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from entropy_lab.training.controllers import Controller

FACTOR = "advantage.saf.factor"
KL = "kl.teacher"


class SafSchedule(Controller):
    """factor = warm-up · annealing of the teacher's part of the advantage: stages 3 and 4 of SAF.

    Warm-up: min(step/warmup, 1), where step counts iterations from 0; it ends early, frozen at the value it has, once
    (KL₀ − KL)/KL₀ ≥ `near`, KL₀ being that of the first iteration (metric `kl.teacher`; no early end where KL₀ ≤ 0:
    ours). Annealing: floor + (1 − floor)·max(0, 1 − t/anneal), whose counter t starts with the warm-up's end (ours).
    """

    piece: ClassVar[str] = "saf-schedule"

    warmup: Annotated[int, Field(ge=0)] = 100
    """Iterations; 0: no warm-up, the annealing goes on as before."""
    near: Annotated[float, Field(gt=0, le=1)] = 0.2
    anneal: Annotated[int, Field(ge=0)] = 200
    """Iterations; 0: no annealing."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Where the annealing ends (ours)."""

    def start(self) -> dict[str, float]:
        """Before the first iteration."""
        return self._told({"step": 0.0, "t": 0.0, "warm": 0.0 if self.warmup else 1.0, "ended": float(not self.warmup)})

    def __call__(self, memory: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
        """The memory with the next iteration's factor."""
        after = dict(memory)
        after["step"] += 1
        if after["ended"]:
            after["t"] += 1
            return self._told(after)
        kl = metrics.get(KL)
        if kl is not None:
            first = after.setdefault("kl0", kl)
            if first > 0 and (first - kl) / first >= self.near:
                after["ended"] = 1.0
                return self._told(after)
        after["warm"] = min(after["step"] / self.warmup, 1.0)
        after["ended"] = float(after["warm"] == 1)
        return self._told(after)

    def _told(self, memory: dict[str, float]) -> dict[str, float]:
        left = max(0.0, 1 - memory["t"] / self.anneal) if self.anneal else 1.0
        return {**memory, FACTOR: memory["warm"] * (self.floor + (1 - self.floor) * left)}
