"""A reward from a user's file: what it is given, and every way in which it can be wrong."""

import numpy as np
import pytest

from entropy_lab.errors import InputError
from entropy_lab.training.recipe_files import dump_recipe, load_recipe
from entropy_lab.training.rewards.function import Function
from entropy_lab.workflows.train import train
from tests.training.made import made_rollout

ROLLOUTS = [made_rollout([1], [2, 3], reward=1.0), made_rollout([1], [2])]


def source_of(folder, body, name="reward"):
    path = folder / f"{name}_file.py"
    path.write_text(body)
    return f"{path}:reward"


def test_it_is_given_rollouts_and_its_numbers_are_the_rewards(tmp_path):
    body = "def reward(rollouts):\n    return [one.grade.correct + len(one.trajectory.token_ids) for one in rollouts]\n"
    assert Function(source=source_of(tmp_path, body))(ROLLOUTS) == [3.0, 1.0]


def test_numpy_numbers_are_numbers(tmp_path):
    body = "import numpy\ndef reward(rollouts):\n    return numpy.arange(len(rollouts)) / 2\n"
    found = Function(source=source_of(tmp_path, body))(ROLLOUTS)
    assert found == [0.0, 0.5]
    assert not isinstance(found[0], np.generic)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("def reward(rollouts):\n    return 1 / 0\n", "line 2: ZeroDivisionError"),
        ("def reward(rollouts):\n    return [1.0]\n", "returned 1 numbers for 2 rollouts"),
        ("def reward(rollouts):\n    return ['a' for _ in rollouts]\n", "returned 'a'"),
        ("def reward(rollouts):\n    return [None for _ in rollouts]\n", "returned None"),
        ("reward = 3\n", "is no function"),
        ("def rewards(rollouts):\n    return []\n", "did you mean rewards"),
        ("def reward(:\n", "line 1: SyntaxError"),
        ("raise SystemExit(3)\n", "line 1: SystemExit"),
    ],
)
def test_what_is_wrong_is_said_by_file_and_line(tmp_path, body, said):
    with pytest.raises(InputError, match=said) as error:
        Function(source=source_of(tmp_path, body))(ROLLOUTS)
    assert "reward_file.py" in str(error.value)


def test_no_such_file(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.py: no such file"):
        Function(source=f"{tmp_path}/nowhere.py:reward")(ROLLOUTS)


def test_a_recipe_with_it_trains_and_survives_a_dump(tmp_path):
    source = source_of(tmp_path, "def reward(rollouts):\n    return [-len(one.text) for one in rollouts]\n")
    sizes = ["steps=1", "exploration.prompts=3", "exploration.samples=3", "evaluation.every=0", "save.trackers=[]"]
    recipe = load_recipe("grpo", [*sizes, f'rewards=[{{piece="function", source="{source}"}}]'])
    (tmp_path / "again.toml").write_text(dump_recipe(recipe))
    assert load_recipe(tmp_path / "again.toml") == recipe
    assert train(recipe, tmp_path / "run").metrics["reward.mean"] < 0


def test_numbers_that_are_not_finite_stop_the_run(tmp_path):
    source = source_of(tmp_path, "def reward(rollouts):\n    return [float('nan') for _ in rollouts]\n")
    recipe = load_recipe(
        "grpo", ["steps=1", f'rewards=[{{piece="function", source="{source}"}}]', "evaluation.every=0"]
    )
    with pytest.raises(InputError, match="'function' gave nan"):
        train(recipe, tmp_path / "run")


@pytest.mark.parametrize("source", ["file.py", "file:name", "file.py:", "file.py:1a", "file.py:a b"])
def test_a_source_of_another_form_is_refused(source):
    with pytest.raises(InputError, match="source"):
        load_recipe("grpo", [f'rewards=[{{piece="function", source="{source}"}}]'])
