"""Alarms on the entropy of a training run: too steep a fall between two steps, collapse, explosion. Numpy only."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

Verdict = Literal["pass", "fail", "not enough"]
WINDOW = 5
"""Logged steps whose median stands for the beginning or the present (ours): single steps are noisy."""
COLLAPSE = 0.2
"""Collapse: below this part of the beginning's entropy (ours)."""
EXPLOSION = 2.0
"""Explosion: above this many times the beginning's entropy (ours)."""


@dataclass(frozen=True)
class Alarm:
    """One rule's verdict, the number it rests on, and that number in words."""

    name: str
    verdict: Verdict
    value: float | None
    said: str


def early_drop(
    steps: ArrayLike, entropies: ArrayLike, first: float = 10, last: float = 150, most: float = 0.5
) -> Alarm:
    """Stage-2 rule: the relative drop (H_a − H_b)/H_a between steps a and b must not exceed `most`.

    Published with a = 10, b = 150, most = .5. Entropies between logged steps lie on straight lines (ours). A log that
    does not reach from a to b has not enough, unless the entropy has already fallen too far since a.
    """
    x, y = np.asarray(steps, np.float64), np.asarray(entropies, np.float64)
    name = "early drop"
    if not len(x) or x[0] > first or x[-1] <= first:
        reach = f"steps {x[0]:g} to {x[-1]:g}" if len(x) else "no steps"
        return Alarm(name, "not enough", None, f"{reach} are logged; the rule looks at {first:g} and {last:g}")
    start, stop = float(np.interp(first, x, y)), min(last, float(x[-1]))
    if start <= 0:
        return Alarm(name, "fail", None, f"entropy is {start:.4g} at step {first:g} already")
    end = float(np.interp(stop, x, y))
    drop = (start - end) / start
    said = f"{start:.4g} → {end:.4g} nats, steps {first:g} → {stop:g}: {drop:+.1%} of the entropy lost"
    if drop > most:
        return Alarm(name, "fail", drop, f"{said}, more than {most:.0%}")
    if stop < last:
        return Alarm(name, "not enough", drop, f"{said}; step {last:g} is not reached yet")
    return Alarm(name, "pass", drop, said)


def collapse(entropies: ArrayLike, least: float = COLLAPSE) -> Alarm:
    """Fails where the median of the last steps is below `least` times that of the first ones."""
    return _ratio("collapse", entropies, lambda ratio: ratio < least, f"below {least:g} ×")


def explosion(entropies: ArrayLike, most: float = EXPLOSION) -> Alarm:
    """Fails where the median of the last steps is above `most` times that of the first ones.

    Clip-higher and entropy bonuses can drive entropy up without bound, which ruins a policy as a collapse does.
    """
    return _ratio("explosion", entropies, lambda ratio: ratio > most, f"above {most:g} ×")


def _ratio(name: str, entropies: ArrayLike, rings: Callable[[float], bool], rule: str) -> Alarm:
    values = np.asarray(entropies, np.float64)
    if len(values) < 2 * WINDOW:
        return Alarm(name, "not enough", None, f"{len(values)} steps logged, {2 * WINDOW} needed")
    start, end = float(np.median(values[:WINDOW])), float(np.median(values[-WINDOW:]))
    if start <= 0:
        return Alarm(name, "fail", None, f"entropy begins at {start:.4g}")
    ratio = end / start
    said = f"{start:.4g} → {end:.4g} nats, {ratio:.2f} × the beginning"
    return Alarm(name, "fail" if rings(ratio) else "pass", ratio, f"{said}, {rule}" if rings(ratio) else said)
