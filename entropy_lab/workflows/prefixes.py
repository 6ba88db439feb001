"""Prefixes of another model among rollouts: told apart from plain samples, measured, drawn."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from entropy_lab.diagnostics.intervals import bootstrap_means
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.prefixes import QUANTITIES, binned, groups_of, rank_correlation, summarised
from entropy_lab.diagnostics.tabulate import metric
from entropy_lab.rollouts import Rollouts

if TYPE_CHECKING:
    from entropy_lab.reports.style import Drawing

ALL = "all rollouts"


@dataclass(frozen=True)
class Prefixed:
    """What is known of all groups that went on from given tokens, beside the plain ones."""

    metrics: tuple[Metric, ...]
    bins: tuple[tuple[str, Mapping[str, Metric]], ...]
    """The plain groups first, then bins by rising surprise."""
    note: str


def look_at_prefixes(rollouts: Mapping[str, Rollouts], seed: int) -> Prefixed | None:
    """Measure the prefixed groups of all checkpoints together; None where no tokens were given.

    A training run keeps every step under a name of its own, with a few such groups each; they are pooled.
    """
    rows = []
    for name, table in rollouts.items():
        given = np.array([parent is None for parent in table.strings("parent_id")], bool)
        columns = ("problem_id", "group_id", "prefix_surprise", "correct", "family")
        for problem, group, *others in zip(
            *(table.where(given).table[column].to_pylist() for column in columns), strict=True
        ):
            rows.append((f"{name} {problem} {group}", *others))
    groups = groups_of(rows)
    prefixed = [one for one in groups if np.isfinite(one.surprise)]
    plain = [one for one in groups if not np.isfinite(one.surprise)]
    if not prefixed:
        return None
    name = next(iter(rollouts)) if len(rollouts) == 1 else ALL
    mean = bootstrap_means(np.array([one.surprise for one in prefixed]), seed=seed)
    surprise = metric(
        "prefix.surprise", mean.value[0], mean.low[0], mean.high[0], "nats a token", mean.n[0], checkpoint=name
    )
    beside = summarised(plain, "prefix.plain", name, seed)
    metrics = (
        surprise,
        *summarised(prefixed, "prefix", name, seed).values(),
        *beside.values(),
        *(rank_correlation(prefixed, quantity, name, seed) for quantity in QUANTITIES),
    )
    bins = tuple((label, summarised(own, "prefix", name, seed)) for label, own in binned(prefixed))
    return Prefixed(
        metrics,
        (("plain", beside), *bins),
        f"{len(prefixed):,} groups went on from tokens of another model, {len(plain):,} began from the prompt; every "
        "number but those of prefixes is of plain samples.",
    )


def prefix_drawings(found: Prefixed | None) -> "tuple[Drawing, ...]":
    """What groups explored, by how surprising their prefix was."""
    from entropy_lab.reports.drawings import levels

    if found is None:
        return ()
    labels = [label for label, _ in found.bins]
    xlabel = "surprise of the prefix (nats a token)"
    drawn = [
        levels(
            "prefix_exploration",
            "What surprising prefixes bring",
            "Groups that go on from another model's tokens, by how surprising those are; plain: none were given.",
            labels,
            {
                "right completions": [row["accuracy"] for _, row in found.bins],
                "groups with both verdicts": [row["differing"] for _, row in found.bins],
            },
            ylabel="share",
            xlabel=xlabel,
        ),
        levels(
            "prefix_families",
            "Families that surprising prefixes reach",
            "Distinct families among the right completions of a group.",
            labels,
            {"families a group": [row["families"] for _, row in found.bins]},
            ylabel="families",
            xlabel=xlabel,
        ),
    ]
    return tuple(one for one in drawn if one is not None)
