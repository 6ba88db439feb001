import json
from pathlib import Path

import pytest

from entropy_lab.errors import InputError
from entropy_lab.tasks.question_answer import read_problem

DATA = Path(__file__).parents[1] / "data" / "math"


def golds(name):
    lines = (DATA / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return [read_problem(json.loads(line), name).data["gold"] for line in lines]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gsm8k", ["18", "3", "70000", "540", "20", "64", "260", "160"]),
        ("aime24", ["204", "113", "025"]),
        ("amc23", ["27", "3159", "-1", "1625"]),
        ("math500", ["\\left( 3, \\frac{\\pi}{2} \\right)", "p - q", "\\text{Evelyn}", "1,-2", "\\$32,\\!348"]),
        (
            "minerva_math",
            [
                *("4.5e33", "-1./3", "x_{0} \\cos (\\omega t)+$ $\\dot{x}_{0} \\sin (\\omega t) / \\omega"),
                *("MR=SRMC", "2.88e-19"),
            ],
        ),
        (
            "olympiadbench",
            ["$f(x)=-1$,$f(x)=x+1$", "$(2,2,2),(3,4,3)$", "$\\frac{41}{12}$", "$221,$8$", "4.2"],
        ),
    ],
)
def test_six_public_layouts_give_their_gold_answers(name, expected):
    assert golds(name) == expected


def test_olympiad_fields_reach_problem_and_prompt():
    row = {
        "context": "A car drives.",
        "question": "How fast?",
        "final_answer": ["$4.2$"],
        "is_multiple_answer": True,
        "unit": "%",
        "error": "1e-1,1e-2",
    }
    problem = read_problem(row, "row")
    assert problem.question == "A car drives.\n\nHow fast?"
    assert problem.data["several"] is True
    assert problem.data["unit"] == "%"
    assert problem.data["tolerance"] == 0.1
    for rule in ("\\boxed{}", "several answers", "unit is %", "within 0.1"):
        assert rule in problem.data["instruction"], "G7: what the grader applies stands in the prompt"


def test_optional_fields_of_other_layouts_are_not_read():
    row = {"question": "Q?", "answer": 3, "error": "none seen", "unit": 7, "context": {}}
    assert read_problem(row, "row").data["tolerance"] is None


def test_trainer_layout_keeps_earlier_turns_and_its_own_instruction():
    system = {"role": "system", "content": "Be brief."}
    row = {
        "problem": "not this",
        "prompt": [system, {"role": "user", "content": "1+1? Answer in \\boxed{}."}],
        "reward_model": {"style": "rule", "ground_truth": "2"},
    }
    problem = read_problem(row, "row")
    assert problem.question == "1+1? Answer in \\boxed{}."
    assert problem.data["before"] == [system]
    assert problem.data["gold"] == "2"
    assert problem.data["instruction"] == ""


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        (27.0, "27"),
        (27, "27"),
        (-0.5, "-0.5"),
        (1e22, "1e+22"),
        ("  25 ", "25"),
        ("work\n#### 1,000", "1,000"),
        ("so \\boxed{\\frac{1}{2}}.", "\\frac{1}{2}"),
        (["1", 2], "1, 2"),
    ],
)
def test_answers_of_every_kind(answer, gold):
    problem = read_problem({"question": "Q?", "answer": answer}, "row")
    assert problem.data["gold"] == gold
    assert problem.data["several"] is isinstance(answer, list)


def test_id_depends_on_question_and_gold_alone():
    first = read_problem({"question": "Q?", "answer": 3}, "a:1")
    assert first.id == read_problem({"problem": "Q?", "answer": 3.0, "id": 9, "level": "hard"}, "b:2").id
    assert first.id == "dede0371ce56aaca", "stable across runs and releases: files of earlier runs name it"
    assert first.id != read_problem({"question": "Q?", "answer": 4}, "a:1").id
    assert first.id != read_problem({"question": "Q!", "answer": 3}, "a:1").id


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"text": "Q?", "label": 3}, ["fields found: label, text", "accepted: problem, question or prompt"]),
        ({"question": "Q?", "answer": None}, ["fields found: question"]),
        ({"answer": 3}, ["fields found: answer"]),
        ({"question": "Q?", "answer": float("nan")}, ["answer is nan"]),
        ({"question": "Q?", "answer": True}, ["answer holds True"]),
        ({"question": "Q?", "answer": " "}, ["answer holds ' '"]),
        ({"question": "Q?", "answer": "work ####"}, ["answer holds ''"]),
        ({"question": "Q?", "answer": []}, ["answer is an empty list"]),
        ({"question": ["Q?"], "answer": 3}, ["question holds ['Q?']"]),
        ({"question": "\ud800", "answer": 3}, ["surrogate"]),
        ({"question": "Q?", "solution": "It is 3."}, ["no \\boxed{}"]),
        ({"question": "Q?", "final_answer": ["3"], "error": "small"}, ["error holds 'small'"]),
        ({"question": "Q?", "final_answer": ["3"], "error": -1}, ["error holds -1"]),
        ({"prompt": [], "reward_model": {"ground_truth": "3"}}, ["prompt holds []"]),
        ({"prompt": [{"role": "user"}], "reward_model": {"ground_truth": "3"}}, ["prompt holds None"]),
        ({"prompt": [{"role": "system", "content": "x"}], "answer": 3}, ["ends with role 'system'"]),
        ({"prompt": "Q?", "reward_model": {"style": "rule"}}, ["no ground_truth"]),
    ],
)
def test_rows_that_fit_no_layout_are_refused_by_position_and_field(row, words):
    with pytest.raises(InputError) as caught:
        read_problem(row, "set.jsonl:7")
    assert str(caught.value).startswith("set.jsonl:7: ")
    for word in words:
        assert word in str(caught.value)
