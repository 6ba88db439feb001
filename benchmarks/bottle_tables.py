"""Comparisons of `collapse_in_a_bottle.py`: each prints its table and gives the same numbers for the results file."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.bottle_checkpoints import SHIFT, mean_over_problems, paired
from benchmarks.bottle_runs import START
from benchmarks.frontier import (
    PASS,
    Estimate,
    Track,
    common_tokens,
    frontier_gap,
    levels_of,
    matched,
    over_seeds,
    reached,
)

METRICS = {
    PASS: "pass@1",
    "pass@16": "pass@16",
    "pass@32": "pass@32",
    "coverage.family": "family coverage",
    "coverage.solution": "solution coverage",
    "entropy.token_mean": "entropy, token mean (nats)",
}
MEASURE = "coverage.family"
SPACING = 0.02
"""Between the levels of pass@1 at which runs are matched (ours)."""
Tracks = dict[str, list[Track]]
CONSOLE = Console(width=150, highlight=False)


def text(estimate: Estimate, signed: bool = False) -> str:
    """`0.255 ±0.031`, the interval's half width; a star where a difference is clear of 0."""
    if np.isnan(estimate.value):
        return "—"
    shown = f"{estimate.value:{'+' if signed else ''}.3f}"
    if np.isnan(estimate.low):
        return shown
    clear = signed and (estimate.low > 0 or estimate.high < 0)
    return f"{shown} ±{estimate.value - estimate.low:.3f}{' *' if clear else ''}"


def compare(recipes: Sequence[str], base: str, values: dict[str, dict[str, list[float]]]) -> dict[str, Any]:
    """Estimates over seeds of recipe → metric → values by seed, and of their differences to `base` paired by seed."""
    return {
        name: {
            metric: {
                "value": over_seeds(row),
                "difference": over_seeds(np.subtract(row, values[base][metric])) if name != base else None,
            }
            for metric, row in values[name].items()
        }
        for name in recipes
    }


def show(title: str, found: dict[str, Any], metrics: dict[str, str], base: str) -> None:
    """Metrics by recipes, and under each the difference to the base."""
    table = Table(title=title, title_justify="left")
    for column in ("", *found):
        table.add_column(column, no_wrap=True)
    for metric, label in metrics.items():
        table.add_row(label, *(text(row[metric]["value"]) for row in found.values()))
        differences = [row[metric]["difference"] for row in found.values()]
        if any(differences):
            table.add_row(f"   − {base}", *("" if one is None else text(one, signed=True) for one in differences))
    CONSOLE.print(table)


def equal_tokens(tracks: Tracks, base: str, metrics: dict[str, str]) -> dict[str, Any]:
    """(1): everything at the largest token count that all sampling runs reached; others at their own end."""
    tokens = common_tokens([track for row in tracks.values() for track in row])
    places = {
        name: [track.place_of_tokens(tokens) if track.tokens_E[-1] else len(track.steps_E) - 1 for track in row]
        for name, row in tracks.items()
    }
    values = {
        name: {
            metric: [track.at(place)[metric] for track, place in zip(row, places[name], strict=True)]
            for metric in metrics
        }
        for name, row in tracks.items()
    }
    found = compare(list(tracks), base, values)
    own = [name for name, row in tracks.items() if not row[0].tokens_E[-1]]
    aside = f"; {', '.join(own)} samples nothing and stands at its own end" if own else ""
    show(f"(1) after {tokens:,.0f} sampled tokens, linear between evaluations{aside}", found, metrics, base)
    return {"tokens": tokens, "places": places, "recipes": found}


def matched_pass(tracks: Tracks, base: str, metrics: dict[str, str]) -> dict[str, Any]:
    """(2): the frontier, and everything at the highest pass@1 that all runs of a recipe and of the base reach."""
    levels_L = levels_of([track for row in tracks.values() for track in row], SPACING)
    table = Table(title=f"(2) {METRICS[MEASURE]} where {PASS} is first reached; — where a seed never does")
    for column in (PASS, *tracks):
        table.add_column(column, no_wrap=True)
    at_levels = {
        name: [over_seeds(column) for column in matched(row, MEASURE, levels_L).T] for name, row in tracks.items()
    }
    for index, level in enumerate(levels_L):
        table.add_row(f"{level:.3f}", *(text(row[index]) for row in at_levels.values()))
    CONSOLE.print(table)
    gaps, places = {}, {}
    for name, row in tracks.items():
        if name == base:
            continue
        gap, count = frontier_gap(row, tracks[base], MEASURE, levels_L)
        shared_L = levels_L[reached([*row, *tracks[base]], levels_L)]
        gaps[name] = {"levels": count, "difference": gap, "at": None}
        if count:
            level = float(shared_L[-1])
            pair = {name: row, base: tracks[base]}
            values = {
                one: {metric: list(matched(pair[one], metric, np.array([level]))[:, 0]) for metric in metrics}
                for one in pair
            }
            found = compare(list(pair), base, values)
            gaps[name]["at"] = {"level": level, "recipes": found}
            places[name] = {one: [track.place_of_level(level) for track in pair[one]] for one in pair}
            show(f"(2) {name} and {base} at {PASS} = {level:.3f}", found, metrics, base)
    return {"levels": levels_L.tolist(), "frontier": at_levels, "gaps": gaps, "places": places}


def measured_again(
    title: str, chosen: dict[str, list[str]], base: str, measured: Sequence[dict[str, Any]], shifts: dict[str, float]
) -> dict[str, Any]:
    """(3): checkpoints by recipe and seed on fresh samples; `measured` is one coverage run a seed, `shifts` by path."""
    columns = {
        name: [one["columns"][path] for one, path in zip(measured, paths, strict=True)]
        for name, paths in chosen.items()
    }
    found: dict[str, Any] = {}
    for name in chosen:
        ratios = [shifts[path] for path in chosen[name]]
        differences = None
        if name not in (base, START):
            differences = paired(columns[name], columns[base])
            differences[SHIFT] = vars(over_seeds(np.subtract(ratios, [shifts[path] for path in chosen[base]])))
        found[name] = {
            "checkpoints": chosen[name],
            "metrics": {**mean_over_problems(columns[name]), SHIFT: vars(over_seeds(ratios))},
            "differences": differences,
        }
    cohort = ", ".join("—" if one["cohort"] is None else f"{one['cohort']:.0f}" for one in measured)
    table = Table(title=f"(3) {title}; cohort of {cohort} problems by seed", title_justify="left")
    for column in ("", *found):
        table.add_column(column, no_wrap=True)
    for metric in next(iter(found.values()))["metrics"]:
        table.add_row(metric, *(ranged(one["metrics"].get(metric)) for one in found.values()))
        rows = [(one["differences"] or {}).get(metric) for one in found.values()]
        if any(rows):
            table.add_row(f"   − {base}", *("" if row is None else ranged(row, signed=True) for row in rows))
    CONSOLE.print(table)
    return found


def ranged(row: dict[str, Any] | None, signed: bool = False) -> str:
    """`0.255 [0.231, 0.280]`, a star where a difference is clear of 0."""
    if row is None or np.isnan(row["value"]):
        return "—"
    sign = "+" if signed else ""
    shown = f"{row['value']:{sign}.3f}"
    if np.isnan(row["low"]):
        return shown
    clear = signed and (row["low"] > 0 or row["high"] < 0)
    return f"{shown} [{row['low']:{sign}.3f}, {row['high']:{sign}.3f}]{' *' if clear else ''}"
