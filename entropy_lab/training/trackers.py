"""Where a run's metrics go besides `metrics.jsonl`: TensorBoard files, wandb, trackio. Each is imported when asked for.

A run continued after a kill repeats some steps; no tracker shows a step twice.
"""

import re
import sys
import tomllib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from entropy_lab.errors import InputError
from entropy_lab.files import write_bytes
from entropy_lab.training.metrics_log import read
from entropy_lab.training.recipe import Recipe
from entropy_lab.training.recipe_files import dump_recipe

PROJECT = "entropy-lab"


class Tracker(Protocol):
    """Something that keeps metrics."""

    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Keep the metrics of a step; those without a value are left out."""

    def close(self) -> None:
        """Write what is pending."""


class Trackers:
    """Several trackers told the same."""

    def __init__(self, trackers: Sequence[Tracker]) -> None:
        self._trackers = trackers

    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """Tell all of them."""
        for tracker in self._trackers:
            tracker.log(step, metrics)


@contextmanager
def open_trackers(recipe: Recipe, folder: Path, done: int) -> Iterator[Trackers]:
    """The trackers of `recipe.save.trackers` over the run in `folder`; closed at the end of the context.

    After `done` > 0 saved steps the tracked run of the earlier start continues, else a new one begins. The run's
    `metrics.jsonl` must still hold all that the earlier start told its trackers.

    Raises:
        InputError: a tracker is not installed, or cannot start.
    """
    with ExitStack() as stack:
        opened = [stack.enter_context(closing(_OPEN[name](recipe, folder, done > 0))) for name in recipe.save.trackers]
        yield Trackers(opened)


class TensorBoard:
    """Event files in `folder/tensorboard`; what earlier files hold from the first logged step on is purged."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "tensorboard"
        self._library = _installed("tensorboardX")
        self._writer: Any = None

    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """One scalar a metric, flushed."""
        if self._writer is None:
            earlier = len(list(self._folder.glob("events.*")))  # files begun within one second would share a name
            self._writer = self._library.SummaryWriter(
                str(self._folder), purge_step=step, filename_suffix=f".{earlier:03d}"
            )
        for name, value in _known(metrics).items():
            self._writer.add_scalar(tag(name), value, step)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()


class Online:
    """wandb or trackio, whose interfaces agree; steps up to `reached` were told before and are skipped."""

    def __init__(self, library: ModuleType, reached: int) -> None:
        self._library = library
        self._reached = reached

    def log(self, step: int, metrics: Mapping[str, float | None]) -> None:
        """One row a step."""
        if step > self._reached:
            with redirect_stdout(sys.stderr):
                self._library.log(_known(metrics), step=step)

    def close(self) -> None:
        """Finish the tracked run; a later start continues it."""
        with redirect_stdout(sys.stderr):
            self._library.finish()


def tag(name: str) -> str:
    """A metric's name as TensorBoard groups and accepts it: `evaluation.pass@1` → `evaluation/pass_at_1`."""
    return re.sub(r"[^-/\w.]", "_", name.replace(".", "/", 1).replace("@", "_at_"))


def _tensorboard(recipe: Recipe, folder: Path, resumed: bool) -> Tracker:
    return TensorBoard(folder)


def _wandb(recipe: Recipe, folder: Path, resumed: bool) -> Tracker:
    wandb = _installed("wandb")
    _started(
        wandb,
        "log in with `wandb login`, or set WANDB_MODE=offline",
        id=_identity(folder, "wandb", resumed),
        name=folder.name,
        resume="allow",
        dir=str(folder),
        config=tomllib.loads(dump_recipe(recipe)),
        settings=wandb.Settings(console="off"),  # the terminal is ours
    )
    return Online(wandb, _reached(folder, resumed))


def _trackio(recipe: Recipe, folder: Path, resumed: bool) -> Tracker:
    trackio = _installed("trackio")
    _started(
        trackio,
        "see TRACKIO_DIR for where it writes",
        name=f"{folder.name}-{_identity(folder, 'trackio', resumed)}",
        resume="allow",
        config=tomllib.loads(dump_recipe(recipe)),
        embed=False,
    )
    return Online(trackio, _reached(folder, resumed))


_OPEN = {"tensorboard": _tensorboard, "wandb": _wandb, "trackio": _trackio}


def _installed(name: str) -> ModuleType:
    try:
        return import_module(name)
    except ImportError as error:
        raise InputError(
            f"save.trackers asks for {name}, which cannot be imported ({error}); install it with "
            f"`pip install {name}`, or leave it out of save.trackers."
        ) from error


def _started(library: ModuleType, remedy: str, **settings: Any) -> None:
    try:
        with redirect_stdout(sys.stderr):  # stdout belongs to the command's own result
            library.init(project=PROJECT, **settings)
    except Exception as error:  # a tracker may raise anything: no login, no network, no room
        name = library.__name__
        raise InputError(f"{name} cannot start ({error}); {remedy}, or leave {name} out of save.trackers.") from error


def _identity(folder: Path, tracker: str, resumed: bool) -> str:
    """The tracked run's name, the same at every start of a run."""
    path = folder / f"{tracker}.id"
    if resumed and path.is_file():
        return path.read_text(encoding="utf-8").strip()
    identity = uuid.uuid4().hex[:8]
    write_bytes(path, f"{identity}\n".encode())
    return identity


def _reached(folder: Path, resumed: bool) -> int:
    """The last step of which an earlier start told its trackers; −1 where there is none."""
    log = folder / "metrics.jsonl"
    rows = read(log) if resumed and log.is_file() else []
    return max((int(row["step"]) for row in rows), default=-1)


def _known(metrics: Mapping[str, float | None]) -> dict[str, float]:
    return {name: value for name, value in metrics.items() if name != "step" and value is not None}
