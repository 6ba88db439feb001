import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab.tasks.countdown.answers import find_answer, grade_answer
from entropy_lab.tasks.countdown.entrances import first_calculation
from entropy_lab.tasks.countdown.first_operator import first_operator
from entropy_lab.tasks.countdown.rules import Rules
from entropy_lab.tasks.countdown.task import LADDER_RULES, Countdown, countdown_problem
from entropy_lab.tasks.countdown.witnesses import witnesses
from tests.oracles.countdown import all_solutions, first_step_families, leftmost_family

CASES = Path(__file__).parents[2] / "data" / "countdown" / "entrance.jsonl"


def draw(nums, target, form, rules=None, seed=0):
    problem = countdown_problem(nums, target)
    return witnesses(Countdown((problem,), form, rules or Rules()), problem, np.random.default_rng(seed))


@pytest.mark.parametrize("rules", [Rules(), LADDER_RULES, Rules(use="any", integers_only=True, minimum=1)], ids=str)
@pytest.mark.parametrize("form", ["steps", "expression"])
@settings(max_examples=25, deadline=None)
@given(nums=st.lists(st.integers(1, 12), min_size=1, max_size=4), target=st.integers(0, 60), seed=st.integers(0, 99))
def test_every_witness_is_a_correct_answer_of_its_family(rules, form, nums, target, seed):
    for witness in draw(nums, target, form, rules, seed):
        if witness.text is not None:
            verdict = grade_answer(nums, target, witness.text, form, rules)
            assert (verdict.code, verdict.family) == ("correct", witness.family)
            body = find_answer(witness.text) or witness.text
            assert (form == "steps") == (body == witness.text)
            assert body.lstrip("(").startswith(witness.family)


@settings(max_examples=25, deadline=None)
@given(nums=st.lists(st.integers(1, 9), min_size=2, max_size=3), target=st.integers(1, 40), seed=st.integers(0, 9))
def test_each_family_of_the_menu_has_one_witness(nums, target, seed):
    """All ways to write an answer, tree by tree, begin with just these families."""
    trees = all_solutions(nums, target, Rules())
    written = draw(nums, target, "expression", seed=seed)
    assert [witness.family for witness in written] == sorted({leftmost_family(tree) for tree in trees})
    assert all(witness.text is not None for witness in written)
    whole = Rules(integers_only=True, minimum=0)
    played = draw(nums, target, "steps", whole, seed)
    families = {family for tree in all_solutions(nums, target, whole) for family in first_step_families(tree)}
    assert [witness.family for witness in played if witness.text is not None] == sorted(families)


def test_steps_that_need_a_fraction_or_a_sign_have_no_text():
    """3/2·4 = 6: a family of the menu, but its result cannot be written as a step."""
    found = {witness.family: witness.text for witness in draw([2, 3, 4], 6, "steps")}
    assert found["3/"] is None
    assert found["4/"] in ("4/2=2,2*3=6", "4/2=2,3*2=6")


def test_draws_depend_on_the_generator_alone():
    nums, target = (2, 3, 5, 7), 29
    for form in ("steps", "expression"):
        assert draw(nums, target, form) == draw(nums, target, form)
        texts = {draw(nums, target, form, seed=seed) for seed in range(4)}
        assert len(texts) > 1


def test_no_menu_no_witness():
    assert draw([2, 4], 7, "steps") == ()
    assert draw(range(1, 8), 28, "steps") is None


@pytest.mark.parametrize("case", [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()], ids=str)
def test_first_operator_finds_what_first_calculation_labels(case):
    found = first_operator(case["nums"], case["text"])
    assert (found[0] if found else None) == case["label"]


@pytest.mark.parametrize(
    ("text", "entrance"),
    [
        ("3*5=15,15+7=22", "3*"),
        ("(3*5)+7", "(3*"),
        ("Let me try 44 + 19 = 63", "Let me try 44 +"),
        ("**44** + 19 = 63", "**44** +"),
        ("__44__ - 3", "__44__ -"),
        (r"so $44 \times 3$", r"so $44 \times"),
        (r"\(44 \cdot 3\)", r"\(44 \cdot"),
        ("44 ÷ 3", "44 ÷"),
        ("2 ** 3 then 44 × 19", "2 ** 3 then 44 ×"),
        ("2**3, 7 * (1 + 2)", "2**3, 7 *"),
        ("98 - 35 = 63", "98 -"),
        ("pick 10-20; then 44 − 19 = 25", "pick 10-20; then 44 −"),
    ],
)
def test_the_text_through_the_operator(text, entrance):
    """The place is in the text as written, however the reader respells it."""
    found = first_operator([3, 7, 44, 19], text)
    assert found is not None
    assert text[: found[1] + 1] == entrance


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from([*"0123456789+-*/×÷−()=.,^$ \n", "**", "__", r"\times", r"\(", r"\,", "44", "x"])))
def test_first_operator_reads_any_text_as_the_reader_does(parts):
    text = "".join(parts)
    found = first_operator([3, 44], text)
    assert (found[0] if found else None) == first_calculation([3, 44], text)
    if found is not None:
        operator = text[found[1]]
        assert operator in "+-*/×÷−" or text[: found[1] + 1].endswith(r"\times")
