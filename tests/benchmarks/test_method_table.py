"""The method table from stored results: who leads, what is compared with what, results that are asked for anew."""

import json

import numpy as np
import pytest

from benchmarks.method_runs import MethodRun, entropy_area, track_of
from benchmarks.method_table import gap_of, leaders, rows_of
from tests.benchmarks.test_frontier import track

PROBLEMS = 12


def result(passes, coverage, seed=0, ends=(0.3, 0.5)):
    return {
        "track": {
            "steps": [0, 10, 20],
            "tokens": [0, 1000, 2000],
            "values": {"pass@1": passes, "coverage.family": coverage},
        },
        "by problem": {
            "pass@1": [ends[0] + 0.01 * index for index in range(PROBLEMS)],
            "coverage.family": [ends[1] if index else None for index in range(PROBLEMS)],
        },
        "entropy area": 0.2,
        "shift ratio": 3.0,
        "steps": 20,
        "CPU seconds": 60.0 + seed,
    }


RESULTS = {
    "grpo": [result([0.1, 0.2, 0.3], [0.9, 0.7, 0.5])],
    "broad": [result([0.1, 0.2, 0.3], [0.9, 0.8, 0.7], ends=(0.3, 0.7))],
    "slow": [result([0.1, 0.15, 0.2], [0.9, 0.8, 0.7], ends=(0.2, 0.7))],
    "still": [result([0.1, 0.1, 0.09], [0.9, 0.9, 0.9])],
}


def test_slow_learning_is_no_breadth():
    gap, levels = gap_of(RESULTS, "slow", "grpo")
    assert gap.value == pytest.approx(0, abs=1e-9)
    assert levels == 5
    gap, levels = gap_of(RESULTS, "broad", "grpo")
    assert levels >= 9  # the last one is reached up to rounding
    assert gap.value == pytest.approx(np.mean([0.02 * level for level in range(1, levels + 1)]))


def test_leaders_need_a_level_in_common():
    assert leaders(RESULTS, "grpo", 5) == ["broad", "slow"]
    assert leaders(RESULTS, "grpo", 1) == ["broad"]


def test_rows():
    rows = rows_of(RESULTS, "grpo")
    assert rows["broad"]["difference"]["coverage.family"]["value"] == pytest.approx(0.2)
    assert rows["broad"]["metrics"]["coverage.family"]["n"] == PROBLEMS - 1
    assert rows["still"]["levels"] == 0
    assert rows["grpo"]["gap"] is None
    seeds = {**RESULTS, "grpo": RESULTS["grpo"] * 3, "broad": RESULTS["broad"] * 3}
    assert rows_of(seeds, "grpo")["broad"]["further"].n == 2


def test_entropy_area_is_the_mean_height():
    one = track([0.1, 0.2, 0.3], **{"entropy.token_mean": [0.4, 0.2, 0.2]})
    assert entropy_area(one) == pytest.approx(0.25)


def test_a_result_of_other_settings_is_made_anew(tmp_path):
    run = MethodRun("grpo", 0, 1000, 20, 8, tmp_path / "runs", tmp_path)
    (tmp_path / "grpo-0.json").write_text(json.dumps({"asked": run.asked, **RESULTS["grpo"][0]}))
    assert track_of(run.result()).peak == 0.3
    assert MethodRun("grpo", 0, 2000, 20, 8, tmp_path / "runs", tmp_path).result() is None
    assert MethodRun("grpo", 1, 1000, 20, 8, tmp_path / "runs", tmp_path).result() is None
