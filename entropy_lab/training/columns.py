"""Columns that a piece cannot do without: the loop fills those a piece asks for by its flags."""

from torch import Tensor

from entropy_lab.errors import InputError


def needed(column: Tensor | None, name: str) -> Tensor:
    """`column`, or an `InputError` that says which one is missing."""
    if column is None:
        raise InputError(f"The column {name} is not there; compute it first, or use a piece that does without it.")
    return column
