import json
from pathlib import Path

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


def test_files_are_told_apart_by_their_fields(tmp_path):
    numbers = tmp_path / "numbers.jsonl"
    numbers.write_text(json.dumps({"nums": [3, 5, 7], "target": 22, "question": "Q?", "answer": 1}) + "\n")
    assert dict(load_task(str(numbers)).problems()[0].data)["target"] == 22
    mathematics = load_task(str(MATH / "olympiadbench.jsonl"))
    assert mathematics.name == "math"
    assert len(mathematics.problems()) == 5


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
