import json
import sys
import time
import types
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from entropy_lab.errors import InputError
from entropy_lab.tasks.loading import load_task

MATH = Path(__file__).parents[1] / "data" / "math"
TASK = """
from dataclasses import dataclass
from entropy_lab.tasks.protocol import Grade, Problem

@dataclass
class Shout:
    name: str = "shout"
    def problems(self): return [Problem("1", "Shout!")]
    def messages(self, problem): return [{"role": "user", "content": problem.question}]
    def grade(self, problem, text): return Grade(text.isupper(), "correct" if text.isupper() else "wrong-value")

class Needy(Shout):
    def __init__(self, path): self.path = path

class Bare:
    name = 3
    def problems(self): return []

ready = Shout("whisper")
"""


@pytest.fixture
def own(tmp_path):
    path = tmp_path / "shouting.py"
    path.write_text(TASK)
    return path


def test_countdown_by_name():
    task = load_task("countdown")
    assert task.name == "countdown"
    assert len(task.problems()) > 0


def test_the_training_problems_by_name():
    """The same manner of asking as the test problems, and none of them."""
    test, train = load_task("countdown"), load_task("countdown-train")
    assert train.name == "countdown-train"
    assert len(train.problems()) == 3000
    assert (train.form, train.rules) == (test.form, test.rules)
    assert not {problem.id for problem in train.problems()} & {problem.id for problem in test.problems()}
    assert train.space(train.problems()[0]).solutions


def test_files_are_told_apart_by_their_fields(tmp_path):
    numbers = tmp_path / "numbers.jsonl"
    numbers.write_text(json.dumps({"nums": [3, 5, 7], "target": 22, "question": "Q?", "answer": 1}) + "\n")
    assert dict(load_task(str(numbers)).problems()[0].data)["target"] == 22
    mathematics = load_task(str(MATH / "olympiadbench.jsonl"))
    assert mathematics.name == "math"
    assert len(mathematics.problems()) == 5


def trainer_row(**truth):
    return {
        "data_source": "countdown",
        "prompt": [{"role": "user", "content": "Make an equation."}],
        "ability": "math",
        "reward_model": {"style": "rule", "ground_truth": truth},
        "extra_info": {"split": "train", "index": 0},
    }


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    "row",
    [
        {"target": 22, "nums": [3, 5, 7]},
        trainer_row(target=22, numbers=[3, 5, 7]),
        trainer_row(target=22, nums=[3, 5, 7]),
        {**trainer_row(target=22, numbers=[3, 5, 7]), "target": 22, "nums": [3, 5, 7]},
    ],
)
def test_published_countdown_layouts_are_read_as_they_are(tmp_path, ending, row):
    path = tmp_path / f"set.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist([row, row]), path)
    else:
        path.write_text(f"{json.dumps(row)}\n{json.dumps(row)}\n")
    task = load_task(str(path))
    (problem,) = task.problems()  # equal rows are one problem
    assert (problem.id, task.name, type(task).__name__) == ("22<3,5,7", "set", "Countdown")
    assert task.grade(problem, "<answer>3*5+7</answer>").correct is True
    (message,) = task.messages(problem)
    assert "exactly once" in message["content"]


def test_a_trainers_row_of_mathematics_stays_mathematics(tmp_path):
    row = {**trainer_row(), "reward_model": {"ground_truth": "72"}}
    path = tmp_path / "set.jsonl"
    path.write_text(json.dumps(row))
    assert load_task(str(path)).name == "math"


def test_countdown_sets_of_the_hub_are_read(monkeypatch):
    module = types.ModuleType("datasets")
    module.load_dataset = lambda repository, config: {"train": [{"target": 22, "nums": [3, 5, 7]}]}
    monkeypatch.setitem(sys.modules, "datasets", module)
    task = load_task("someone/Countdown-3to4@train")
    assert task.name == "Countdown-3to4"
    assert task.problems()[0].id == "22<3,5,7"


@pytest.mark.parametrize(
    ("truth", "words"),
    [
        ({"target": 22, "numbers": ["3", "5"]}, "`reward_model.ground_truth.numbers` holds '3'"),
        ({"target": 22, "numbers": [3.0, 5.0]}, "`reward_model.ground_truth.numbers` holds 3.0"),
        ({"target": "22", "numbers": [3, 5]}, "`reward_model.ground_truth.target` holds '22'"),
        ({"target": 22, "numbers": {"a": 3}}, "must be a list"),
        ({"target": 22, "numbers": [3, 10**5000]}, "more than 18 digits"),
        ({"target": 22, "numbers": None}, "is None"),
    ],
)
def test_wrong_ground_truths_are_named(tmp_path, truth, words):
    path = tmp_path / "set.jsonl"
    sys.set_int_max_str_digits(10_000)
    try:
        path.write_text(json.dumps(trainer_row(target=8, numbers=[3, 5])) + "\n" + json.dumps(trainer_row(**truth)))
        with pytest.raises(InputError, match=r"set\.jsonl:2") as caught:
            load_task(str(path))
    finally:
        sys.set_int_max_str_digits(4300)
    assert words in str(caught.value)


def test_own_class_and_own_object(own):
    assert load_task(f"{own}:Shout").name == "shout"
    task = load_task(f"{own}:ready")
    assert task.name == "whisper"
    assert task.grade(task.problems()[0], "HEY").correct is True


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ("Shuot", "did you mean Shout?"),
        ("Xylophone", "it defines Shout, Needy, Bare"),
        ("Needy", "cannot be made without arguments (TypeError"),
        ("Bare", "lacks name (a string), messages, grade"),
        ("dataclass", "is not a task"),
    ],
)
def test_own_tasks_that_do_not_fit_say_what_to_do(own, member, words):
    with pytest.raises(InputError) as caught:
        load_task(f"{own}:{member}")
    assert str(own) in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x = 1\nraise KeyError('deep')\n", "line 2: KeyError: 'deep'"),
        ("x = 1\ndef broken(:\n", "line 2: SyntaxError"),
        ("import no_such_module_at_all\n", "line 1: ModuleNotFoundError"),
        ("raise SystemExit(3)\n", "line 1: SystemExit: 3"),
    ],
)
def test_files_that_fail_to_import_name_the_line(tmp_path, source, words):
    path = tmp_path / "broken.py"
    path.write_text(source)
    with pytest.raises(InputError, match="importing it fails") as caught:
        load_task(f"{path}:Task")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("coutdown", "did you mean countdown?"),
        ("countdown_train", "did you mean countdown-train?"),
        ("Maths", "did you mean math?"),
        ("zzz", "no task is called 'zzz': A task is countdown"),
        ("", "no task is called ''"),
        ("math", "give the path of a .jsonl"),
        ("absent.jsonl", "no such file"),
        ("absent.py:Task", "no such file"),
        ("file.py", "as file.py:Name"),
    ],
)
def test_unknown_names_say_what_is_accepted(name, words):
    with pytest.raises(InputError) as caught:
        load_task(name)
    assert words in str(caught.value)


@pytest.mark.slow
def test_a_set_of_half_a_million_problems_loads_in_seconds(tmp_path):
    """The published set has 490,364 rows."""
    rng = np.random.default_rng(0)
    flat = pa.array(rng.integers(1, 100, 4 * 490_364))
    nums = pa.FixedSizeListArray.from_arrays(flat, 4).cast(pa.list_(pa.int64()))
    pq.write_table(pa.table({"target": rng.integers(10, 101, 490_364), "nums": nums}), tmp_path / "set.parquet")
    began = time.process_time()
    assert len(load_task(str(tmp_path / "set.parquet")).problems()) > 480_000
    assert time.process_time() - began < 20
