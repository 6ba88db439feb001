"""The corpus: train and test apart, right examples drawn evenly, and the two files of problems that ship."""

import json
from importlib.resources import files

import pytest
from pydantic import ValidationError

from entropy_lab.errors import InputError
from entropy_lab.tasks.countdown.answers import grade_answer
from entropy_lab.tasks.countdown.enumeration import solutions
from entropy_lab.tasks.countdown.expressions import canonical
from entropy_lab.tasks.countdown.rules import problem_key
from entropy_lab.tasks.countdown.task import LADDER_RULES
from entropy_lab.training.countdown_corpus import TRAIN_PROBLEMS, Corpus, build_corpus, embedded_problems
from entropy_lab.training.number_tokenizer import number_tokenizer

SMALL = Corpus(numbers=(3,), largest_number=6, largest_target=20, fewest_solutions=1, test_problems=20, corpus_seed=1)


def embedded(name):
    return (files("entropy_lab.builtin") / name).read_text(encoding="utf-8")


def keys(text):
    return [problem_key(row["nums"], row["target"]) for row in map(json.loads, text.splitlines())]


def test_train_and_test_problems_are_disjoint_and_examples_are_right():
    corpus = build_corpus(SMALL)
    train, test = {problem.key for problem in corpus.train}, {problem.key for problem in corpus.test}
    assert not train & test
    assert len(test) == 20
    examples = corpus.examples(1, 5, 50)
    assert examples == corpus.examples(1, 5, 50)
    assert examples != corpus.examples(1, 6, 50)
    assert all(grade_answer(nums, target, text, "steps", LADDER_RULES).correct for nums, target, text in examples)


def test_the_seed_of_the_corpus_decides_what_is_held_out():
    other = build_corpus(SMALL.model_copy(update={"corpus_seed": 2}))
    assert {problem.key for problem in other.test} != {problem.key for problem in build_corpus(SMALL).test}
    assert len(other.train) == len(build_corpus(SMALL).train)
    assert build_corpus(SMALL) is build_corpus(SMALL.model_copy())


def test_problems_and_solutions_are_those_of_a_search_one_by_one():
    """Every problem of the ranges with enough solutions, by solving each target on its own."""
    small = Corpus(numbers=(2, 3), largest_number=3, largest_target=9, fewest_solutions=2, test_problems=2)
    solved = build_corpus(small)
    found = {(one.nums, one.target): set(one.solutions) for one in solved.train + solved.test}
    expected = {}
    for nums in [(a, b) for a in (1, 2, 3) for b in range(a, 4)] + [
        (a, b, c) for a in (1, 2, 3) for b in range(a, 4) for c in range(b, 4)
    ]:
        for target in range(1, 10):
            forms = solutions(nums, target, LADDER_RULES)
            if len(forms) >= 2:
                expected[nums, target] = set(forms)
    assert found == expected
    assert found


def test_examples_cover_every_solution_of_a_problem_evenly():
    """Uniformly sampled solutions: no family of solutions is taught more than another."""
    corpus = build_corpus(SMALL.model_copy(update={"largest_number": 4, "test_problems": 1, "corpus_seed": 0}))
    problem = max(corpus.train, key=lambda one: len(one.solutions))
    only = type(corpus)((problem,), (), LADDER_RULES)
    forms = [canonical(grade_answer(*one, "steps", LADDER_RULES).tree) for one in only.examples(0, 0, 4000)]
    counts = {form: forms.count(form) for form in set(forms)}
    expected = 4000 / len(problem.solutions)
    assert set(counts) == set(problem.solutions)
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 3 * len(counts) + 10


def test_a_corpus_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="holds 475 problems but `test_problems` is 1000"):
        build_corpus(SMALL.model_copy(update={"test_problems": 1000}))
    with pytest.raises(ValidationError, match="less than or equal to 6"):
        Corpus(numbers=(7,))


def test_the_embedded_problems_are_disjoint():
    train, test = keys(embedded("countdown_train.jsonl")), keys(embedded("countdown_test.jsonl"))
    assert len(train) == len(set(train)) == TRAIN_PROBLEMS
    assert len(test) == len(set(test)) == 1000
    assert not set(train) & set(test)


def test_embedded_training_problems_are_of_the_corpus():
    corpus = Corpus()
    for line in embedded("countdown_train.jsonl").splitlines()[::100]:
        row = json.loads(line)
        assert len(row["nums"]) in corpus.numbers
        assert max(row["nums"]) <= corpus.largest_number
        assert 1 <= row["target"] <= corpus.largest_target
        assert len(solutions(row["nums"], row["target"], LADDER_RULES)) >= corpus.fewest_solutions


@pytest.mark.slow
def test_the_embedded_files_are_made_again_to_the_byte():
    made = embedded_problems()
    assert set(made) == {"countdown_test.jsonl", "countdown_train.jsonl"}
    for name, text in made.items():
        assert text == embedded(name)


def test_the_number_tokenizer_is_an_ordinary_one(tmp_path):
    from transformers import AutoTokenizer

    number_tokenizer(225).save_pretrained(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer("12*3=36,225-36=189")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids) == ["12", "*", "3", "=", "36", ",", "225", "-", "36", "=", "189"]
    assert tokenizer.decode(ids) == "12*3=36,225-36=189"
    assert tokenizer("226")["input_ids"] == [tokenizer.unk_token_id]
