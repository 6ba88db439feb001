import json
import math
from pathlib import Path

import pytest

from entropy_lab.workflows.analyze_rollouts import analyze_rollouts

GSM8K = Path(__file__).parents[1] / "data" / "math" / "gsm8k.jsonl"


def found(tmp_path, rows, task=None):
    source = tmp_path / "rollouts.jsonl"
    source.write_text("\n".join(map(json.dumps, rows)))
    return {row.metric: row for row in analyze_rollouts(source, task=task, out=tmp_path / "run").metrics}


def test_first_calculations_of_graded_mathematics(tmp_path):
    """Three of four samples calculate, two of them alike; one of these two is right."""
    from entropy_lab.tasks.loading import load_task

    problem = load_task(str(GSM8K)).problems()[0]
    texts = ["16 - 3 = 13, so 9 * 2 = 18. \\boxed{18}", "16-3=13 \\boxed{13}", "9 * 2 = \\boxed{18}", "\\boxed{18}"]
    rows = found(tmp_path, [{"problem_id": problem.id, "text": text} for text in texts], str(GSM8K))
    entropy = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert rows["entropy.first_calculation"].value == pytest.approx(entropy)
    assert rows["entropy.first_calculation_mm"].value == pytest.approx(entropy + 1 / 6)
    assert rows["entropy.first_calculation_correct"].value == pytest.approx(math.log(2))
    assert rows["entropy.first_calculation_correct_mm"].value == pytest.approx(math.log(2) + 1 / 4)
    assert rows["first_calculation.none_rate"].value == 0.25


def test_rollouts_that_nobody_graded_have_no_first_calculations(tmp_path):
    rows = found(tmp_path, [{"problem_id": "a", "text": "3 + 4"}])
    assert not [name for name in rows if "first_calculation" in name]


def test_labels_that_came_with_the_rollouts_are_measured(tmp_path):
    rows = found(tmp_path, [{"problem_id": "a", "text": "", "first_calculation": label} for label in ("3+", "5+")])
    assert rows["entropy.first_calculation"].value == pytest.approx(math.log(2))
    assert "entropy.first_calculation_correct" not in rows
