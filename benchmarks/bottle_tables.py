"""Comparisons of `collapse_in_a_bottle.py`: each prints its table and gives the same numbers for the results file."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.bottle_checkpoints import SHIFT, Columns, mean_over_problems, paired
from benchmarks.bottle_runs import START
from benchmarks.frontier import (
    PASS,
    Estimate,
    Track,
    blended,
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
ROUNDING = 1e-9
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
    clear = signed and (estimate.low > ROUNDING or estimate.high < -ROUNDING)
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
    CONSOLE.print(f"\n{title}")
    table = _table("", found)
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
    CONSOLE.print(f"\n(2) {METRICS[MEASURE]} where {PASS} is first reached; — where a seed never reaches it")
    table = _table(PASS, tracks)
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
    title: str,
    chosen: dict[str, list[str]],
    base: str,
    base_paths: Sequence[Sequence[str]],
    measured: Sequence[dict[str, Any]],
    shifts: dict[str, float],
) -> dict[str, Any]:
    """(3): checkpoints by recipe and seed on fresh samples; `measured` is one coverage run a seed, `shifts` by path.

    Each is compared to the base where the base's path of kept checkpoints, `base_paths` by seed, first has the same
    measured pass@1, on the straight line between two of them.
    """
    found: dict[str, Any] = {}
    for name, paths in chosen.items():
        columns = [one["columns"][path] for one, path in zip(measured, paths, strict=True)]
        ratios = [shifts[path] for path in paths]
        beside = matched_to = None
        if base in chosen and name not in (base, START):
            beside = paired(columns, [one["columns"][path] for one, path in zip(measured, chosen[base], strict=True)])
            beside[SHIFT] = vars(over_seeds(np.subtract(ratios, [shifts[path] for path in chosen[base]])))
        if name not in (base, START):
            pairs = [
                _at_same_pass(ours, one["columns"], along, shifts)
                for ours, one, along in zip(columns, measured, base_paths, strict=True)
            ]
            rivals = [pair for pair in pairs if pair is not None]
            if len(rivals) == len(pairs):
                matched_to = paired(columns, [rival for rival, _ in rivals])
                matched_to[SHIFT] = vars(over_seeds(np.subtract(ratios, [ratio for _, ratio in rivals])))
        found[name] = {
            "checkpoints": paths,
            "metrics": {**mean_over_problems(columns), SHIFT: vars(over_seeds(ratios))},
            "difference": beside,
            "difference at the same pass@1": matched_to,
        }
    cohort = ", ".join("—" if one["cohort"] is None else f"{one['cohort']:.0f}" for one in measured)
    CONSOLE.print(f"\n(3) {title}; cohort of {cohort} problems by seed")
    table = _table("", found)
    for metric in next(iter(found.values()))["metrics"]:
        table.add_row(metric, *(ranged(one["metrics"].get(metric)) for one in found.values()))
        for kind, label in (("difference", base), ("difference at the same pass@1", f"{base}, same {PASS}")):
            rows = [(one[kind] or {}).get(metric) for one in found.values()]
            if any(rows):
                table.add_row(f"   − {label}", *("" if row is None else ranged(row, signed=True) for row in rows))
    CONSOLE.print(table)
    return found


def _at_same_pass(
    ours: Columns, columns: dict[str, Columns], along: Sequence[str], shifts: dict[str, float]
) -> tuple[Columns, float] | None:
    """The base's columns and shift ratio where it first has the pass@1 of `ours`; None where it never has."""
    path_E = [columns[path] for path in along]
    passes = np.array([column[PASS].mean() for column in path_E])
    place = Track(np.arange(len(along)), np.zeros(len(along)), {PASS: passes}).place_of_level(float(ours[PASS].mean()))
    if np.isnan(place):
        return None
    ratio = float(np.interp(place, np.arange(len(along)), [shifts[path] for path in along]))
    return blended(path_E, place), ratio


def plain(value: Any) -> Any:
    """For JSON: dataclasses and arrays as tables and lists, NaN as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(one) for one in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return int(value) if isinstance(value, np.integer) else value


def _table(corner: str, columns: Iterable[str]) -> Table:
    table = Table()
    for column in (corner, *columns):
        table.add_column(column, no_wrap=True)
    return table


def ranged(row: dict[str, Any] | None, signed: bool = False) -> str:
    """`0.255 [0.231, 0.280]`, a star where a difference is clear of 0."""
    if row is None or np.isnan(row["value"]):
        return "—"
    sign = "+" if signed else ""
    shown = f"{row['value']:{sign}.3f}"
    if np.isnan(row["low"]):
        return shown
    clear = signed and (row["low"] > ROUNDING or row["high"] < -ROUNDING)
    return f"{shown} [{row['low']:{sign}.3f}, {row['high']:{sign}.3f}]{' *' if clear else ''}"
