import json

import pytest
import torch
from safetensors.torch import load_file

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.progress import Silent, SilentStage
from entropy_lab.prompts import encode_prompt
from entropy_lab.tasks.countdown.answers import grade_answer
from entropy_lab.tasks.countdown.task import LADDER_RULES, Countdown, countdown_problem
from entropy_lab.training import supervised
from entropy_lab.training.countdown_corpus import build_corpus
from entropy_lab.training.number_tokenizer import number_tokenizer
from entropy_lab.training.recipe import Corpus, ModelShape, Optimizer, Recipe, load_recipe

RECIPE = Recipe(
    name="tiny",
    steps=7,
    seed=3,
    model=ModelShape(hidden_size=32, layers=1, heads=1, key_value_heads=1, intermediate_size=32),
    corpus=Corpus(numbers=(3,), largest_number=6, largest_target=20, test_problems=20),
    optimizer=Optimizer(learning_rate=1e-2, warmup_steps=2, weight_decay=0.01, batch_size=16),
    rungs={"early": 3, "last": 7},
)


class Killed(RuntimeError):
    pass


class KillAfter(Silent):
    """Progress that dies in the middle of a run, as a kill would."""

    def __init__(self, steps):
        self.steps = steps

    def stage(self, name, total, unit, done=0):
        outer = self

        class Stage(SilentStage):
            def advance(self, amount=1):
                outer.steps -= amount
                if outer.steps == 0:
                    raise Killed

        return Stage()


def weights(folder):
    return load_file(folder / "model.safetensors")


def test_a_run_killed_and_resumed_gives_the_same_bits(tmp_path, monkeypatch):
    """T1: N + M steps equal N, save, kill, load, M."""
    monkeypatch.setattr(supervised, "STATE_EVERY", 2)
    monkeypatch.setattr(supervised, "LOG_EVERY", 1)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    supervised.train_supervised(RECIPE, whole)
    with pytest.raises(Killed):
        supervised.train_supervised(RECIPE, broken, KillAfter(5))
    supervised.train_supervised(RECIPE, broken)
    for rung in RECIPE.rungs:
        first, second = weights(whole / rung), weights(broken / rung)
        assert all(torch.equal(first[name], second[name]) for name in first)
    assert (whole / "metrics.jsonl").read_text() == (broken / "metrics.jsonl").read_text()
    losses = [json.loads(line)["loss"] for line in (whole / "metrics.jsonl").read_text().splitlines()]
    assert len(losses) == 7
    assert losses[-1] < losses[0]


def test_rungs_load_and_ask_what_they_were_taught(tmp_path):
    last = supervised.train_supervised(RECIPE, tmp_path)[-1]
    checkpoint = load_checkpoint(str(last))
    assert json.loads((last / "config.json").read_text())["dtype"] == "float16"
    problem = countdown_problem((3, 5, 7), 22)
    asked = encode_prompt(checkpoint, Countdown((), "steps", LADDER_RULES).messages(problem))
    batch = supervised.encode([((3, 5, 7), 22, "3*5=15,15+7=22")], checkpoint.tokenizer, LADDER_RULES)
    assert batch.tokens_BL[0, : len(asked)].tolist() == list(asked)
    taught = batch.targets_BL[0][batch.targets_BL[0] != -100].tolist()
    assert checkpoint.tokenizer.decode(taught) == "3*5=15,15+7=22<end>"
    assert batch.targets_BL[0, len(asked) - 1] == checkpoint.tokenizer.convert_tokens_to_ids("3")


def test_another_recipe_does_not_overwrite_a_run(tmp_path):
    supervised.train_supervised(RECIPE.model_copy(update={"steps": 1, "rungs": {}}), tmp_path)
    with pytest.raises(InputError, match="another recipe"):
        supervised.train_supervised(RECIPE, tmp_path)


def test_a_damaged_state_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(supervised, "STATE_EVERY", 1)
    short = RECIPE.model_copy(update={"steps": 1, "rungs": {}})
    supervised.train_supervised(short, tmp_path)
    state = tmp_path / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(InputError, match=r"state\.safetensors"):
        supervised.train_supervised(short, tmp_path)


def test_train_and_test_problems_are_disjoint_and_examples_are_right():
    corpus = build_corpus(RECIPE.corpus, LADDER_RULES, 1)
    train, test = {problem.key for problem in corpus.train}, {problem.key for problem in corpus.test}
    assert not train & test
    assert len(test) == 20
    examples = corpus.examples(1, 5, 50)
    assert examples == corpus.examples(1, 5, 50)
    assert examples != corpus.examples(1, 6, 50)
    assert all(grade_answer(nums, target, text, "steps", LADDER_RULES).correct for nums, target, text in examples)


def test_examples_cover_every_solution_of_a_problem_evenly():
    """Uniformly sampled solutions: no family of solutions is taught more than another."""
    corpus = build_corpus(RECIPE.corpus.model_copy(update={"largest_number": 4, "test_problems": 1}), LADDER_RULES, 0)
    problem = max(corpus.train, key=lambda one: len(one.solutions))
    only = type(corpus)((problem,), (), LADDER_RULES)
    answers = [grade_answer(*example, "steps", LADDER_RULES).tree for example in only.examples(0, 0, 4000)]
    counts = {}
    for tree in answers:
        form = supervised_form(tree)
        counts[form] = counts.get(form, 0) + 1
    expected = 4000 / len(problem.solutions)
    assert set(counts) == set(problem.solutions)
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 3 * len(counts) + 10


def supervised_form(tree):
    from entropy_lab.tasks.countdown.expressions import canonical

    return canonical(tree)


def test_the_loss_counts_completion_tokens_only_and_not_padding():
    tokenizer = number_tokenizer(225)
    model = supervised.fresh_model(RECIPE.model, tokenizer, 0).eval()
    short, long = ((3, 5), 8, "3+5=8"), ((3, 5, 7), 22, "3*5=15,15+7=22")
    together = supervised.encode([short, long], tokenizer, LADDER_RULES)
    alone = supervised.encode([short], tokenizer, LADDER_RULES)
    with torch.no_grad():
        width = alone.tokens_BL.shape[1]
        batched = model(together.tokens_BL).logits[0, :width]
        single = model(alone.tokens_BL).logits[0]
    torch.testing.assert_close(batched, single, atol=1e-5, rtol=0)
    assert (together.targets_BL[0] != -100).sum() == (alone.targets_BL[0] != -100).sum() == 6


def test_the_number_tokenizer_is_an_ordinary_one(tmp_path):
    from transformers import AutoTokenizer

    number_tokenizer(225).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer("12*3=36,225-36=189")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["12", "*", "3", "=", "36", ",", "225", "-", "36", "=", "189"]
    assert tokenizer.decode(ids) == "12*3=36,225-36=189"
    assert tokenizer("226")["input_ids"] == [tokenizer.unk_token_id]


def test_shipped_recipe_reads_and_wrong_ones_are_named(tmp_path):
    assert load_recipe("sft").rungs["sft"] == load_recipe("sft").steps
    path = tmp_path / "mine.toml"
    for text, told in [
        ("steps = ", "not valid TOML"),
        ("name = 'x'\nsteps = -1", "steps"),
        (_toml().replace("layers", "layerz"), "layerz"),
    ]:
        path.write_text(text)
        with pytest.raises(InputError, match=told):
            load_recipe(path)
    with pytest.raises(InputError, match="Shipped recipes: sft"):
        load_recipe("sfft")


def _toml():
    from importlib.resources import files

    return (files("entropy_lab.training") / "recipes" / "sft.toml").read_text(encoding="utf-8")
