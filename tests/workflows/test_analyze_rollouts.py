import json

import pytest

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.errors import InputError
from entropy_lab.rollouts import Rollouts
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


def test_tokens_that_the_policy_did_not_write_never_count(tmp_path):
    """L6: observations are left out, and a row without a mask was written whole."""
    rows = [
        row("c", "a", 0, token_ids=[1, 2], entropy=[0.25, 9.0], logprob=[-1.0, -1.0], policy_mask=[True, False]),
        row("c", "a", 1, token_ids=[1, 2], entropy=[0.25, 0.25], logprob=[-1.0, -1.0]),
    ]
    analysis = analyze_rollouts(write(tmp_path / "r.jsonl", rows), out=tmp_path / "out")
    assert value(analysis, "entropy.problem_mean", "c").value == pytest.approx(0.25)


def test_greedy_samples_are_refused(tmp_path):
    """S6: several samples at temperature 0 are one sample."""
    rows = [row("c", "a", index, temperature=0.0, correct=True) for index in range(4)]
    with pytest.raises(InputError, match="temperature"):
        analyze_rollouts(write(tmp_path / "r.jsonl", rows), out=tmp_path / "out")


def test_the_gap_is_to_the_log_probs_of_the_sampler(tiny_checkpoint: Checkpoint, tmp_path):
    """A scorer compared with itself would always agree; mixed temperatures are each scored at their own."""
    rows = [row("c", "a", i, temperature=(0.5, 1.0)[i % 2], logprobs=[-9.0, -9.0, -9.0]) for i in range(4)]
    first = analyze_rollouts(write(tmp_path / "r.jsonl", rows), tiny_checkpoint.name, out=tmp_path / "one")
    assert value(first, "numerics.logprob_gap", "c").value > 1
    scored = Rollouts.read(tmp_path / "one")
    honest = scored.with_columns(logprobs=scored.table["logprob"].to_pylist())
    honest.write(tmp_path / "honest.parquet")
    again = analyze_rollouts(tmp_path / "honest.parquet", tiny_checkpoint.name, out=tmp_path / "two")
    assert value(again, "numerics.logprob_gap", "c").value < 1e-5


def test_rows_with_nothing_to_measure_give_an_empty_result(tmp_path):
    """G6: an empty selection is a result, not a crash."""
    analysis = analyze_rollouts(write(tmp_path / "r.jsonl", [{"problem_id": "a", "text": ""}]), out=tmp_path / "out")
    assert analysis.report.is_file()


def test_rows_that_cannot_be_shown_are_left_out(tiny_checkpoint: Checkpoint, tmp_path):
    rows = [{"problem_id": "a", "token_ids": [4, 5], "entropy": [0.5, 0.25]}]
    analysis = analyze_rollouts(write(tmp_path / "r.jsonl", rows), tiny_checkpoint.name, out=tmp_path / "out")
    assert analysis.diagnosis.checkpoints[0].trajectories == ()


def test_unscorable_and_ungradable_rows_are_named(tiny_checkpoint: Checkpoint, tmp_path):
    source = write(tmp_path / "r.jsonl", [{"problem_id": "a", "text": "1"}])
    with pytest.raises(InputError, match="`prompt_ids`"):
        analyze_rollouts(source, tiny_checkpoint.name, out=tmp_path / "one")
    with pytest.raises(InputError, match="'a' is not among the problems"):
        analyze_rollouts(source, task="countdown", out=tmp_path / "two")
