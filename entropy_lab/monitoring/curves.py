"""Entropy and reward by step out of a log's rows: which names they have, restarts, and what is missing."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entropy_lab.errors import InputError
from entropy_lab.monitoring.rows import Log, Row

KEYS = {
    "entropy": (
        *("entropy.token_mean", "entropy", "actor/entropy", "train/entropy", "policy/entropy", "actor/entropy_loss"),
        *("policy/entropy_avg", "entropy_mean"),
    ),
    "reward": (
        *("reward.mean", "reward", "critic/score/mean", "critic/rewards/mean", "train/reward", "rewards/mean"),
        *("reward_mean", "objective/scores"),
    ),
}
"""What is looked for under which names: ours, TRL's, verl's, OpenRLHF's and common ones, the first that is there."""


@dataclass(frozen=True)
class Curve:
    """A quantity by rising step, under the name that the log has for it."""

    key: str
    steps: NDArray[np.float64]
    values: NDArray[np.float64]


def curve(log: Log, quantity: str, key: str | None = None) -> Curve | None:
    """Entropy or reward; a step that was logged again (after a restart) counts with its last value.

    None where no known name is there.

    Raises:
        InputError: the log has nothing under the `key` that was asked for.
    """
    names = known_names(log.rows)
    if key is not None and key not in names:
        near = difflib.get_close_matches(key, names, n=1, cutoff=0.4)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InputError(
            f"--key {quantity}={key}: the log has no {key!r}; {hint}It has {', '.join(names) or 'nothing'}."
        )
    name = key or next((one for one in KEYS[quantity] if one in names), None)
    if name is None:
        return None
    found = {row.step: row.values[name] for row in log.rows if name in row.values}
    steps = sorted(found)
    return Curve(name, np.array(steps, np.float64), np.array([found[step] for step in steps], np.float64))


def known_names(rows: Sequence[Row]) -> list[str]:
    """Every name that some row has a number for."""
    return sorted({name for row in rows for name in row.values})


def read_keys(given: Sequence[str]) -> Mapping[str, str]:
    """`entropy=NAME`, `reward=NAME`, `step=NAME` as a table.

    Raises:
        InputError: another form, or another quantity.
    """
    accepted = (*KEYS, "step")
    found: dict[str, str] = {}
    for one in given:
        quantity, equals, name = one.partition("=")
        if not equals or not name or quantity not in accepted:
            raise InputError(f"--key {one}: write {', '.join(f'{each}=NAME' for each in accepted)}.")
        found[quantity] = name
    return found
