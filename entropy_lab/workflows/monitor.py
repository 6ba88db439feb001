"""`monitor`: a training log in, of any trainer; a verdict on its entropy out."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np

from entropy_lab.diagnostics.ceiling_law import CeilingLaw, fit_ceiling
from entropy_lab.diagnostics.entropy_alarms import Alarm, Verdict, collapse, early_drop, explosion
from entropy_lab.errors import InputError
from entropy_lab.monitoring.curves import KEYS, Curve, curve, known_names
from entropy_lab.monitoring.rows import read_log


@dataclass(frozen=True)
class MonitorPlan:
    """What is watched: the log, the names of its columns where they are unusual, and the early-drop rule."""

    log: Path
    keys: Mapping[str, str] = field(default_factory=dict)
    first_step: float = 10
    last_step: float = 150
    most: float = 0.5


@dataclass(frozen=True)
class Monitored:
    """What a log says: its curves, the alarms, the ceiling law or why there is none."""

    kind: str
    entropy: Curve
    reward: Curve | None
    alarms: tuple[Alarm, ...]
    ceiling: CeilingLaw | str
    notes: tuple[str, ...]

    @property
    def verdict(self) -> Verdict:
        """`fail` if any alarm rings; `pass` if all rules had enough to go by and none rings."""
        found = {alarm.verdict for alarm in self.alarms}
        return "fail" if "fail" in found else "not enough" if "not enough" in found else "pass"

    def document(self) -> dict[str, Any]:
        """As one JSON document; numbers that do not exist are null."""
        law = self.ceiling if isinstance(self.ceiling, str) else asdict(self.ceiling)
        if isinstance(law, dict) and not np.isfinite(law["r2"]):
            law["r2"] = None
        return {
            "verdict": self.verdict,
            "log": self.kind,
            "alarms": [asdict(alarm) for alarm in self.alarms],
            "entropy": {"key": self.entropy.key, **_ends(self.entropy)},
            "reward": None if self.reward is None else {"key": self.reward.key, **_ends(self.reward)},
            "ceiling": law,
            "notes": list(self.notes),
        }


def monitor(plan: MonitorPlan) -> Monitored:
    """Read the log as it is now and judge it.

    Raises:
        InputError: the log cannot be read, or holds no entropy.
    """
    if not plan.first_step < plan.last_step:
        raise InputError(f"--first-step {plan.first_step:g} must lie before --last-step {plan.last_step:g}.")
    log = read_log(plan.log, plan.keys.get("step"))
    if not log.rows:
        raise InputError(f"{plan.log} holds no rows yet; --follow waits for them.")
    entropy = curve(log, "entropy", plan.keys.get("entropy"))
    if entropy is None or not len(entropy.steps):
        there = ", ".join(known_names(log.rows)[:40]) or "no numbers"
        raise InputError(
            f"{plan.log} ({log.kind}) has no entropy under {', '.join(KEYS['entropy'])}; "
            f"name it with --key entropy=NAME. It has {there}."
        )
    reward = curve(log, "reward", plan.keys.get("reward"))
    alarms = (
        early_drop(entropy.steps, entropy.values, plan.first_step, plan.last_step, plan.most),
        collapse(entropy.values),
        explosion(entropy.values),
    )
    return Monitored(log.kind, entropy, reward, alarms, _ceiling(entropy, reward), log.notes)


def follow(plan: MonitorPlan, every: float) -> Iterator[Monitored]:
    """Judge the log again each time it has a new step, until an alarm rings; a log that is not there yet is awaited."""
    seen: tuple[int, float] | None = None
    while True:
        try:
            found = monitor(plan)
        except InputError:
            if plan.log.exists() and seen is None and not _may_still_come(plan):
                raise
        else:
            now = (len(found.entropy.steps), float(found.entropy.steps[-1]))
            if now != seen:
                seen = now
                yield found
            if found.verdict == "fail":
                return
        sleep(every)


def _may_still_come(plan: MonitorPlan) -> bool:
    """Whether an entropy may follow: the log holds nothing yet."""
    try:
        return not read_log(plan.log, plan.keys.get("step")).rows
    except InputError:
        return plan.log.is_dir()


def _ceiling(entropy: Curve, reward: Curve | None) -> CeilingLaw | str:
    if reward is None:
        return "the log has no reward"
    _, here, there = np.intersect1d(entropy.steps, reward.steps, return_indices=True)
    return fit_ceiling(entropy.values[here], reward.values[there])


def _ends(one: Curve) -> dict[str, Any]:
    return {
        "steps": len(one.steps),
        "first_step": float(one.steps[0]) if len(one.steps) else None,
        "last_step": float(one.steps[-1]) if len(one.steps) else None,
        "first": float(one.values[0]) if len(one.steps) else None,
        "last": float(one.values[-1]) if len(one.steps) else None,
    }
