"""Requests in, trajectories out; every engine behind one protocol."""

from typing import TYPE_CHECKING

from entropy_lab.errors import InputError

if TYPE_CHECKING:
    from entropy_lab.checkpoints import Checkpoint
    from entropy_lab.engines.transformers import TransformersEngine
    from entropy_lab.progress import Progress

ENGINES = ("auto", "transformers")


def open_engine(name: str, checkpoint: "Checkpoint", rows: int | None, progress: "Progress") -> "TransformersEngine":
    """The engine called `name` over `checkpoint`; `auto` takes the best that is installed.

    Raises:
        InputError: there is no engine of that name.
    """
    if name not in ENGINES:
        raise InputError(f"There is no engine {name!r}; choose one of {', '.join(ENGINES)}.")
    from entropy_lab.engines.transformers import TransformersEngine

    return TransformersEngine(checkpoint, rows, progress)
