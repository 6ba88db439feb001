import json

import pytest

from entropy_lab.errors import InputError
from entropy_lab.tasks.countdown.expressions import entrance, leaves, parse, value_of
from entropy_lab.tasks.countdown.rules import Rules
from entropy_lab.tasks.countdown.task import LADDER_RULES, Countdown


def load(tmp_path, *rows):
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return Countdown.from_file(path)


def test_the_embedded_problems_are_asked_and_graded_under_the_rules_of_the_ladder():
    task = Countdown.embedded()
    assert (task.form, task.rules, len(task.problems())) == ("steps", LADDER_RULES, 1000)
    assert len({problem.id for problem in task.problems()}) == 1000


@pytest.mark.parametrize("form", ["steps", "expression", "auto"])
def test_a_file_names_its_answer_format_and_rules(tmp_path, form):
    task = load(tmp_path, {"nums": [3, 5, 7], "target": 22, "format": form, "rules": {"max_value": 100}})
    problem = task.problems()[0]
    steps, expression = "3*5=15,15+7=22", "<answer>3*5+7</answer>"
    assert task.grade(problem, steps).correct == (form != "expression")
    assert task.grade(problem, expression).correct == (form != "steps")
    assert (task.space(problem) is None) == (form == "auto")
    assert task.rules == Rules(max_value=100)


def test_the_prompt_states_the_rules_that_the_grader_applies(tmp_path):
    """G7: what is asked is what is checked."""
    rules = {"use": "any", "integers_only": True, "minimum": 1, "max_value": 50}
    task = load(tmp_path, {"nums": [3, 5, 7], "target": 15, "rules": rules})
    (message,) = task.messages(task.problems()[0])
    for words in ("at most once", "whole number from 1 to 50", "Numbers: 3 5 7", "Target: 15"):
        assert words in message["content"]
    assert task.grade(task.problems()[0], "<answer>3*5</answer>").correct
    plain = load(tmp_path, {"nums": [3, 5, 7], "target": 15})
    assert "exactly once" in plain.messages(plain.problems()[0])[0]["content"]
    assert not plain.grade(plain.problems()[0], "<answer>3*5</answer>").correct


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"nums": [3, 5], "target": 8, "format": "prose"}, "'prose'"),
        ({"nums": [3, 5], "target": 8, "rules": {"integer": True}}, "rules.integer"),
        ({"nums": [3, 5], "target": 8, "rules": {"max_value": "x"}}, "rules.max_value"),
        ({"nums": [3.5, 5], "target": 8}, "3.5"),
        ({"nums": [True, 5], "target": 8}, "True"),
        ({"nums": "35", "target": 8}, "'35'"),
        ({"nums": [], "target": 8}, "1 to 8"),
        ({"nums": [3, 5], "target": -8}, "-8"),
        ({"nums": [3, 5]}, "None"),
    ],
)
def test_wrong_rows_are_named(tmp_path, row, told):
    with pytest.raises(InputError, match=r"mine\.jsonl:1") as error:
        load(tmp_path, row)
    assert told in str(error.value)


def test_rows_of_different_rules_do_not_mix(tmp_path):
    with pytest.raises(InputError, match=r"mine\.jsonl:2"):
        load(tmp_path, {"nums": [3, 5], "target": 8}, {"nums": [3, 5], "target": 15, "format": "steps"})


def test_problems_of_six_numbers_have_a_space_and_larger_ones_none(tmp_path):
    nums = [1, 3, 7, 10, 25, 50]
    six, seven = load(tmp_path, {"nums": nums, "target": 765}, {"nums": [1] * 7, "target": 5}).problems()
    space = Countdown(()).space(six)
    trees = [parse(form) for form in space.solutions]
    assert trees
    assert all(sorted(leaves(tree)) == nums and value_of(tree) == 765 for tree in trees)
    assert {entrance(tree) for tree in trees} <= space.menu
    assert Countdown(()).space(seven) is None
