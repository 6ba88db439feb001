"""Every kind of reasoning-gym: its own answer is right, garbage is wrong, and the same name gives the same problems."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.errors import InputError
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.reasoning_gym import ReasoningGym, answer_of

reasoning_gym = pytest.importorskip("reasoning_gym")

WITHOUT_AN_ANSWER = {"graph_color", "rubiks_cube", "boxnet", "rush_hour", "propositional_logic"}
"""Kinds that give no answer of their own; their scorers judge any."""
ANYTHING_IS_RIGHT = {"game_of_life_halting"}
"""Kinds whose scorer calls any text right where the answer is False."""


def kinds():
    from reasoning_gym.factory import DATASETS

    return sorted(set(DATASETS) - {"composite"})


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_every_kind():
    """In this process, by the very function that the grading process calls."""
    from entropy_lab.tasks.reasoning_gym_scores import judge

    assert len(kinds()) >= 100
    for kind in kinds():
        task = ReasoningGym(f"reasoning-gym:{kind}?size=1&seed=3")
        (problem,) = task.problems()
        entry = reasoning_gym.create_dataset(kind, size=1, seed=3)[0]
        assert problem.question == entry["question"]
        settings = {"name": kind, "settings": {"size": 1, "seed": 3}, "index": 0, "question": problem.question}
        if kind not in WITHOUT_AN_ANSWER:
            assert judge({**settings, "answer": str(entry["answer"])})["code"] == "correct", kind
        if kind not in ANYTHING_IS_RIGHT:
            try:
                code = judge({**settings, "answer": "no such thing \u2603"})["code"]
            except Exception:  # as the grading process does, which counts it apart
                code = "grader-error"
            assert code != "correct", kind


@pytest.fixture(scope="module")
def task():
    made = load_task("reasoning-gym:simple_equations?size=20&seed=1")
    yield made
    made.close()


def test_problems_are_those_of_the_seed(task):
    again = load_task("reasoning-gym:simple_equations?size=20&seed=1")
    assert [one.id for one in again.problems()] == [one.id for one in task.problems()]
    other = load_task("reasoning-gym:simple_equations?size=20&seed=1000")
    assert not {one.id for one in other.problems()} & {one.id for one in task.problems()}
    assert len(load_task("reasoning-gym:simple_equations").problems()) > 400


def test_grading(task):
    problem = task.problems()[0]
    right = reasoning_gym.create_dataset("simple_equations", size=20, seed=1)[0]["answer"]
    texts = [
        f"so <answer> {right} </answer>",
        f"<answer>{right}</answer> no, <answer>{int(right) + 1}</answer>",
        f"<answer>{int(right) + 1}</answer>, rather <answer>{right}</answer>",
        f"the answer is {right}",
        "<answer></answer>",
        f"<answer>{'9' * 5000}</answer>",
        "<answer>\x00\ud800 nan</answer>".encode("utf-8", "replace").decode(),
    ]
    grades = task.grade_many([(problem, text) for text in texts])
    codes = ["correct", "wrong-value", "correct", "no-answer", "wrong-value", "wrong-value", "wrong-value"]
    assert [grade.code for grade in grades] == codes
    assert [grade.correct for grade in grades] == [code == "correct" for code in codes]
    assert grades[0].answer == right
    assert task.messages(problem)[0]["content"].startswith(problem.question)


def test_a_problem_that_the_grader_does_not_find_again_is_no_wrong_answer(task):
    from dataclasses import replace

    changed = replace(task.problems()[0], question="another?")
    grade = task.grade(changed, "<answer>1</answer>")
    assert (grade.correct, grade.code, grade.flags) == (None, "grader-error", ("problem-changed",))


@given(st.text(alphabet="<answer>/ 1\n", max_size=80))
def test_answers_of_any_text(text):
    found = answer_of(text)
    assert found is None or ("<answer>" in text and "</answer>" in text and "<answer>" not in found)


def test_answers_are_found_in_time():
    assert answer_of("<answer>" * 50_000) is None
    assert answer_of("<answer>1" + "</answer>" * 50_000) == "1"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("reasoning-gym:simple_equation", "did you mean simple_equations"),
        ("reasoning-gym:", "has no ''"),
        ("reasoning-gym:simple_equations?max_term=3", "did you mean max_terms"),
        ("reasoning-gym:simple_equations?size=0", "size = 0"),
        ("reasoning-gym:simple_equations?seed=x", "seed = 'x'"),
        ("reasoning-gym:simple_equations?min_terms=9", "refuses it"),
        ("reasoning-gym:composite", "refuses it"),
    ],
)
def test_what_is_wrong_is_said(source, said):
    with pytest.raises(InputError, match=said) as error:
        load_task(source)
    assert source in str(error.value)


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(InputError, match=r"pip install \"entropy-lab\[reasoning-gym\]\""):
        load_task("reasoning-gym:simple_equations")


def test_nothing_is_printed_where_json_goes(capsys):
    load_task("reasoning-gym:bf?size=1&seed=3")  # which prints
    assert capsys.readouterr().out == ""
