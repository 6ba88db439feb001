"""Paths of recipe fields, as `--set KEY=VALUE` and controllers write them, resolved on the tables of a recipe.

`optimizer.learning_rate` is a field of a table; `advantage.zeta` the field of the only advantage step that has it;
`advantage.state-modulation.sharpen` names the step; `objective.piece` exchanges a piece for another of its kind.
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from entropy_lab.errors import InputError
from entropy_lab.training.piece import Piece, pieces_of
from entropy_lab.training.recipe import Recipe

KIND_OF = {
    "exploration": "exploration",
    "rewards": "rewards",
    "advantage": "advantages",
    "objective": "objectives",
    "penalties": "penalties",
    "controllers": "controllers",
}
"""Section of a recipe → kind of the pieces in it."""
LISTS = ("rewards", "advantage", "penalties", "controllers")
"""Sections that hold any number of pieces."""
SHORT = 120  # characters of a list of names that still help in a message; ours

Tables = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a path leads: a section, the index of a piece where the section is a list, and the fields inside."""

    section: str
    index: int | None
    fields: tuple[str, ...]


def field_names(model: type[BaseModel]) -> list[str]:
    """Names of a table's fields as recipes write them."""
    return [field.alias or name for name, field in model.model_fields.items()]


def suggestion(name: str, known: Iterable[str]) -> str:
    """What to do about an unknown name: the nearest one that exists, and all of them where they are few."""
    known = list(known)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    listing = ", ".join(known)
    if not near:
        return f"accepted: {listing or 'nothing'}."
    return f"did you mean `{near[0]}`?" + (f" Accepted: {listing}." if len(listing) <= SHORT else "")


def piece_class(section: str, table: object) -> type[Piece]:
    """The class that a piece's table names.

    Raises:
        InputError: no table, or a table that names no piece of this kind.
    """
    known = pieces_of(KIND_OF[section])
    if not isinstance(table, dict):
        raise InputError(f'`{section}` = {shown(table)} is no table; write `piece = "NAME"` and its fields under it.')
    if "piece" not in table:
        raise InputError(f"`{section}.piece` is missing; {suggestion('', known)}")
    name = table["piece"]
    if not isinstance(name, str) or name not in known:
        raise InputError(f"`{section}.piece` = {shown(name)} is no piece; {suggestion(str(name), known)}")
    return known[name]


def as_list(section: str, value: object) -> list[Any]:
    """The tables of a list section; a single table counts as a list of one."""
    if isinstance(value, dict):
        return [value]
    if isinstance(value, (list, tuple)):
        return list(value)
    raise InputError(f"`{section}` = {shown(value)} is no table; write [[{section}]].")


def shown(value: object) -> str:
    """A value as messages quote it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def locate(path: str, pieces: Mapping[str, Sequence[type[Piece]]]) -> Place:
    """Resolve `path`; `pieces` are the classes that stand in each list section.

    Raises:
        InputError: no such section, or no single piece of a list section that has the field.
    """
    section, *fields = path.split(".")
    if section not in Recipe.model_fields:
        raise InputError(f"`{path}`: a recipe has no `{section}`; {suggestion(section, Recipe.model_fields)}")
    if section not in LISTS or not fields:
        return Place(section, None, tuple(fields))
    here = pieces[section]
    found = [index for index, piece in enumerate(here) if piece.piece == fields[0]]
    if found:
        fields = fields[1:]
    else:
        found = [index for index, piece in enumerate(here) if fields[0] in ("piece", *field_names(piece))]
    if len(found) == 1 and fields:
        return Place(section, found[0], tuple(fields))
    names = [piece.piece for piece in here]
    if not fields:
        own = [field for index in found for field in field_names(here[index])]
        raise InputError(f"`{path}` is a piece; name one of its fields: {', '.join(own) or 'it has none'}.")
    if found:
        choices = ", ".join(f"{section}.{names[index]}.{fields[0]}" for index in found)
        raise InputError(f"`{path}` fits several pieces ({choices}); name one, or change a recipe file.")
    if fields[0] in pieces_of(KIND_OF[section]):
        example = f"""--set '{section}=[{", ".join(f'{{piece="{name}"}}' for name in [*names, fields[0]])}]'"""
        raise InputError(f"`{path}`: this recipe has no `{fields[0]}` under `{section}`; add it with {example}.")
    raise InputError(
        f"`{path}`: no piece under `{section}` has `{fields[0]}`; {suggestion(fields[0], [*names, *_all_fields(here)])}"
    )


def put(table: Tables, fields: Sequence[str], value: object) -> None:
    """Set a field of a table, or of a table inside it, in place."""
    for field in fields[:-1]:
        table = table.setdefault(field, {})
        if not isinstance(table, dict):
            raise InputError(f"`{'.'.join(fields)}`: `{field}` = {shown(table)} is no table.")
    table[fields[-1]] = value


def apply(tables: Tables, overrides: Sequence[str]) -> None:
    """Put every `KEY=VALUE` into the tables, in place: whole sections first, then exchanged pieces, then fields."""
    parsed = [_parse(override) for override in overrides]
    for path, value in sorted(parsed, key=lambda item: ("." in item[0], not item[0].endswith(".piece"))):
        classes: dict[str, list[type[Piece]]] = {}
        for section in LISTS:
            if section in tables:
                tables[section] = as_list(section, tables[section])
            classes[section] = [piece_class(section, table) for table in tables.get(section, [])]
        place = locate(path, classes)
        if not place.fields:
            tables[place.section] = value
            continue
        table = tables.setdefault(place.section, {}) if place.index is None else tables[place.section][place.index]
        if not isinstance(table, dict):
            raise InputError(f"`{path}`: `{place.section}` = {shown(table)} is no table.")
        if place.fields == ("piece",):
            kept = field_names(piece_class(place.section, {"piece": value}))
            for lost in [name for name in table if name not in kept]:
                del table[lost]
        put(table, place.fields, value)


def _parse(override: str) -> tuple[str, Any]:
    """Path and value of `KEY=VALUE`; what is no TOML value is a string."""
    path, equals, text = override.partition("=")
    path, text = path.strip(), text.strip()
    if not equals or not all(path.split(".")):
        raise InputError(f"--set {override!r} is not KEY=VALUE; write for example optimizer.learning_rate=1e-4.")
    try:
        read = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return path, text
    return path, read["value"] if len(read) == 1 else text


def _all_fields(pieces: Iterable[type[Piece]]) -> list[str]:
    return sorted({name for piece in pieces for name in field_names(piece)})
