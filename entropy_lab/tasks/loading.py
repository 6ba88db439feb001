"""From the name of a task to the task: `countdown`, a file or hub set of problems, or a class in a user's own file."""

import difflib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import cast

from entropy_lab.errors import InputError
from entropy_lab.tasks.countdown.layouts import is_countdown
from entropy_lab.tasks.problem_files import first_row, is_hub_name, is_problem_file
from entropy_lab.tasks.protocol import Task

EMBEDDED = ("countdown", "countdown-train")
NAMES = (*EMBEDDED, "math")
FORMS = (
    "countdown, countdown-train, a .jsonl or .parquet file of problems, a hub set owner/name, or your own "
    "path/to/file.py:Name"
)
METHODS = ("problems", "messages", "grade")


def load_task(name: str) -> Task:
    """Return the task called `name`.

    Forms: `countdown` and `countdown-train` (the embedded problems, to test and to train on); a .jsonl or .parquet
    file, or a hub set (Countdown if its first row holds `nums` and `target`, or a trainer's ground truth of them, else
    mathematics); `path/to/file.py:Name`, a class without required arguments or an object that has a `name` and the
    methods of `Task`. The last runs the user's file.
    Raises InputError for anything else, naming what is accepted.
    """
    if name in EMBEDDED:
        from entropy_lab.tasks.countdown.task import Countdown

        return Countdown.embedded(name)
    if name == "math":
        raise InputError(
            "task math needs problems: give the path of a .jsonl or .parquet file, such as gsm8k.jsonl, or a hub set "
            "such as openai/gsm8k:main, in place of the name."
        )
    file, colon, member = name.rpartition(":")
    if colon and file.endswith(".py"):
        return _own_task(Path(file), member)
    if name.endswith(".py"):
        raise InputError(f"{name}: name the task inside the file too, as {name}:Name.")
    if is_problem_file(name) or is_hub_name(name):
        return _problem_set(name)
    raise _unknown(name)


def _problem_set(name: str) -> Task:
    _, row = first_row(name)
    if is_countdown(row):
        from entropy_lab.tasks.countdown.task import Countdown

        return Countdown.from_file(name)
    from entropy_lab.tasks.mathematics import Mathematics

    return Mathematics(name)


def _own_task(path: Path, member: str) -> Task:
    if not path.is_file():
        raise InputError(f"{path}: no such file; give your task as path/to/file.py:Name.")
    where = f"{path}:{member}"
    module = _import(path)
    if not hasattr(module, member):
        own = [key for key, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__]
        close = difflib.get_close_matches(member, own, n=1)
        hint = f"did you mean {close[0]}?" if close else f"it defines {', '.join(own) or 'nothing'}."
        raise InputError(f"{path}: defines no {member!r}; {hint}")
    task = getattr(module, member)
    if inspect.isclass(task):
        try:
            task = task()
        except Exception as error:  # the user's own code: any kind
            raise InputError(
                f"{where}: cannot be made without arguments ({_place(error, path)}); give __init__ defaults or name "
                "an object instead of the class."
            ) from error
    missing = [method for method in METHODS if not callable(getattr(task, method, None))]
    if not isinstance(getattr(task, "name", None), str):
        missing.insert(0, "name (a string)")
    if missing:
        raise InputError(
            f"{where}: is not a task, it lacks {', '.join(missing)}; a task has a name, problems(), messages(problem) "
            "and grade(problem, text), as entropy_lab.tasks.protocol.Task shows."
        )
    return cast(Task, task)


def _import(path: Path) -> ModuleType:
    name = f"entropy_lab_task_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path}: Python cannot import this file; give a .py file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look the module up by name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # the user's own code: any kind
        del sys.modules[name]
        raise InputError(f"{path}: importing it fails ({_place(error, path)}); mend the file.") from error
    return module


def _place(error: BaseException, path: Path) -> str:
    """Describe an error from the user's file with the last line of that file that took part."""
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"line {error.lineno}: SyntaxError: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if Path(frame.filename).name == path.name]
    place = f"line {lines[-1]}: " if lines else ""
    return f"{place}{type(error).__name__}: {error}"


def _unknown(name: str) -> InputError:
    close = difflib.get_close_matches(name.lower(), NAMES, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return InputError(f"no task is called {name!r}: {hint}A task is {FORMS}.")
