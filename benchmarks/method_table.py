"""What every training recipe does to breadth, from `builtin:sft` with equally many sampled tokens, on one machine.

    python benchmarks/method_table.py [RECIPE …]

One seed for every recipe; the five that lead get two more, and so does the base they are compared with. What leads:
family coverage above the base's at the same pass@1 (mean over levels of pass@1 that both reach on the straight lines
between small evaluations), since a method that merely learns more slowly also keeps its breadth. The last checkpoint of
every run is measured again on fresh samples. Intervals are 95 %: over problems, paired against the base of the same
seed; over seeds (t) for the gap at equal pass@1. Leaders were chosen by their first seed, which flatters it; the gap of
their further seeds stands beside. Results are kept run by run, and a run that has one is not run again.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.bottle_checkpoints import Columns, mean_over_problems, paired
from benchmarks.bottle_figures import frontier
from benchmarks.bottle_tables import MEASURE, SPACING, plain, ranged, text
from benchmarks.frontier import PASS, Estimate, frontier_gap, levels_of, over_seeds
from benchmarks.method_runs import MethodRun, run_all, track_of
from entropy_lab.files import write_json
from entropy_lab.reports.style import write_drawing
from entropy_lab.training.recipe_files import catalogue

Results = Mapping[str, Sequence[Mapping[str, Any]]]
COLUMNS = {
    PASS: "pass@1",
    "pass@32": "pass@32",
    MEASURE: "family coverage",
    "entropy.problem_mean": "entropy at the end",
}


def columns_of(result: Mapping[str, Any]) -> Columns:
    """Per-problem values of the last checkpoint."""
    return {
        name: np.array([np.nan if value is None else value for value in values])
        for name, values in result["by problem"].items()
    }


def gap_of(results: Results, name: str, base: str, seeds: slice = slice(None)) -> tuple[Estimate, int]:
    """Family coverage above the base's at equal pass@1, paired by seed, and at how many levels of pass@1."""
    ours = [track_of(one) for one in results[name]][seeds]
    theirs = [track_of(one) for one in results[base][: len(results[name])]][seeds]
    return frontier_gap(ours, theirs, MEASURE, levels_of([*ours, *theirs], SPACING))


def leaders(results: Results, base: str, count: int) -> list[str]:
    """The recipes whose first seed lies highest above the base at equal pass@1."""
    gaps = {name: gap_of(results, name, base, slice(1))[0].value for name in results if name != base}
    known = {name: gap for name, gap in gaps.items() if np.isfinite(gap)}
    return sorted(known, key=lambda name: -known[name])[:count]


def rows_of(results: Results, base: str) -> dict[str, dict[str, Any]]:
    """What the table shows, recipe by recipe."""
    rows = {}
    for name, runs in results.items():
        columns = [columns_of(one) for one in runs]
        beside = [columns_of(one) for one in results[base][: len(runs)]]
        gap, levels = gap_of(results, name, base) if name != base else (None, 0)
        further = gap_of(results, name, base, slice(1, None))[0] if name != base and len(runs) > 1 else None
        rows[name] = {
            "seeds": len(runs),
            "metrics": mean_over_problems(columns),
            "difference": paired(columns, beside) if name != base else {},
            "gap": gap,
            "levels": levels,
            "further": further,
            "area": over_seeds([one["entropy area"] for one in runs]).value,
            "shift": over_seeds([one["shift ratio"] for one in runs]).value,
            "steps": [one["steps"] for one in runs],
            "CPU seconds": over_seeds([one["CPU seconds"] for one in runs]).value,
        }
    return rows


def show(rows: Mapping[str, dict[str, Any]], base: str) -> None:
    """The table, broadest at equal pass@1 first."""
    table = Table()
    beside = (f"{PASS} − {base}", f"family − {base}")
    titles = (*COLUMNS.values(), *beside, f"family at equal {PASS}", "entropy area", "early ÷ later shift", "CPU s")
    for column in ("recipe (seeds)", *titles):
        table.add_column(column, no_wrap=True)
    for name, row in sorted(rows.items(), key=lambda item: _rank(item[1])):
        gap = "—" if row["gap"] is None or not row["levels"] else f"{text(row['gap'], signed=True)} ({row['levels']})"
        table.add_row(
            f"{name} ({row['seeds']})",
            *(ranged(row["metrics"].get(metric)) for metric in COLUMNS),
            *(ranged(row["difference"].get(metric), signed=True) for metric in (PASS, MEASURE)),
            gap,
            f"{row['area']:.3f}",
            f"{row['shift']:.1f}",
            f"{row['CPU seconds']:.0f}",
        )
    Console(width=240, highlight=False).print(table)
    for name, row in rows.items():
        if row["further"] is not None and name != base:
            print(f"{name}: at equal {PASS}, seeds after the first alone: {text(row['further'], signed=True)}")


def _rank(row: Mapping[str, Any]) -> float:
    return 0.0 if row["gap"] is None else -row["gap"].value if row["levels"] else np.inf


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    shipped = [one["name"] for one in catalogue()["recipes"] if "stages" not in one]
    parser.add_argument("recipes", nargs="*", default=shipped, help="shipped names or .toml files (default: all)")
    parser.add_argument("--base", default="grpo")
    parser.add_argument("--tokens", type=int, default=340_000, help="sampled tokens a run")
    parser.add_argument("--lead", type=int, default=5, help="how many get more seeds")
    parser.add_argument("--seeds", type=int, default=3, help="seeds of those")
    parser.add_argument("--problems", type=int, default=200)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--out", type=Path, default=Path("runs/methods"))
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results" / "methods")
    arguments = parser.parse_args()
    names = list(dict.fromkeys([arguments.base, *arguments.recipes]))

    def results(wanted: Mapping[str, int]) -> Results:
        runs = {
            name: [
                MethodRun(
                    name,
                    seed,
                    arguments.tokens,
                    arguments.problems,
                    arguments.samples,
                    arguments.out,
                    arguments.results,
                )
                for seed in range(count)
            ]
            for name, count in wanted.items()
        }
        found = run_all([run for row in runs.values() for run in row], arguments.jobs)
        return {name: [found[run.label] for run in row] for name, row in runs.items()}

    found = results(dict.fromkeys(names, 1))
    if arguments.seeds > 1:
        lead = leaders(found, arguments.base, arguments.lead)
        found = results({name: arguments.seeds if name in (*lead, arguments.base) else 1 for name in names})
    rows = rows_of(found, arguments.base)
    show(rows, arguments.base)
    tracks = {name: [track_of(one) for one in runs] for name, runs in found.items() if len(runs) > 1}
    if tracks:
        write_drawing(frontier(tracks, MEASURE, "family coverage"), arguments.results.parent)
    write_json(arguments.results.parent / "method_table.json", plain(rows))


if __name__ == "__main__":
    main()
