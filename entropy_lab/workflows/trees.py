"""Trees among rollouts: told apart from plain samples, measured, drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.tabulate import mean_metrics
from entropy_lab.diagnostics.trees import Branch, State, opening_columns, states_of, tree_columns, value_columns
from entropy_lab.errors import InputError
from entropy_lab.rollouts import Rollouts
from entropy_lab.texts import token_texts

if TYPE_CHECKING:
    from entropy_lab.reports.style import Drawing

OPENINGS = 12
"""Texts at which trees opened, shown by frequency (ours)."""


@dataclass(frozen=True)
class Grown:
    """What is known of one checkpoint's trees: metrics, values by state, (text, times, value, gain) of openings."""

    name: str
    metrics: tuple[Metric, ...]
    values: tuple[Metric, ...]
    openings: tuple[tuple[str, int, Metric, Metric], ...]
    note: str


def part(rollouts: Rollouts) -> tuple[Rollouts, Rollouts]:
    """Plain samples, and the branches that continue one of them; rows given tokens of another model are neither.

    Raises:
        InputError: no sample is plain, so that there is nothing to measure beside them.
    """
    branched = np.array([parent is not None for parent in rollouts.strings("parent_id")], bool)
    given = rollouts.table["prefix_surprise"].is_valid().to_numpy(zero_copy_only=False)
    plain = rollouts.where(~branched & ~given)
    if len(rollouts) and not len(plain):
        name = rollouts.strings("checkpoint")[0]
        raise InputError(
            f"{name}: all {len(rollouts)} rollouts continue given tokens; add samples from the prompt alone."
        )
    return plain, rollouts.where(branched)


def grow(name: str, plain: Rollouts, branches: Rollouts, checkpoint: Checkpoint | None, seed: int) -> Grown | None:
    """Measure the trees of one checkpoint; None where nothing branches.

    Raises:
        InputError: a branch names a parent that is not there, a position beyond its end, or another value of its state
            than a branch before it.
    """
    if not len(branches):
        return None
    columns = ("problem_id", "sample_index", "token_ids")
    parents = {
        f"{problem} {sample}": ids
        for problem, sample, ids in zip(*(plain.table[column].to_pylist() for column in columns), strict=True)
    }
    found = []
    worth: dict[tuple[str, int], float] = {}
    kept = ("problem_id", "parent_id", "branch_position", "state_value", "reward")
    for row, values in enumerate(zip(*(branches.table[column].to_pylist() for column in kept), strict=True)):
        problem, parent, position, value, reward = values
        if parent not in parents or parents[parent] is None:
            raise InputError(f"{name}, branch {row}: parent_id {parent!r} names no trajectory with `token_ids`.")
        if position is None or value is None or not 0 <= position < len(parents[parent]):
            raise InputError(
                f"{name}, branch {row}: branch_position {position} and state_value {value} must both be there, and the "
                f"position within its parent's {len(parents[parent])} tokens."
            )
        if worth.setdefault((parent, position), value) != value:
            raise InputError(
                f"{name}, branch {row}: state_value {value} at position {position} of {parent!r}, where "
                f"another branch says {worth[parent, position]}; all branches of a state share one value."
            )
        found.append(Branch(problem, parent, position, value, np.nan if reward is None else reward))
    states = states_of(found)
    openings = [
        (text, times, *mean_metrics((value, gain), name, seed=seed))
        for text, times, value, gain in opening_columns(states, _texts(states, parents, checkpoint), OPENINGS)
    ]
    trees = len({(state.problem, state.tree) for state in states})
    return Grown(
        name,
        mean_metrics(tree_columns(states), name, seed=seed),
        mean_metrics(value_columns(states), name, seed=seed),
        tuple(openings),  # type: ignore[arg-type]
        f"{name}: {len(branches):,} branches of {trees:,} trees; they start from chosen states, so they count in the "
        f"tree metrics alone, and every other number is of the {len(plain):,} plain samples.",
    )


def drawings(grown: Mapping[str, Grown]) -> "tuple[Drawing, ...]":
    """Values from the root on, and at the texts where trees opened most often."""
    from entropy_lab.reports.drawings import levels

    deepest = max((len(one.values) for one in grown.values()), default=0)
    drawn = [
        levels(
            "tree_values",
            "What each state of a tree is worth",
            "Mean reward of the continuations from the root, and from the prefixes before each later opening.",
            ["root", *(f"opening {index}" for index in range(1, deepest))],
            {name: [*one.values, *[None] * (deepest - len(one.values))] for name, one in grown.items()},
            ylabel="mean reward",
        )
        if deepest
        else None
    ]
    for name, one in grown.items():
        drawn.append(
            levels(
                "tree_openings" if len(grown) == 1 else f"tree_openings {name}",
                f"Where trees opened: {name}",
                "What the first return wrote at the opening, and how often; the token is drawn again by every branch.",
                [f"{text.strip() or repr(text)} ×{times}" for text, times, *_ in one.openings],
                {
                    "value of the state": [value for *_, value, _ in one.openings],
                    "gain since the state before": [gain for *_, gain in one.openings],
                },
                ylabel="mean reward",
            )
        )
    return tuple(drawing for drawing in drawn if drawing is not None)


def _texts(states: list[State], parents: Mapping[str, list[int]], checkpoint: Checkpoint | None) -> list[str]:
    """What the parent wrote behind each state; ids where no tokenizer is at hand."""
    ids = [parents[state.tree][state.position] for state in states]
    if checkpoint is None:
        return [f"id {token}" for token in ids]
    known = {token: "".join(token_texts(checkpoint.tokenizer, [token])) for token in set(ids)}
    return [known[token] for token in ids]
