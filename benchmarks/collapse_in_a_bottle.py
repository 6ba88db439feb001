"""Does a training method keep breadth, or does it only learn more slowly? From `builtin:sft`, on one machine.

    python benchmarks/collapse_in_a_bottle.py [RECIPE …] --seeds 0 1 2

Trains recipes × seeds, evaluates them along the way, and compares them (1) after equally many sampled tokens and
(2) where each first reaches the same pass@1, by straight lines between evaluations. The second is the measure. Kept
checkpoints at both places are then measured again on more problems. Intervals are 95 %: t over seeds in (1) and (2),
which share their problems; over problems, paired, in (3), beside the range of the seeds. A run that is finished is not
run again; a killed one goes on.
"""

import argparse
import math
import os
import sys
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.bottle_checkpoints import measure, shift_ratio
from benchmarks.bottle_figures import along_tokens, frontier
from benchmarks.bottle_runs import START, BottleRun, bottle_run, train_all
from benchmarks.bottle_tables import (
    MEASURE,
    METRICS,
    Tracks,
    equal_tokens,
    matched_pass,
    measured_again,
    plain,
    ranged,
    text,
)
from benchmarks.frontier import PASS, nearest_step, read_track
from entropy_lab.errors import InputError
from entropy_lab.files import write_json
from entropy_lab.reports.style import write_drawing

Runs = dict[str, list[BottleRun]]


def checkpoints_at(runs: list[BottleRun], tracks: Tracks, places: list[float], by: str) -> list[str]:
    """The kept checkpoint nearest to each seed's place."""
    steps = [nearest_step(track, place, by) for track, place in zip(tracks[runs[0].name], places, strict=True)]
    return [
        str(run.folder / "checkpoints" / f"at-{step}") if step else START for run, step in zip(runs, steps, strict=True)
    ]


def again(
    runs: Runs, tracks: Tracks, base: str, results: dict[str, Any], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Measure checkpoints at equal tokens and at matched pass@1, and the base's whole path, all of a seed together."""
    seeds = range(len(runs[base]))
    settings = {
        "kept checkpoints nearest to equal tokens": {
            name: checkpoints_at(runs[name], tracks, results["equal tokens"]["places"][name], "tokens") for name in runs
        }
    }
    matched = {
        name: checkpoints_at(runs[name], tracks, pair[name], PASS)
        for name, pair in results["matched pass@1"]["places"].items()
    }
    if matched:
        settings[f"kept checkpoints nearest to the highest {PASS} that {base} reaches too"] = matched
    base_paths = [
        [START, *(str(run.folder / "checkpoints" / f"at-{step}") for step in track.steps_E[1:])]
        for run, track in zip(runs[base], tracks[base], strict=True)
    ]
    by_seed = [
        list(
            dict.fromkeys([*base_paths[seed], *(row[seed] for chosen in settings.values() for row in chosen.values())])
        )
        for seed in seeds
    ]
    measured = [measure(paths, arguments.out, arguments.final_problems, arguments.final_samples) for paths in by_seed]
    shifts = {
        path: math.nan if path == START else shift_ratio(START, path, arguments.out, min(100, arguments.final_problems))
        for path in dict.fromkeys(path for paths in by_seed for path in paths)
    }
    return {
        title: measured_again(title, {START: [START for _ in seeds], **chosen}, base, base_paths, measured, shifts)
        for title, chosen in settings.items()
    }


def findings(results: dict[str, Any], base: str) -> list[str]:
    """What came out, method by method, in plain words."""
    said = []
    for name, gap in results["matched pass@1"]["gaps"].items():
        row = results["equal tokens"]["recipes"][name]
        breadth, skill = row[MEASURE]["difference"], row[PASS]["difference"]
        said.append(
            f"{name}: at equal tokens {METRICS[MEASURE]} {text(breadth, signed=True)} and {PASS} "
            f"{text(skill, signed=True)} against {base}."
        )
        if not gap["levels"]:
            said.append(f"{name}: no level of {PASS} above the start is reached by all seeds of both: no match.")
            continue
        found = gap["difference"]
        verdict = "no clear difference: it does not help breadth here"
        if found.low > 0:
            verdict = f"broader than {base}"
        elif found.high < 0:
            verdict = f"narrower than {base}"
        elif math.isnan(found.low):
            verdict = "one seed, no interval"
        said.append(
            f"{name}: at matched {PASS}, mean over {gap['levels']} level(s), {METRICS[MEASURE]} "
            f"{text(found, signed=True)} (seeds {found.least:+.3f} to {found.most:+.3f}): {verdict}."
        )
    for title, found in results.get("measured again", {}).items():
        for name, one in found.items():
            row = (one["difference at the same pass@1"] or {}).get(MEASURE)
            if row is not None:
                said.append(f"{name}, {title}, against {base} at the same {PASS}: {ranged(row, signed=True)}.")
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipes", nargs="*", default=["sft", "grpo", "dapo", "fr3e"], help="shipped names or .toml")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, help="of every recipe [default: each recipe's own]")
    parser.add_argument("--evaluations", type=int, default=8, help="along each run, at equal distances")
    parser.add_argument("--base", default="grpo", help="the recipe that others are compared to")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, one thread each")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="of every recipe")
    parser.add_argument("--final-problems", type=int, default=200, help="0 leaves (3) out")
    parser.add_argument("--final-samples", type=int, default=64)
    parser.add_argument("--out", type=Path, default=Path("runs/bottle"))
    arguments = parser.parse_args()
    try:
        bottle(arguments)
    except InputError as error:
        raise SystemExit(f"error: {error}") from error


def bottle(arguments: argparse.Namespace) -> None:
    runs: Runs = {}
    for recipe in arguments.recipes:
        own = [
            bottle_run(recipe, seed, arguments.steps, arguments.evaluations, arguments.set, arguments.out)
            for seed in arguments.seeds
        ]
        runs[own[0].name] = own
    base = arguments.base if arguments.base in runs else next(iter(runs))
    machine = f"{os.cpu_count()} CPUs, {arguments.jobs} runs at a time, one thread each, torch {torch.__version__}"
    print(f"{', '.join(runs)}; seeds {arguments.seeds}; from {START}; {machine}", flush=True)
    by_seed = [row[place] for place in range(len(arguments.seeds)) for row in runs.values()]
    minutes = train_all(by_seed, arguments.jobs, arguments.out / "minutes.json")
    print(
        "minutes a run: "
        + ", ".join(f"{name} {'—' if math.isnan(spent) else f'{spent:.1f}'}" for name, spent in minutes.items())
        + " (target 10)"
    )

    tracks = {name: [read_track(run.folder) for run in row] for name, row in runs.items()}
    every = [track for row in tracks.values() for track in row]
    metrics = {name: label for name, label in METRICS.items() if all(name in track.values for track in every)}
    results: dict[str, Any] = {"machine": machine, "minutes": minutes, "base": base, "runs": tracks}
    results["equal tokens"] = equal_tokens(tracks, base, metrics)
    results["matched pass@1"] = matched_pass(tracks, base, metrics)
    if arguments.final_problems:
        results["measured again"] = again(runs, tracks, base, results, arguments)
    results["findings"] = findings(results, base)
    print("\nFound:", *results["findings"], sep="\n- ")
    write_json(arguments.out / "results.json", plain(results))
    drawings = [along_tokens(tracks, name, label) for name, label in metrics.items()]
    drawings += [frontier(tracks, name, label) for name, label in metrics.items() if name != PASS]
    for drawing in drawings:
        if drawing is not None:
            write_drawing(drawing, arguments.out)
    print(f"\n{arguments.out}/results.json and figures *.png, *.svg")


if __name__ == "__main__":
    main()
