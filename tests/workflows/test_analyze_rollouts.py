import json

import pytest

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.errors import InputError
from entropy_lab.workflows.analyze_rollouts import analyze_rollouts
from entropy_lab.workflows.outcome import Analysis


def write(path, rows):
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return path


def row(checkpoint, problem, index, **fields):
    return {
        "checkpoint": checkpoint,
        "problem_id": problem,
        "sample_index": index,
        "prompt_ids": [4, 5, 6],
        "token_ids": [7 + index, 9, 11],
        "text": "1",
        **fields,
    }


def value(analysis: Analysis, name: str, checkpoint: str) -> Metric | None:
    return next((one for one in analysis.metrics if (one.metric, one.checkpoint) == (name, checkpoint)), None)


def test_only_rows_of_the_named_checkpoint_are_scored(tiny_checkpoint: Checkpoint, tmp_path):
    rows = [row(name, problem, i) for name in (tiny_checkpoint.name, "other") for problem in "ab" for i in range(2)]
    analysis = analyze_rollouts(write(tmp_path / "r.jsonl", rows), tiny_checkpoint.name, out=tmp_path / "out")
    assert value(analysis, "entropy.problem_mean", tiny_checkpoint.name).value > 0
    assert value(analysis, "entropy.problem_mean", "other") is None


def test_a_checkpoint_that_made_none_of_the_rows_is_refused(tiny_checkpoint: Checkpoint, tmp_path):
    rows = [row(name, "a", 0) for name in ("this", "that")]
    with pytest.raises(InputError, match="this, that"):
        analyze_rollouts(write(tmp_path / "r.jsonl", rows), tiny_checkpoint.name, out=tmp_path / "out")


def test_rows_are_scored_at_their_own_temperature(tiny_checkpoint: Checkpoint, tmp_path):
    """L2: one stated temperature on both sides."""
    found = {}
    for temperature in (0.5, 1.0):
        source = write(tmp_path / f"{temperature}.jsonl", [row("c", "a", i, temperature=temperature) for i in range(4)])
        analysis = analyze_rollouts(source, tiny_checkpoint.name, out=tmp_path / f"out{temperature}")
        found[temperature] = value(analysis, "entropy.problem_mean", "c").value
    mixed = [row("c", "a", i, temperature=(0.5, 1.0)[i % 2]) for i in range(4)]
    analysis = analyze_rollouts(write(tmp_path / "m.jsonl", mixed), tiny_checkpoint.name, out=tmp_path / "outm")
    low, high = sorted(found.values())
    assert low < value(analysis, "entropy.problem_mean", "c").value < high


def test_a_given_verdict_is_kept_and_the_rest_is_graded(tmp_path):
    problem = "22<3,5,7"
    (tmp_path / "p.jsonl").write_text(json.dumps({"nums": [3, 5, 7], "target": 22}))
    answers = ["<answer>3*5+7</answer>", "<answer>3+5+7</answer>", "<answer>3*5+7</answer>", "no"]
    rows = [{"problem_id": problem, "text": text} for text in answers]
    rows[2]["correct"] = False  # the source's own verdict stands
    source = write(tmp_path / "r.jsonl", rows)
    analysis = analyze_rollouts(source, task=str(tmp_path / "p.jsonl"), out=tmp_path / "out")
    assert value(analysis, "pass@1", "r").value == 1 / 4


def test_unscorable_and_ungradable_rows_are_named(tiny_checkpoint: Checkpoint, tmp_path):
    source = write(tmp_path / "r.jsonl", [{"problem_id": "a", "text": "1"}])
    with pytest.raises(InputError, match="`prompt_ids` or `token_ids`"):
        analyze_rollouts(source, tiny_checkpoint.name, out=tmp_path / "one")
    with pytest.raises(InputError, match="'a' is not among the problems"):
        analyze_rollouts(source, task="countdown", out=tmp_path / "two")
