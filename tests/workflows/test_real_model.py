"""A real pretrained model end to end: GGUF in, mathematics graded, diagnosis out."""

from pathlib import Path

import pytest

from entropy_lab.engines.protocol import Sampling
from entropy_lab.rollouts import Rollouts
from entropy_lab.workflows.analyze_checkpoint import Plan, analyze_checkpoint

GSM8K = Path(__file__).parents[1] / "data" / "math" / "gsm8k.jsonl"


@pytest.mark.slow
def test_smollm2_on_grade_school_problems(smollm2_gguf: Path, tmp_path: Path) -> None:
    plan = Plan(
        checkpoint=str(smollm2_gguf),
        task=str(GSM8K),
        problems=8,
        samples=4,
        sampling=Sampling(max_new_tokens=64),
        device="cpu",
    )
    analysis = analyze_checkpoint(plan, tmp_path / "run")
    found = {metric.metric: metric for metric in analysis.metrics}
    assert found["pass@4"].n == 8
    assert 0 < found["entropy.problem_mean"].value < 6
    assert found["grading.failure_rate"].value == 0
    # Sampler and teacher-forced scorer are two implementations; on the same ids they agree to float32 rounding.
    assert found["numerics.logprob_gap"].value < 1e-4
    rollouts = Rollouts.read(tmp_path / "run")
    assert len(rollouts) == 32
    ended = [ids[-1] for ids, reason in _endings(rollouts) if reason == "stop"]
    assert len(set(ended)) <= 2
    assert analysis.report.stat().st_size < 5_000_000


def _endings(rollouts: Rollouts) -> list[tuple[list[int], str]]:
    return list(zip(rollouts.table["token_ids"].to_pylist(), rollouts.table["finish_reason"].to_pylist(), strict=True))
