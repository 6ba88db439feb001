import json
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab.tasks.countdown.answers import find_answer, grade_answer
from entropy_lab.tasks.countdown.entrances import REACH, first_calculation
from entropy_lab.tasks.countdown.expressions import MAX_TOKENS, canonical, form_text, parse, value_of
from entropy_lab.tasks.countdown.rules import Rules

DATA = Path(__file__).parents[2] / "data" / "countdown"
CODES = {
    *("no-answer", "too-long", "forbidden-operator", "decimal", "malformed", "wrong-numbers", "division-by-zero"),
    *("forbidden-value", "wrong-step", "wrong-equation", "wrong-value", "correct"),
}


def cases(name):
    rows = [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]
    return [pytest.param(row, id=f"{number}-{row['text'][:30]!r}") for number, row in enumerate(rows, 1)]


@pytest.mark.parametrize("case", cases("countdown_verifier.jsonl"))
@pytest.mark.parametrize("form", ["auto", "expression"])
def test_expression_answers(case, form):
    verdict = grade_answer(case["nums"], case["target"], case["text"], form)
    assert (verdict.correct, verdict.code) == (case["correct"], case["code"])
    if "family" in case:
        assert verdict.family == case["family"]
    assert list(verdict.flags) == case.get("flags", [])


@pytest.mark.parametrize("case", cases("steps_answers.jsonl"))
@pytest.mark.parametrize("form", ["auto", "steps"])
def test_steps_answers(case, form):
    verdict = grade_answer(case["nums"], case["target"], case["text"], form)
    assert (verdict.correct, verdict.code, verdict.family) == (case["correct"], case["code"], case.get("family"))
    if "canonical" in case:
        assert canonical(verdict.tree) == canonical(parse(case["canonical"]))


@pytest.mark.parametrize("case", cases("entrance.jsonl"))
def test_first_calculations(case):
    assert first_calculation(case["nums"], case["text"]) == case["label"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<answer>8/(3-8/3)</answer>", "forbidden-value"),
        ("<answer>3*8*8/3</answer>", "wrong-value"),
    ],
)
def test_rules_of_play_hold_for_intermediate_results(text, code):
    assert grade_answer([8, 3, 8, 3], 24, text, "expression", Rules(integers_only=True)).code == code


def test_steps_respect_minimum_and_maximum():
    rules = Rules(integers_only=True, minimum=0, max_value=100)
    assert grade_answer([3, 5, 7], 5, "3-5=2", "steps", rules).code == "forbidden-value"
    assert grade_answer([15, 15, 1], 224, "15*15=225,225-1=224", "steps", rules).code == "forbidden-value"
    assert grade_answer([9, 9, 1], 80, "9*9=81,81-1=80", "steps", rules).correct


def test_any_numbers_may_be_left_out_only_when_the_rules_say_so():
    assert grade_answer([3, 5, 7], 15, "<answer>3*5</answer>", "expression", Rules(use="any")).correct
    assert grade_answer([3, 5, 7], 15, "3*5=15", "steps", Rules(use="any")).correct
    assert grade_answer([3, 5, 7], 15, "3*5=15", "steps").code == "wrong-numbers"
    assert grade_answer([3, 5, 7, 2], 15, "7+2=9,3*5=15", "steps", Rules(use="any")).code == "wrong-numbers"


def test_the_last_closed_answer_wins_and_boxes_may_nest():
    assert find_answer("<answer>1</answer><answer>2") == "1"
    assert find_answer("a <answer>x</answer> b </answer>") == "x"
    assert find_answer(r"\boxed{\boxed{3+5}} and \boxed{unclosed") == "3+5"
    assert find_answer("nothing here") is None


@pytest.mark.parametrize("around", ["word " * 200_000, r"$\{x\}$ " * 2_000], ids=["words", "LaTeX"])
def test_the_text_around_an_answer_may_be_of_any_length(around):
    for answer in ("<answer>3*5+7</answer>", r"\boxed{3 \times 5 + 7}"):
        assert grade_answer([3, 5, 7], 22, around + answer + around, "expression").correct


def test_boxes_of_a_text_crowded_with_braces_are_sought_at_its_end():
    crowd = "{}" * 20_000
    assert grade_answer([3, 5, 7], 22, crowd + r"\boxed{3*5+7}", "expression").correct
    assert grade_answer([3, 5, 7], 22, r"\boxed{3*5+7}" + crowd, "expression").code == "no-answer"


def test_the_first_calculation_is_sought_in_the_beginning_of_a_text():
    assert first_calculation([44, 19], "word " * (REACH // 5 - 2) + "44 + 19") == "44+"
    assert first_calculation([44, 19], "word " * (REACH // 5) + "44 + 19") is None


def test_long_expressions_are_not_read():
    fits, longer = "+".join(["3"] * (MAX_TOKENS // 2)), "+".join(["3"] * (MAX_TOKENS // 2 + 1))
    assert grade_answer([3, 5], 8, f"<answer>{fits}</answer>", "expression").code == "wrong-numbers"
    assert grade_answer([3, 5], 8, f"<answer>{longer}</answer>", "expression").code == "too-long"


SYMBOLS = st.sampled_from(
    [
        *"0123456789+-*/().,=;{} \n",
        "<answer>",
        "</answer>",
        "\\boxed{",
        "\\frac{",
        "×",
        "÷",
        "**",
        "//",
        "😀",
        "\x00",
        "7",
        "3",
    ]
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(SYMBOLS, max_size=120).map("".join)))
def test_any_text_gets_a_verdict(text):
    for form in ("auto", "expression", "steps"):
        verdict = grade_answer([3, 5, 7], 22, text, form)
        assert verdict.code in CODES
        if verdict.correct:
            assert value_of(verdict.tree) == 22
    first_calculation([3, 5, 7], text)


@pytest.mark.parametrize(
    "text",
    [
        "\\boxed{" * 20_000,
        "<answer>" * 20_000 + "</answer>",
        "<answer>" + "9" * 1_900 + "</answer>",
        "<answer>" + "\\frac{" * 300 + "</answer>",
        "<answer>" + "-" * 1_900 + "3</answer>",
        "<answer>" + "3+" * 900 + "3</answer>",
        "<answer>" + "3-(" * 49 + "3" + ")" * 49 + "</answer>",
        "3*5=15," * 20_000,
        "3 + " * 30_000,
        "4" * 100_000,
        "*" * 100_000,
    ],
)
def test_hostile_text_is_answered_at_once(text):
    began = time.process_time()
    for form in ("auto", "steps"):
        assert not grade_answer([3, 5, 7], 22, text, form).correct
    first_calculation([3, 5, 7], text)
    assert time.process_time() - began < 0.5


TREES = st.recursive(
    st.integers(0, 20),
    lambda child: st.tuples(st.sampled_from("+-*/"), st.tuples(child, child)),
    max_leaves=6,
)


@given(TREES)
def test_text_of_a_tree_reads_back(tree):
    assert parse(form_text(tree)) == tree


@given(TREES)
def test_canonical_form_keeps_the_value_and_is_stable(tree):
    form = canonical(tree)
    assert canonical(form) == form
    assert value_of(form) == value_of(tree)
