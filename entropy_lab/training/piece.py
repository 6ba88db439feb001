"""Pieces: what a recipe is put together from. A piece is a small validated record of its options with one method.

A piece lives in a file of its own inside the package of its kind; writing that file is all that adding one takes.
"""

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict

KINDS = ("exploration", "rewards", "advantages", "objectives", "penalties", "controllers")
"""The packages that hold pieces, in the order in which an iteration uses them."""


class Section(BaseModel):
    """A table of a recipe: frozen, and without room for unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Piece(Section):
    """Base of all pieces. `piece` is the name in recipes; its docstring's first line is what `--list` shows."""

    piece: ClassVar[str]

    def table(self) -> dict[str, Any]:
        """The piece as a table of a recipe."""
        return {"piece": type(self).piece, **self.model_dump(exclude_none=True, by_alias=True)}


@cache
def pieces_of(kind: str) -> dict[str, type[Piece]]:
    """Name → class of every piece of a kind, by importing the modules of its package."""
    package = import_module(f"entropy_lab.training.{kind}")
    found: dict[str, type[Piece]] = {}
    for module in sorted(entry.name for entry in pkgutil.iter_modules(package.__path__)):
        for value in vars(import_module(f"{package.__name__}.{module}")).values():
            if isinstance(value, type) and issubclass(value, Piece) and "piece" in vars(value):
                found[value.piece] = value
    return found
