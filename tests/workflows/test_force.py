"""`force` on the embedded ladder and on untrained models: counts, masses, controls, resume, what is left behind."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from tiny import build_checkpoint
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.interventions.forcing import entrance_prefix
from entropy_lab.interventions.prefix_ladder import ladder
from entropy_lab.prompts import encode_prompt
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run
from entropy_lab.tasks.countdown.task import LADDER_RULES, Countdown, countdown_problem
from entropy_lab.tasks.protocol import Grade
from entropy_lab.workflows.force import ForcePlan, force
from entropy_lab.workflows.forced_table import family_table

PLAN = ForcePlan(problems=6, samples=48, continuations=12, device="cpu", sampling=Sampling(max_new_tokens=40, seed=3))


@pytest.fixture(scope="module")
def analysis(tmp_path_factory):
    return force(PLAN, tmp_path_factory.mktemp("force") / "run")


@pytest.fixture(scope="module")
def rows(analysis):
    return pq.read_table(analysis.folder / "families.parquet").to_pylist()


@pytest.fixture(scope="module")
def task():
    return Countdown.embedded()


def values(analysis):
    return {metric.metric: metric.value for metric in analysis.metrics}


def test_the_ladder_comes_out_as_it_must(analysis):
    """Σ access · execution meets the solve rate within its interval; the controls of strict steps are exactly 0."""
    found = {metric.metric: metric for metric in analysis.metrics}
    gap = found["force.factor.gap"]
    assert gap.low <= 0 <= gap.high
    assert found["force.infeasible"].value == found["force.corrupted"].value == 0
    assert 0 < found["force.free"].value < found["force.execution"].value < found["force.execution_value"].value
    assert found["force.corrupted_continued"].value > 0
    assert found["force.access_agreement"].value > 0.7
    assert found["force.low_access.gain"].value > 0.1
    for metric in analysis.metrics:
        assert metric.value is not None
        assert metric.low <= metric.value <= metric.high
        assert metric.n >= 1


def test_numbers_are_those_of_the_stored_rollouts(analysis, rows):
    """Counted again from the Parquet files, by group and text alone."""
    table = Rollouts.read(analysis.folder).table.to_pylist()
    for row in rows:
        mine = [one for one in table if one["problem_id"] == row["problem_id"]]
        free = [one for one in mine if one["group_id"] == row["problem_id"]]
        assert len(free) == PLAN.samples
        starts = [one["first_calculation"] for one in free if one["first_calculation"] is not None]
        assert row["access_sampled"] == pytest.approx(starts.count(row["family"]) / len(starts))
        right = [one for one in free if one["correct"] and one["family"] == row["family"]]
        assert row["free_correct"] == pytest.approx(len(right) / len(free))
        level = "entrance" if row["offered"] else "infeasible"
        forced = [one for one in mine if one["group_id"] == f"{row['problem_id']} {level} {row['family']}"]
        assert len(forced) == PLAN.continuations
        assert all(one["text"].startswith(row["family"]) for one in forced)
        right = [one for one in forced if one["correct"] and one["family"] == row["family"]]
        assert row["execution" if row["offered"] else "infeasible"] == pytest.approx(len(right) / len(forced))
        given = [one for one in mine if f"{row['problem_id']} value {row['family']}" in one["group_id"]]
        if row["execution_value"] is not None:
            assert len(given) == PLAN.continuations
            assert row["execution_value"] == pytest.approx(sum(one["correct"] for one in given) / len(given))
    assert {row["offered"] for row in rows} == {True, False}
    assert all(row["execution"] is None and row["access_mass"] is None for row in rows if not row["offered"])


def test_columns_of_problems_are_means_of_their_families(analysis, rows):
    stored = pq.read_table(analysis.folder / "problems.parquet").to_pylist()
    for one in stored:
        if one["metric"] == "force.execution":
            mine = [row["execution"] for row in rows if row["problem_id"] == one["problem_id"] and row["offered"]]
            assert one["value"] == pytest.approx(np.mean(mine))
    assert {one["metric"] for one in stored} <= set(values(analysis))


def test_mass_is_a_softmax_of_the_models_own_log_probs(rows, task):
    checkpoint = load_checkpoint("builtin:sft", device="cpu")
    for problem in task.problems()[:2]:
        prompt = list(encode_prompt(checkpoint, task.messages(problem)))
        mine = {row["family"]: row["access_mass"] for row in rows if row["problem_id"] == problem.id and row["offered"]}
        logs = []
        for family in mine:
            ids = list(entrance_prefix(checkpoint, task, problem, family))
            with torch.inference_mode():
                logits = checkpoint.model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1].double()
            logs.append(logits.log_softmax(-1)[range(len(ids)), ids].sum())
        np.testing.assert_allclose(list(mine.values()), torch.stack(logs).softmax(0), atol=1e-5)


def test_prefix_ids_follow_prompt_ids_as_they_are(analysis, task):
    """Nothing is encoded again: a forced row's prompt is the free row's prompt and the prefix, its text the whole."""
    checkpoint = load_checkpoint("builtin:sft", device="cpu")
    table = Rollouts.read(analysis.folder).table.to_pylist()
    prompts = {one["problem_id"]: one["prompt_ids"] for one in table if one["branch_position"] is None}
    problems = {problem.id: problem for problem in task.problems()}
    forced = [one for one in table if " entrance " in one["group_id"]]
    assert forced
    for one in forced:
        name, _, family = one["group_id"].rpartition(" entrance ")
        ids = list(entrance_prefix(checkpoint, task, problems[name], family))
        assert one["prompt_ids"] == prompts[name] + ids
        assert one["branch_position"] == len(ids)
    keys = [(one["problem_id"], one["sample_index"]) for one in table]
    assert len(set(keys)) == len(keys)


def test_free_samples_and_draws_do_not_depend_on_what_is_forced_beside_them(analysis, tmp_path):
    """With no scaffold they are the samples that plain sampling of the same seed gives."""
    other = force(replace(PLAN, continuations=3, problems=3), tmp_path / "other")

    def free(one):
        rows = Rollouts.read(one.folder).table.to_pylist()
        return {(row["problem_id"], row["sample_index"]): row["text"] for row in rows if not row["branch_position"]}

    assert free(other).items() <= free(analysis).items()


def test_a_run_cut_short_ends_with_the_same_numbers(analysis, tmp_path, monkeypatch):
    write_part = Run.write_part

    def stop_after_one(self: Run, index: int, rollouts: Rollouts) -> None:
        write_part(self, index, rollouts)
        raise KeyboardInterrupt

    monkeypatch.setattr(Run, "write_part", stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        force(PLAN, tmp_path / "run")
    monkeypatch.setattr(Run, "write_part", write_part)
    first = tmp_path / "run" / "rollouts" / "part-00000.parquet"
    kept = first.stat().st_mtime_ns
    assert not (tmp_path / "run" / "families.parquet").exists()
    again = force(PLAN, tmp_path / "run")
    assert first.stat().st_mtime_ns == kept
    for name in ("metrics.json", "families.parquet"):
        assert (tmp_path / "run" / name).read_bytes() == (analysis.folder / name).read_bytes()
    assert again.metrics == analysis.metrics


def test_what_is_counted_of_hand_written_samples():
    """A forced sample counts where it ends correct in the family it was forced to; failed gradings count nowhere."""
    task, problem = Countdown((), "steps", LADDER_RULES), countdown_problem([1, 3, 5], 16)
    steps = ladder(task, problem, None, 0)
    prefix = {(one.level, one.body): one for one in steps.prefixes}
    free, entrance, wrong = prefix["empty", ""], prefix["entrance", "3*"], prefix["corrupted", "3*5=17"]
    written = [
        (free, "3*5=15,15+1=16"),
        (free, "98-35=63, so no"),
        (free, "nothing"),
        (free, None),
        (entrance, "3*5=15,15+1=16"),
        (entrance, "3*1 no <answer>5*3=15,15+1=16</answer>"),
        (entrance, "3*1=3"),
        (entrance, None),
        (wrong, "3*5=17,17-1=16"),
        (wrong, "3*5=17,17+1=18"),
    ]
    rows = []
    for index, (_, text) in enumerate(written):
        grade = Grade(correct=None, code="failed") if text is None else task.grade(problem, text)
        given = {"correct": grade.correct, "family": grade.family, "first_calculation": grade.first_calculation}
        rows.append({"checkpoint": "a", "problem_id": problem.id, "sample_index": index, "text": text, **given})
    table = family_table(
        Rollouts.from_rows(rows),
        {(problem.id, index): one for index, (one, _) in enumerate(written)},
        [steps],
        {(problem.id, family): -1.0 for family in steps.menu},
    )
    assert (table.samples_P[0], table.started_P[0], table.solved_P[0]) == (3, 2, 1)
    starts = dict(zip(table.family_F, table.first_F.tolist(), strict=True))
    assert {family: count for family, count in starts.items() if count} == {"3*": 1}
    row = table.family_F.index("3*")
    assert (table.free_correct_F[row], table.completed["entrance"][row], table.asked["entrance"][row]) == (1, 1, 3)
    assert (table.completed["corrupted"][row], table.asked["corrupted"][row]) == (0, 2)
    assert (table.completed["continued"][row], table.asked["continued"][row]) == (1, 2)
    assert table.offered_F.tolist() == [True] * len(steps.menu) + [False] * len(steps.infeasible)


def test_whatever_changes_the_rollouts_names_another_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("entropy_lab.workflows.force._drawings", lambda *_: ())
    small = replace(PLAN, problems=1, samples=4, continuations=2)
    first = force(small).folder
    assert force(small).folder == first
    others = [replace(small, continuations=3), replace(small, scaffold="1+")]
    assert len({first, *(force(plan).folder for plan in others)}) == 3


def test_what_is_drawn_and_told(analysis):
    for name in ("forced_levels", "access_execution"):
        assert (analysis.folder / "figures" / f"{name}.svg").is_file()
    assert "forced_levels" in [drawing.name for drawing in analysis.diagnosis.drawings]
    assert json.loads((analysis.folder / "run.json").read_text())["settings"]["scaffold"] == ""


def test_a_scaffold_stands_before_free_and_forced_samples(tmp_path):
    found = force(replace(PLAN, problems=1, samples=4, continuations=2, scaffold="="), tmp_path / "run")
    table = Rollouts.read(found.folder).table.to_pylist()
    assert all(one["text"].startswith("=") for one in table)
    free = [one for one in table if one["branch_position"] == 1]
    assert [one["group_id"] for one in free] == [one["problem_id"] for one in free]
    assert len(free) == 4


@pytest.fixture(scope="module")
def spelling_checkpoint(tmp_path_factory):
    """An untrained model that reads and writes single characters."""
    characters = [*"0123456789+-*/=(),:<> ", *map(chr, range(97, 123)), *map(chr, range(65, 91)), "\n", "."]
    tokens = ["<pad>", "<eos>", "<unk>", *characters]
    folder = build_checkpoint(tmp_path_factory.mktemp("spelling") / "model", tokens=tokens, initializer_range=0.02)
    backend = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>"
    ).save_pretrained(folder)
    return folder


def test_expressions_have_no_value_to_corrupt(spelling_checkpoint, tmp_path):
    problems = [{"nums": [9, 4, 3], "target": 15}, {"nums": [1, 1], "target": 200}]
    (tmp_path / "p.jsonl").write_text("\n".join(map(json.dumps, problems)))
    plan = replace(PLAN, checkpoint=str(spelling_checkpoint), task=str(tmp_path / "p.jsonl"), samples=4)
    found = force(plan, tmp_path / "run")
    metrics = {metric.metric: metric for metric in found.metrics}
    assert metrics["force.corrupted"].value is None
    assert metrics["force.corrupted"].note
    assert "without its value" in metrics["force.execution_value"].note
    assert any("1 of 2 problems have no menu" in note for note in found.diagnosis.notes)
    assert any("cut off at the length limit" in note for note in found.diagnosis.notes)
    texts = Rollouts.read(found.folder).strings("text")
    assert all(text.startswith("<answer>") for text in texts)
    assert any(text.startswith("<answer>(9-4") for text in texts)


def test_what_the_second_operands_share(tmp_path):
    """7 continuations over the second operands of a family: the first ones get what is left over."""
    found = force(replace(PLAN, problems=2, samples=4, continuations=7), tmp_path / "run")
    counts: dict[tuple[str, str], list[int]] = {}
    for one in Rollouts.read(found.folder).table.group_by("group_id").aggregate([([], "count_all")]).to_pylist():
        name, level, body = (*one["group_id"].split(" "), "", "")[:3]
        if level == "value":
            family = body[: next(i for i, mark in enumerate(body) if mark in "+-*/") + 1]
            counts.setdefault((name, family), []).append(one["count_all"])
    assert any(len(shares) > 1 for shares in counts.values())
    for shares in counts.values():
        assert sum(shares) == 7
        assert max(shares) - min(shares) <= 1


def test_wrong_plans_are_refused_before_anything_is_made(tmp_path):
    (tmp_path / "none.jsonl").write_text('{"nums": [1, 1], "target": 200, "format": "steps"}')
    (tmp_path / "auto.jsonl").write_text('{"nums": [1, 2], "target": 3, "format": "auto"}')
    for changes, words in (
        ({"continuations": 0}, "--continuations is 0"),
        ({"samples": 0}, "--samples is 0"),
        ({"samples": 1, "sampling": Sampling(0.0)}, "--continuations 1"),
        ({"task": str(tmp_path / "none.jsonl")}, "None of the 1 problems"),
        ({"task": str(tmp_path / "auto.jsonl")}, "leaves the answer format open"),
        ({"scaffold": "<answer>"}, "cannot spell '<answer>'"),
    ):
        with pytest.raises(InputError, match=words):
            force(replace(PLAN, **changes), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_greedy_continuations_are_one_a_family(tmp_path):
    plan = replace(PLAN, problems=2, samples=1, continuations=1, sampling=Sampling(0.0, max_new_tokens=40))
    assert values(force(plan, tmp_path / "run"))["force.solve_rate"] in (0.0, 0.5, 1.0)
