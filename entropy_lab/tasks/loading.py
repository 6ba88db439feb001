"""From the name of a task to the task: `countdown`, a file or hub set of problems, or a class in a user's own file."""

import difflib
import inspect
from pathlib import Path
from typing import cast

from entropy_lab.errors import InputError
from entropy_lab.tasks.countdown.layouts import is_countdown
from entropy_lab.tasks.problem_files import first_row, is_hub_name, is_problem_file
from entropy_lab.tasks.protocol import Task
from entropy_lab.tasks.user_files import member_of, place_of

EMBEDDED = ("countdown", "countdown-train", "countdown-3", "countdown-4", "countdown-train-3", "countdown-train-4")
NAMES = (*EMBEDDED, "math")
FORMS = (
    "countdown, countdown-train, reasoning-gym:NAME, a .jsonl or .parquet file of problems, a hub set owner/name, or "
    "your own path/to/file.py:Name"
)
METHODS = ("problems", "messages", "grade")


def load_task(name: str) -> Task:
    """Return the task called `name`.

    Forms: `countdown` and `countdown-train` (the embedded problems, to test and to train on; with `-3` or `-4` those of
    three or four numbers); `reasoning-gym:NAME`, a kind of that package; a .jsonl or .parquet file, or a hub set
    (Countdown if its first row holds `nums` and `target`, or a trainer's ground truth of them, else mathematics);
    `path/to/file.py:Name`, a class without required arguments or an object that has a `name` and the methods of `Task`.
    The last runs the user's file.
    Raises InputError for anything else, naming what is accepted.
    """
    if name in EMBEDDED:
        from entropy_lab.tasks.countdown.task import Countdown

        return Countdown.embedded(name)
    if name.startswith("reasoning-gym:"):
        from entropy_lab.tasks.reasoning_gym import ReasoningGym

        return ReasoningGym(name)
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
    where = f"{path}:{member}"
    task = member_of(path, member)
    if inspect.isclass(task):
        try:
            task = task()
        except Exception as error:  # the user's own code: any kind
            raise InputError(
                f"{where}: cannot be made without arguments ({place_of(error, path)}); give __init__ defaults or name "
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


def _unknown(name: str) -> InputError:
    close = difflib.get_close_matches(name.lower(), NAMES, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return InputError(f"no task is called {name!r}: {hint}A task is {FORMS}.")
