"""`coverage` on the embedded ladder: arms, forced beginnings, prompt variants, resume, what is left behind."""

import json
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow.parquet as pq
import pytest

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run
from entropy_lab.tasks.countdown.task import Countdown
from entropy_lab.workflows.coverage import LADDER, CoveragePlan, coverage

EARLY, SFT = "builtin:sft-early", "builtin:sft"
FORCED, VARIED = f"{SFT} [forced]", f"{SFT} [begin-with]"
SENTENCE = "find a way to use {number} first"
PLAN = CoveragePlan(
    checkpoints=(EARLY, SFT),
    problems=5,
    samples=8,
    prompt_variants=("begin-with",),
    forced=True,
    sampling=Sampling(max_new_tokens=48, seed=3),
    device="cpu",
)
ARMS = [EARLY, f"{EARLY} [begin-with]", f"{EARLY} [forced]", SFT, VARIED, FORCED]


@pytest.fixture(scope="module")
def analysis(tmp_path_factory):
    return coverage(PLAN, tmp_path_factory.mktemp("coverage") / "run")


@pytest.fixture(scope="module")
def rollouts(analysis):
    return Rollouts.read(analysis.folder)


@pytest.fixture(scope="module")
def spaces():
    task = Countdown.embedded()
    return {problem.id: task.space(problem) for problem in task.problems()[:5]}


def metric_of(analysis):
    return {(row.checkpoint, row.metric): row for row in analysis.metrics}


def plain_rows(rollouts, name):
    kept = ("problem_id", "sample_index", "prompt_ids", "token_ids", "text")
    rows = rollouts.of(name).table.select(kept).to_pylist()
    return sorted(rows, key=lambda row: (row["problem_id"], row["sample_index"]))


def test_all_arms_have_all_problems_and_samples(analysis, rollouts, spaces):
    assert [one.name for one in analysis.diagnosis.checkpoints] == ARMS
    counts = Counter(zip(rollouts.strings("checkpoint"), rollouts.strings("problem_id"), strict=True))
    assert counts == {(name, problem): 8 for name in ARMS for problem in spaces}


def test_all_arms_draw_from_the_same_seeds(rollouts):
    drawn = {name: {} for name in ARMS}
    for row in rollouts.table.select(("checkpoint", "problem_id", "sample_index", "seed")).to_pylist():
        drawn[row["checkpoint"]][row["problem_id"], row["sample_index"]] = row["seed"]
    assert all(drawn[name] == drawn[EARLY] for name in ARMS)
    assert len(set(drawn[EARLY].values())) == len(drawn[EARLY])


def test_numbers_of_every_arm_and_pair(analysis):
    found = metric_of(analysis)
    measured = "pass@1 pass@8 coverage.family coverage.solution access.support_mass access.top1 access.entropy"
    for name in ARMS:
        for metric in [*measured.split(), "access.gini", "entropy.problem_mean", "cohort.size", "cohort.share"]:
            row = found[name, metric]
            assert row.n > 0
            assert row.low <= row.value <= row.high
        for metric in measured.split():
            assert found[name, f"cohort.{metric}"].n <= found[name, "cohort.size"].value
    for pair in combinations(ARMS, 2):
        for metric in ("pass@1", "coverage.family", "cohort.coverage.family"):
            assert (" - ".join(pair), f"difference.{metric}") in found
    assert json.loads((analysis.folder / "metrics.json").read_text())[0]["checkpoint"] == EARLY


def test_coverage_and_cohort_by_hand(analysis, rollouts, spaces):
    found = metric_of(analysis)
    correct = {}
    for name in ARMS:
        rows = rollouts.of(name).table.select(("problem_id", "correct", "family", "answer")).to_pylist()
        right = {
            problem: [row for row in rows if row["problem_id"] == problem and row["correct"]] for problem in spaces
        }
        correct[name] = {problem for problem, of_problem in right.items() if of_problem}
        family, solution = [], []
        for problem, space in spaces.items():
            family.append(len({row["family"] for row in right[problem]} & space.menu) / len(space.menu))
            solution.append(len({row["answer"] for row in right[problem]} & space.solutions) / len(space.solutions))
        assert found[name, "coverage.family"].value == pytest.approx(np.mean(family))
        assert found[name, "coverage.solution"].value == pytest.approx(np.mean(solution))
    assert found[SFT, "cohort.size"].value == len(set.intersection(*correct.values()))


def test_forced_samples_begin_as_they_were_forced_to(rollouts, spaces):
    """Every sample of a forced arm belongs to a family of the menu, and the families have equal shares."""
    rows = rollouts.of(FORCED).table.to_pylist()
    texts = Counter()
    for row in rows:
        length = row["branch_position"]
        assert length > 0
        assert row["first_calculation"] in spaces[row["problem_id"]].menu
        assert row["text"].replace(" ", "").removeprefix("<answer>").startswith(row["first_calculation"])
        if row["family"] is not None:
            assert row["family"] == row["first_calculation"]
        texts[row["problem_id"], row["first_calculation"]] += 1
    for problem, space in spaces.items():
        shares = [texts[problem, family] for family in space.menu]
        assert sum(shares) == 8
        assert max(shares) - min(shares) <= 1
    plain = {row["problem_id"]: row["prompt_ids"] for row in rollouts.of(SFT).table.to_pylist()}
    for row in rows:
        assert row["prompt_ids"][: -row["branch_position"]] == plain[row["problem_id"]]


def test_a_variant_that_the_template_drops_is_the_plain_arm_and_said_so(analysis, rollouts):
    assert plain_rows(rollouts, VARIED) == plain_rows(rollouts, SFT)
    assert any(VARIED in note and "leaves the sentence out" in note for note in analysis.diagnosis.notes)
    found = metric_of(analysis)
    assert found[f"{SFT} - {VARIED}", "difference.coverage.family"].value == 0


def test_the_table_of_families_adds_up(analysis, rollouts, spaces):
    rows = pq.read_table(analysis.folder / "families.parquet").to_pylist()
    for name in ARMS:
        of_arm = rollouts.of(name).table.to_pylist()
        for problem, space in spaces.items():
            here = [row for row in rows if (row["checkpoint"], row["problem_id"]) == (name, problem)]
            firsts = Counter(row["first_calculation"] for row in of_arm if row["problem_id"] == problem)
            del firsts[None]
            assert {row["family"] for row in here if row["offered"]} == space.menu
            assert {row["family"]: row["starts"] for row in here if row["starts"]} == firsts
            assert sum(row["access"] for row in here) == pytest.approx(1)
            assert {row["samples"] for row in here} == {8}
            right = Counter(
                row["first_calculation"] for row in of_arm if row["problem_id"] == problem and row["correct"]
            )
            assert {row["family"]: row["correct"] for row in here if row["correct"]} == right
            assert all(row["graded"] == row["starts"] for row in here)


def test_figures_and_files_are_there(analysis):
    names = {drawing.name for drawing in analysis.diagnosis.drawings}
    assert names == {"families", "ladder", "manners_breadth", "manners_accuracy"}
    for name in [*names, "pass_at_k"]:
        assert (analysis.folder / "figures" / f"{name}.svg").is_file()
    assert analysis.report.is_file()
    problems = pq.read_table(analysis.folder / "problems.parquet").to_pylist()
    assert {row["checkpoint"] for row in problems} == set(ARMS)
    assert {"coverage.family", "cohort.coverage.family"} <= {row["metric"] for row in problems}


def test_a_run_that_was_stopped_ends_with_the_same_numbers(analysis, tmp_path, monkeypatch):
    write_part, written = Run.write_part, []

    def stop_in_the_third_arm(self: Run, index: int, rollouts: Rollouts) -> None:
        write_part(self, index, rollouts)
        written.append(index)
        if len(written) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(Run, "write_part", stop_in_the_third_arm)
    with pytest.raises(KeyboardInterrupt):
        coverage(PLAN, tmp_path / "run")
    again = coverage(PLAN, tmp_path / "run")
    assert len(written) == len(set(written)), "no part is sampled twice"
    assert again.metrics == analysis.metrics
    for name in ("metrics.json", "families.parquet", "problems.parquet"):
        assert (tmp_path / "run" / name).read_bytes() == (analysis.folder / name).read_bytes()


def test_an_ordinary_template_shows_the_variant(chat_checkpoint: Checkpoint, tmp_path):
    name = chat_checkpoint.name
    plan = replace(
        PLAN,
        checkpoints=(name,),
        prompt_variants=(SENTENCE,),
        forced=False,
        problems=2,
        samples=4,
        sampling=Sampling(max_new_tokens=6),
    )
    run = coverage(plan, tmp_path / "run")
    rows = Rollouts.read(run.folder)
    plain, varied = (rows.of(one).table["prompt_ids"].to_pylist() for one in (name, f"{name} [{SENTENCE}]"))
    assert len(varied) == 8
    assert not {tuple(ids) for ids in plain} & {tuple(ids) for ids in varied}
    assert len({tuple(ids) for ids in varied}) > 2, "each number is asked for by name"
    assert not any("leaves the sentence out" in note for note in run.diagnosis.notes)


def test_problems_without_a_solution_are_told_apart_and_asked_plainly(tmp_path):
    """Unsolvable and too large problems have no coverage; pass@k counts them in every arm."""
    rows = [([3, 5], 8), ([3, 5], 200), ([1, 1, 1, 1, 1, 1, 1, 1], 3)]
    manner = {"format": "steps", "rules": {"integers_only": True, "minimum": 0, "max_value": 225}}
    text = "\n".join(json.dumps({"nums": nums, "target": target, **manner}) for nums, target in rows)
    (tmp_path / "mine.jsonl").write_text(text)
    plan = replace(
        PLAN, checkpoints=(SFT,), task=str(tmp_path / "mine.jsonl"), problems=None, samples=4, prompt_variants=()
    )
    run = coverage(plan, tmp_path / "run")
    found = metric_of(run)
    for name in (SFT, FORCED):
        assert found[name, "pass@1"].n == 3
        assert found[name, "coverage.family"].n == 1
        assert found[name, "cohort.size"].n == 1
    assert any("1 of 3 problems have no solution and 1 are too large" in note for note in run.diagnosis.notes)
    forced = Rollouts.read(run.folder).of(FORCED).table.to_pylist()
    assert {row["problem_id"] for row in forced if row["branch_position"] is None} == {
        problem.id for problem in Countdown.from_file(tmp_path / "mine.jsonl").problems()[1:]
    }


def test_the_ladder_is_the_default():
    assert CoveragePlan().checkpoints == LADDER
    assert CoveragePlan().manners == ("plain",)
    assert PLAN.manners == ("plain", "begin-with", "forced")


def test_wrong_plans_are_refused(tmp_path):
    questions = tmp_path / "questions.jsonl"
    questions.write_text('{"question": "1 + 1?", "answer": "2"}\n')
    unsolvable = tmp_path / "unsolvable.jsonl"
    unsolvable.write_text('{"nums": [1, 1], "target": 900}\n')
    for changes, words in (
        ({"checkpoints": (SFT, SFT)}, "named twice"),
        ({"checkpoints": ()}, "no checkpoint"),
        ({"prompt_variants": ("another-wey",)}, "did you mean another-way"),
        ({"prompt_variants": ("many-ways", "many-ways")}, "--prompt-variant 'many-ways' is named twice"),
        ({"ks": (9,)}, "pass@9"),
        ({"task": str(questions)}, "cannot write its solutions down"),
        ({"task": str(unsolvable)}, "has an enumerated solution"),
    ):
        with pytest.raises(InputError, match=words):
            coverage(replace(PLAN, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()
