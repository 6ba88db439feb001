import json
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.engines.protocol import Request, Sampling
from entropy_lab.errors import InputError
from entropy_lab.progress import Silent
from entropy_lab.prompts import encode_prompt
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run
from entropy_lab.scoring.teacher_forced import score
from entropy_lab.tasks.countdown.task import Countdown
from entropy_lab.texts import token_texts
from entropy_lab.workflows import shift as shift_module
from entropy_lab.workflows.sampling import Order, order_of
from entropy_lab.workflows.shift import ShiftPlan, shift
from entropy_lab.workflows.shift_texts import sampled_texts, witness_texts
from tests.tiny import TOKENS, build_checkpoint

SMALL = ShiftPlan(problems=6, samples=3, device="cpu")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return shift(SMALL, tmp_path_factory.mktemp("shift") / "run")


def rows_of(analysis):
    return pq.read_table(analysis.folder / "shift.parquet").to_pylist()


def values_of(analysis):
    return {row.metric: row.value for row in analysis.metrics}


def test_witnesses_of_the_ladder_split_after_two_tokens(found):
    """One token a number or operator: an entrance is two tokens, all families of the menu are there."""
    checkpoint = load_checkpoint("builtin:sft", device="cpu")
    task = Countdown.embedded()
    spaces = {problem.id: task.space(problem) for problem in task.problems()[:6]}
    rows = rows_of(found)
    assert {(row["problem_id"], row["family"]) for row in rows} == {
        (ident, family) for ident, space in spaces.items() for family in space.menu
    }
    for row in rows:
        assert (row["scaffold_length"], row["entrance_length"]) == (0, 2)
        assert "".join(token_texts(checkpoint.tokenizer, row["token_ids"][:2])) == row["family"]
        assert row["token_ids"][-1] == checkpoint.end_ids[0]
        assert len(row["kl"]) == len(row["logprob_early"]) == len(row["logprob_late"]) == len(row["token_ids"])


def test_log_probs_are_those_of_each_checkpoint_alone(found):
    task = Countdown.embedded()
    messages = {problem.id: task.messages(problem) for problem in task.problems()[:6]}
    rows = rows_of(found)
    for name, column in (("builtin:sft-early", "logprob_early"), ("builtin:sft", "logprob_late")):
        checkpoint = load_checkpoint(name, device="cpu")
        prompts = [encode_prompt(checkpoint, messages[row["problem_id"]]) for row in rows]
        ids = [row["problem_id"] for row in rows]
        alone = score(checkpoint, ids, prompts, [row["token_ids"] for row in rows])
        for row, scores in zip(rows, alone, strict=True):
            np.testing.assert_array_equal(np.array(row[column], np.float32), scores.logprob)


def test_metrics_are_what_the_table_says(found):
    """Token mean within a text, then texts of a problem, then problems; the ratio is of those means."""
    by_problem = {}
    for row in rows_of(found):
        delta = np.array(row["logprob_late"]) - np.array(row["logprob_early"])
        for part, tokens in (("entrance", slice(0, 2)), ("execution", slice(2, None))):
            one = (np.abs(delta[tokens]).mean(), delta[tokens].mean(), np.mean(row["kl"][tokens]))
            by_problem.setdefault(part, {}).setdefault(row["problem_id"], []).append(one)
    values = values_of(found)
    means = {}
    for part, problems in by_problem.items():
        means[part] = np.mean([np.mean(texts, axis=0) for texts in problems.values()], axis=0)
        names = (f"shift.{part}.abs", f"shift.{part}.mean", f"kl.{part}")
        np.testing.assert_allclose([values[name] for name in names], means[part], rtol=1e-9)
    ratio = means["entrance"] / means["execution"]
    np.testing.assert_allclose([values["shift.ratio"], values["kl.ratio"]], ratio[[0, 2]], rtol=1e-9)
    assert all(row.n == 6 and row.low <= row.value <= row.high for row in found.metrics)


def test_the_run_directory_is_complete(found):
    assert json.loads((found.folder / "metrics.json").read_text())[0]["metric"] == "shift.entrance.abs"
    for name in ("problems.parquet", "report.html", "figures/shift_by_position.svg", "figures/kl_by_position.png"):
        assert (found.folder / name).is_file()
    problems = pq.read_table(found.folder / "problems.parquet").to_pylist()
    assert len(problems) == 6 * 6  # problems × columns
    again = shift(SMALL, found.folder)
    assert again.metrics == found.metrics


def test_a_checkpoint_against_itself_has_no_shift_and_no_ratio(tmp_path):
    same = shift(replace(SMALL, early="builtin:sft"), tmp_path / "run")
    assert {row.metric: row.value for row in same.metrics if row.metric.endswith("ratio")} == {
        "shift.ratio": None,
        "kl.ratio": None,
    }
    for row in same.metrics:
        assert row.value == 0 or "no value" in row.note


@pytest.mark.parametrize("source", ["early", "late"])
def test_sampled_traces_of_either_side(source, tmp_path, monkeypatch):
    """Traces come from the run directory, where a stopped run continues; every token is scored at both sides."""
    plan = replace(SMALL, texts=source, sampling=Sampling(max_new_tokens=24, seed=3))
    write_part, written = Run.write_part, []

    def spy(self, index, rollouts):
        written.append(index)
        write_part(self, index, rollouts)

    monkeypatch.setattr(Run, "write_part", spy)
    analysis = shift(plan, tmp_path / "run")
    sampled = {
        (row["problem_id"], row["sample_index"]): row for row in Rollouts.read(tmp_path / "run").table.to_pylist()
    }
    assert {row["checkpoint"] for row in sampled.values()} == {plan.early if source == "early" else plan.late}
    rows = rows_of(analysis)
    assert 12 <= len(rows) <= len(sampled) == 18
    for row in rows:
        trace = sampled[row["problem_id"], row["text_index"]]
        assert row["token_ids"] == trace["token_ids"]
        assert row["family"] == trace["first_calculation"]
        np.testing.assert_allclose(row[f"logprob_{source}"], trace["logprob"], atol=1e-4)
    missing = len(sampled) - len(rows)
    assert bool(missing) == any(f"{missing} of 18 texts left out" in note for note in analysis.diagnosis.notes)
    first = list(written)
    assert shift(plan, tmp_path / "run").metrics == analysis.metrics
    assert written == first


def test_batches_change_rounding_only(found, tmp_path, monkeypatch):
    original = shift_module.score_pair
    monkeypatch.setattr(shift_module, "score_pair", lambda *a, **k: original(*a, **k, token_budget=40))
    split = shift(SMALL, tmp_path / "run")
    for name, value in values_of(split).items():
        assert value == pytest.approx(values_of(found)[name], rel=1e-4)


def expression_task(tmp_path, rows=(([3, 5, 7], 22), ([12, 4, 2], 26))):
    path = tmp_path / "set.jsonl"
    path.write_text("".join(json.dumps({"nums": nums, "target": target}) + "\n" for nums, target in rows))
    return Countdown.from_file(path)


def merging_tokenizer():
    """`3*5` and `12+` are one token each; everything else single characters, tags whole."""
    words = ["<end>", "<unk>", "<answer>", "</answer>", "3*5", "12+", *"0123456789()+-*/"]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"</?answer>|3\*5|12\+|."), "isolated")
    tokenizer.add_special_tokens(["<end>"])
    from tokenizers import decoders

    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", unk_token="<unk>")


def split_witnesses(checkpoint, task, seeds=range(4)):
    """(scaffold, entrance, rest) as text for the witnesses of several seeds."""
    prompt = (5,)
    for seed in seeds:
        requests = [Request(problem.id, prompt, 1) for problem in task.problems()]
        order = Order(checkpoint, task, task.problems(), requests, Sampling())
        for text in witness_texts(order, task, seed, Silent()).texts:
            pieces = token_texts(checkpoint.tokenizer, text.token_ids)
            start, stop = text.split.start, text.split.stop
            yield text.family, "".join(pieces[:start]), "".join(pieces[start:stop]), "".join(pieces[stop:])


def test_tokens_that_merge_digits_and_operator_go_to_the_entrance(tiny_checkpoint, tmp_path):
    checkpoint = replace(tiny_checkpoint, tokenizer=merging_tokenizer(), end_ids=(0,))
    entrances = set()
    for family, scaffold, entrance, rest in split_witnesses(checkpoint, expression_task(tmp_path)):
        assert scaffold == "<answer>"
        assert rest.endswith("</answer><end>")
        whole = entrance.lstrip("(")
        assert whole == ("3*5" if family == "3*" and whole != "3*" else family)
        assert not any(sign in entrance[:-2] for sign in "+-*/")
        entrances.add(entrance)
    assert {"(3*5", "12+"} & entrances
    assert "(5*" in entrances


def test_entrances_of_a_real_tokenizer(smollm2, tmp_path):
    """Byte-level BPE: digits one by one, tags in several tokens; offsets of the decoded text, never of a prefix."""
    task = expression_task(tmp_path, [([3, 5, 7], 22), ([12, 44, 19], 75)])
    found = list(split_witnesses(smollm2, task, seeds=[0]))
    assert [family for family, *_ in found] == ["3*", "5*", "7+", "12+", "19+", "44+"]
    for family, scaffold, entrance, rest in found:
        assert scaffold == "<answer>"
        assert entrance.strip("(") == family
        assert rest.endswith("</answer><|im_end|>")
    assert "7+(" in {entrance for _, _, entrance, _ in found}  # `+(` is one token


def test_sampled_reasoning_is_split_at_its_first_calculation(smollm2, tmp_path):
    task = expression_task(tmp_path, [([44, 19, 35], 98)])
    texts = [
        "Let me try **44** + 19 = 63, then 63 + 35 = 98. <answer>44+19+35</answer>",
        "I cannot.",
        "<answer>(44+19)+35</answer>",
        "  <answer>44 \\times 2</answer>",
    ]
    ids = [[*smollm2.tokenizer.encode(text), smollm2.end_ids[0]] for text in texts]
    (problem,) = task.problems()
    rollouts = Rollouts.from_rows(
        {"checkpoint": "x", "problem_id": problem.id, "sample_index": i, "prompt_ids": [1, 2], "token_ids": row}
        for i, row in enumerate(ids)
    )
    found = sampled_texts(smollm2, [problem], rollouts)
    assert [text.index for text in found.texts] == [0, 2, 3]
    assert found.notes == ("1 of 4 texts left out: no calculation in them.",)
    parts = []
    for text in found.texts:
        pieces = token_texts(smollm2.tokenizer, text.token_ids)
        parts.append(("".join(pieces[: text.split.start]), "".join(pieces[text.split.start : text.split.stop])))
    assert parts[0] == ("", "Let me try **44** +")
    assert parts[1] == ("<answer>", "(44+")
    assert parts[2] == ("  <answer>", "44 \\times")


def test_problems_and_families_without_a_text_are_counted(tmp_path):
    checkpoint = load_checkpoint("builtin:sft", device="cpu")
    path = tmp_path / "set.jsonl"
    rows = [([2, 3, 4], 6), ([2, 4], 7), ([3, 5], 8)]
    path.write_text(
        "".join(json.dumps({"nums": nums, "target": target, "format": "steps"}) + "\n" for nums, target in rows)
    )
    task = Countdown.from_file(path)
    order = order_of(checkpoint, task, task.problems(), 1, Sampling(), "auto")
    found = witness_texts(order, task, 0, Silent())
    assert {text.problem_id for text in found.texts} == {"6<2,3,4", "8<3,5"}
    assert found.notes[0].startswith("1 of 3 problems left out")
    assert "families left out: no text of the answer format begins with them" in found.notes[1]


def test_what_cannot_be_compared_is_refused(tmp_path, tiny_checkpoint_folder, chat_checkpoint_folder):
    out = tmp_path / "run"
    tiny = str(tiny_checkpoint_folder)
    with pytest.raises(InputError, match="different vocabularies"):
        shift(replace(SMALL, early="builtin:sft", late=tiny), out)
    plain = build_checkpoint(tmp_path / "plain", tokens=[*TOKENS, "<|im_start|>", "<|im_end|>"])
    chat = str(chat_checkpoint_folder)
    with pytest.raises(InputError, match=r"different prompts .*--prompt raw"):
        shift(replace(SMALL, early=str(plain), late=chat), out)
    with pytest.raises(InputError, match="cannot write the solution"):
        shift(replace(SMALL, early=tiny, late=tiny), out)
    with pytest.raises(InputError, match="--texts is 'both'"):
        shift(replace(SMALL, texts="both"), out)
    with pytest.raises(InputError, match="--temperature 0"):
        shift(replace(SMALL, samples=1, sampling=Sampling(temperature=0)), out)
    (tmp_path / "auto.jsonl").write_text(json.dumps({"nums": [3, 5], "target": 8, "format": "auto"}))
    with pytest.raises(InputError, match="takes answers in any format"):
        shift(replace(SMALL, task=str(tmp_path / "auto.jsonl")), out)
    (tmp_path / "words.jsonl").write_text(json.dumps({"question": "1 + 1?", "answer": "2"}))
    with pytest.raises(InputError, match="no Countdown set"):
        shift(replace(SMALL, task=str(tmp_path / "words.jsonl")), out)
    (tmp_path / "none.jsonl").write_text(json.dumps({"nums": [2, 4], "target": 7, "format": "steps"}))
    with pytest.raises(InputError, match=r"No text can be split .*1 of 1 problems left out"):
        shift(replace(SMALL, task=str(tmp_path / "none.jsonl")), out)
    assert not out.exists()
