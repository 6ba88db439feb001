"""A recipe: everything that decides a training run, as a small TOML file checked field by field."""

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from entropy_lab.errors import InputError

Positive = Annotated[int, Field(gt=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelShape(_Section):
    """A fresh Llama-architecture model; heads × 32 or 64 = hidden size (vLLM's CPU kernels want these head sizes)."""

    hidden_size: Positive
    layers: Positive
    heads: Positive
    key_value_heads: Positive
    intermediate_size: Positive
    context: Positive = 128

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.heads or self.heads % self.key_value_heads:
            raise ValueError("hidden_size must be a multiple of heads, and heads of key_value_heads")
        return self


class Corpus(_Section):
    """Countdown problems and their solutions in steps, under the ladder's rules."""

    numbers: tuple[Positive, ...]
    """How many numbers a problem has, for example (3, 4)."""
    largest_number: Positive
    largest_target: Positive
    fewest_solutions: Positive = 1
    """Problems with fewer canonical solutions are left out."""
    test_problems: Positive


class Optimizer(_Section):
    """AdamW with linear warm-up and cosine decay to a tenth of the peak."""

    learning_rate: Annotated[float, Field(gt=0)]
    warmup_steps: Annotated[int, Field(ge=0)]
    weight_decay: Annotated[float, Field(ge=0)]
    batch_size: Positive
    clip_norm: Annotated[float, Field(gt=0)] = 1.0


class Recipe(_Section):
    """One supervised run: next-token loss on solutions drawn uniformly, checkpoints at named depths."""

    name: str
    steps: Positive
    seed: int = 0
    model: ModelShape
    corpus: Corpus
    optimizer: Optimizer
    rungs: dict[str, Positive]
    """Checkpoint name → the step after which it is kept."""

    @model_validator(mode="after")
    def _rungs_are_reached(self) -> Self:
        late = [name for name, depth in self.rungs.items() if depth > self.steps]
        if late:
            raise ValueError(f"rung {late[0]} lies beyond the last step {self.steps}")
        return self


def load_recipe(source: str | Path) -> Recipe:
    """Read a recipe: a path, or the name of one that ships with the package.

    Raises:
        InputError: no such recipe, not TOML, or a field that is unknown, missing or out of range.
    """
    path = Path(source)
    shipped = files("entropy_lab.training") / "recipes" / f"{source}.toml"
    if path.suffix == ".toml":
        if not path.is_file():
            raise InputError(f"Recipe {path} does not exist.")
        text = path.read_text(encoding="utf-8")
    elif shipped.is_file():
        text = shipped.read_text(encoding="utf-8")
    else:
        known = sorted(entry.name[:-5] for entry in (files("entropy_lab.training") / "recipes").iterdir())
        raise InputError(
            f"There is no recipe {str(source)!r}. Shipped recipes: {', '.join(known)}; or give a .toml file."
        )
    try:
        return Recipe.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"Recipe {source} is not valid TOML: {error}.") from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InputError(f"Recipe {source}, field `{field}`: {first['msg']} (found {first['input']!r}).") from error
