"""Trees of branched trajectories: where a first return was left again, and what each state on its way was worth.

A branch continues the first tokens of its parent; all branches of one parent and position share a state. Numpy only.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from entropy_lab.diagnostics.columns import Column

EQUAL = 1e-6  # rewards closer than this are equal


@dataclass(frozen=True)
class Branch:
    """One row of rollouts that has a parent. `reward` is NaN where it is unknown."""

    problem: str
    tree: str
    """The parent's name."""
    position: int
    """How many of the parent's tokens it was given; 0 is the root."""
    value: float
    reward: float


@dataclass(frozen=True)
class State:
    """A place in a tree that branches continue. States count from the root, which is 0, in the order of positions.

    `value` is the mean reward of its branches, `gain` what it is above the state before it (NaN at the root);
    `degenerate` where all branches fare alike.
    """

    problem: str
    tree: str
    index: int
    position: int
    value: float
    gain: float
    degenerate: bool


def states_of(branches: Sequence[Branch]) -> list[State]:
    """The states of all trees, tree by tree, root first."""
    grown: dict[tuple[str, str], dict[int, list[Branch]]] = defaultdict(lambda: defaultdict(list))
    for one in branches:
        grown[one.problem, one.tree][one.position].append(one)
    states = []
    for (problem, tree), places in sorted(grown.items()):
        before = float("nan")
        for index, (position, here) in enumerate(sorted(places.items())):
            value = here[0].value
            rewards = np.array([one.reward for one in here])
            flat = bool(np.ptp(rewards) <= EQUAL) if not np.isnan(rewards).any() else False
            states.append(State(problem, tree, index, position, value, value - before, flat))
            before = value
    return states


def tree_columns(states: Sequence[State]) -> list[Column]:
    """What a problem's trees look like: one value a problem, NaN for a problem without such a state."""
    return [
        _mean("tree.states", "states a tree", states, _any, lambda own: len(own) / len({state.tree for state in own})),
        _mean("tree.position", "tokens kept", states, _later, lambda own: _of(own, "position")),
        _mean("tree.value.root", "reward", states, lambda state: not state.index, _value),
        _mean("tree.value.later", "reward", states, _later, _value),
        _mean("tree.gain", "reward", states, _gains, _gain),
        _mean("tree.degenerate", "share of states", states, _any, lambda own: _of(own, "degenerate")),
    ]


def value_columns(states: Sequence[State]) -> list[Column]:
    """The mean value of the root, of the first state after it, and so on: `tree.value.0`, `tree.value.1`, …"""
    last = max((state.index for state in states), default=-1)
    return [_mean(f"tree.value.{index}", "reward", states, _at(index), _value) for index in range(last + 1)]


def opening_columns(states: Sequence[State], texts: Sequence[str], most: int) -> list[tuple[str, int, Column, Column]]:
    """For the `most` frequent texts that stood where a state was left: text, times, its value, its gain.

    `texts[i]` is what the parent wrote behind state i (read for later states only).
    """
    found: dict[str, list[State]] = defaultdict(list)
    for state, text in zip(states, texts, strict=True):
        if _gains(state):
            found[text].append(state)
    often = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))[:most]
    return [
        (
            text,
            len(own),
            _mean("tree.opened.value", "reward", own, _any, _value),
            _mean("tree.opened.gain", "reward", own, _any, _gain),
        )
        for text, own in often
    ]


def _mean(
    name: str,
    unit: str,
    states: Sequence[State],
    keep: Callable[[State], bool],
    of: Callable[[Sequence[State]], float],
) -> Column:
    """`of` those states of each problem that `keep` keeps; every problem of `states` has a place."""
    by_problem: dict[str, list[State]] = defaultdict(list)
    for state in states:
        own = by_problem[state.problem]
        if keep(state):
            own.append(state)
    values_P = np.array([of(own) if own else np.nan for own in by_problem.values()], float)
    return Column(name, unit, values_P, "no such state")


def _any(state: State) -> bool:
    return True


def _at(index: int) -> Callable[[State], bool]:
    return lambda state: state.index == index


def _later(state: State) -> bool:
    return state.index > 0


def _gains(state: State) -> bool:
    return state.index > 0 and bool(np.isfinite(state.gain))


def _value(own: Sequence[State]) -> float:
    return _of(own, "value")


def _gain(own: Sequence[State]) -> float:
    return _of(own, "gain")


def _of(own: Sequence[State], field: str) -> float:
    return float(np.mean([getattr(state, field) for state in own]))
