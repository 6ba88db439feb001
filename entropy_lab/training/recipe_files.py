"""Recipes as files: read one with its overrides, write one down whole, list what there is.

A message about a bad recipe names the file, the field as `--set` writes it, the value and the nearest accepted name.
"""

import tomllib
import types
from collections.abc import Mapping, Sequence
from importlib.resources import files
from json import dumps
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from entropy_lab.errors import InputError
from entropy_lab.training.piece import KINDS, Piece, Section, pieces_of
from entropy_lab.training.recipe import Recipe
from entropy_lab.training.recipe_fields import (
    KIND_OF,
    LISTS,
    Tables,
    apply,
    as_list,
    field_names,
    locate,
    piece_class,
    put,
    shown,
    suggestion,
)

SHIPPED = files("entropy_lab.training") / "recipes"

Table = TypeVar("Table", bound=Section)


def load_recipe(source: str | Path, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe, a .toml file or the name of a shipped one, with `KEY=VALUE` overrides.

    A value is read as TOML, and as a plain string where it is none. The order of overrides does not matter, unless
    two set the same field: the last one counts.

    Raises:
        InputError: no such recipe, not TOML, or a field that is unknown, missing or out of range.
    """
    name = f"Recipe {source}" + (f" with --set {' '.join(overrides)}" if overrides else "")
    try:
        tables = tomllib.loads(recipe_text(source))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"Recipe {source} is not valid TOML: {error}.") from error
    try:
        apply(tables, overrides)
        return _build(tables)
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def with_field(recipe: Recipe, path: str, value: object) -> Recipe:
    """The recipe with one field changed, `path` as in `--set`; pieces and tables left alone stay the same objects.

    Raises:
        InputError: the path leads nowhere, or the value is not accepted there.
    """
    place = locate(path, {section: [type(piece) for piece in getattr(recipe, section)] for section in LISTS})
    values = {name: getattr(recipe, name) for name in Recipe.model_fields}
    if not place.fields:
        return checked(Recipe, values | {place.section: value})
    before = values[place.section] if place.index is None else values[place.section][place.index]
    model = type(before) if isinstance(before, Section) else _table_in(Recipe.model_fields[place.section].annotation)
    if model is None:
        raise InputError(f"`{path}`: `{place.section}` = {shown(before)} is no table.")
    table = {} if before is None else _table(before)
    put(table, place.fields, value)
    prefix = (place.section,) if place.index is None else (place.section, str(before.piece))
    after = checked(model, table, prefix)
    if place.index is not None:
        pieces = list(values[place.section])
        pieces[place.index] = after
        values[place.section] = tuple(pieces)
    else:
        values[place.section] = after
    return checked(Recipe, values)


def dump_recipe(recipe: Recipe) -> str:
    """The recipe as TOML with every field written out; `load_recipe` of it gives an equal recipe."""
    import tomli_w

    return tomli_w.dumps(_tables(recipe))


def shipped_names() -> list[str]:
    """Names of the recipes in the package."""
    return sorted(entry.name.removesuffix(".toml") for entry in SHIPPED.iterdir() if entry.name.endswith(".toml"))


def catalogue() -> dict[str, Any]:
    """Shipped recipes, and the pieces of each kind with their fields; a field without `default` must be given."""
    return {
        "recipes": [_recipe_entry(name) for name in shipped_names()],
        "pieces": {kind: [_piece_entry(piece) for piece in pieces_of(kind).values()] for kind in KINDS},
    }


def recipe_text(source: str | Path) -> str:
    """The TOML of a recipe file, or of a shipped name; raises InputError where there is none."""
    path = Path(source)
    if path.suffix == ".toml":
        try:
            return path.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(f"Recipe {path} cannot be read ({error.strerror}); check the path.") from error
    names = shipped_names()
    if str(source) not in names:
        raise InputError(
            f"There is no recipe {str(source)!r}; {suggestion(str(source), names)} A file of your own ends in .toml."
        )
    return (SHIPPED / f"{source}.toml").read_text(encoding="utf-8")


def _build(tables: Tables) -> Recipe:
    values = dict(tables)
    for section in KIND_OF:
        if section not in tables:
            continue
        if section in LISTS:
            values[section] = tuple(_piece(section, table) for table in as_list(section, tables[section]))
        else:
            values[section] = _piece(section, tables[section])
    return checked(Recipe, values)


def _piece(section: str, table: Any) -> Piece:
    model = piece_class(section, table)
    fields = {name: value for name, value in table.items() if name != "piece"}
    return checked(model, fields, (section, model.piece) if section in LISTS else (section,))


def checked(model: type[Table], values: Mapping[str, Any], prefix: tuple[str, ...] = ()) -> Table:
    """The table, validated; raises InputError with the first thing that is wrong, its field under `prefix`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise InputError(_explain(error, model, prefix)) from error


def _explain(error: ValidationError, model: type[BaseModel], prefix: tuple[str, ...]) -> str:
    """The first thing pydantic found, as one sentence; unknown fields come first, since they explain missing ones."""
    problems = sorted(error.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden")
    first = problems[0]
    where = _location(first["loc"])
    field = ".".join((*prefix, *where))
    if first["type"] == "missing":
        return f"`{field}` is missing; give it a value."
    value = shown(first["input"])
    if first["type"] == "extra_forbidden":
        owner = model
        for name in where[:-1]:
            owner = (name in owner.model_fields and _table_in(owner.model_fields[name].annotation)) or owner
        return f"`{field}` = {value}: there is no such field; {suggestion(where[-1], field_names(owner))}"
    reasons = {_readable(problem["msg"]) for problem in problems if _location(problem["loc"]) == where}
    reason = ", or ".join(sorted(reasons))
    if first["type"] == "value_error":  # a check of the table as a whole, which says what is wrong with what
        return f"`{field}`: {reason}." if field else f"{reason}."
    return f"`{field}` = {value} {reason}."


def _location(loc: tuple[int | str, ...]) -> tuple[str, ...]:
    """Where in the tables; without the marks by which pydantic tells the members of a union apart."""
    return tuple(str(part) for part in loc if isinstance(part, int) or "[" not in part)


def _readable(message: str) -> str:
    message = message.removeprefix("Value error, ").replace("Input should be", "must be")
    return "must be a table" if "valid dictionary or" in message else message.replace("valid tuple", "list")


def _table_in(annotation: Any) -> type[Section] | None:
    """The kind of table that a field holds, if it holds one."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        return annotation
    return next((found for part in get_args(annotation) if (found := _table_in(part))), None)


def _table(section: Section) -> Tables:
    return section.model_dump(by_alias=True, exclude_none=True)


def _tables(recipe: Recipe) -> Tables:
    tables: Tables = {}
    for name in Recipe.model_fields:
        value = getattr(recipe, name)
        if name in LISTS:
            value = [{"piece": piece.piece, **_table(piece)} for piece in value] or None
        elif isinstance(value, Section):
            value = ({"piece": value.piece} if isinstance(value, Piece) else {}) | _table(value)
        if value is not None:
            tables[name] = value
    return tables


def value_of(text: str) -> str:
    """A string as TOML, which reads JSON's strings."""
    return dumps(text, ensure_ascii=False)


def _recipe_entry(name: str) -> dict[str, Any]:
    from entropy_lab.training.pipeline import is_pipeline, load_pipeline  # which is built on this module

    if is_pipeline(name):
        pipeline = load_pipeline(name)
        recipes = [pipeline.recipe_of(stage, 0, None) for stage in pipeline.stages]
        steps = sum(recipe.steps for recipe in recipes) * len(pipeline.seeds)
        return {
            "name": name,
            "summary": _summary(name),
            "steps": steps,
            "stages": [one.name for one in pipeline.stages],
        }
    recipe = load_recipe(name)
    pieces = {
        section: [piece.piece for piece in getattr(recipe, section)]
        if section in LISTS
        else getattr(recipe, section).piece
        for section in KIND_OF
    }
    return {"name": name, "summary": _summary(name), "steps": recipe.steps, **pieces}


def _summary(name: str) -> str:
    """The comment at the head of a shipped file."""
    comment = []
    for line in recipe_text(name).splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.lstrip("# ").rstrip())
    return " ".join(comment)


def _piece_entry(piece: type[Piece]) -> dict[str, Any]:
    fields = {}
    for name, field in piece.model_fields.items():
        default = {} if field.is_required() else {"default": field.get_default(call_default_factory=True)}
        fields[field.alias or name] = {**default, "type": _type_name(field.annotation)}
    return {"name": piece.piece, "summary": (piece.__doc__ or "").partition("\n")[0], "fields": fields}


def _type_name(annotation: Any) -> str:
    """A field's type in a few words: `float`, `1 | 2`, `list of int`."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " | ".join(repr(part) for part in parts)
    if origin in (Union, types.UnionType):
        return " | ".join("none" if part is type(None) else _type_name(part) for part in parts)
    if origin is Annotated:
        return _type_name(parts[0])
    if origin in (tuple, list):
        return f"list of {_type_name(parts[0])}"
    if origin is dict:
        return f"table of {_type_name(parts[1])}"
    return str(getattr(annotation, "__name__", annotation))
