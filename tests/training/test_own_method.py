"""A new method is one file and a recipe: it is found, listed, set from the command line, adapted, and trains."""

from importlib import import_module

import pytest

from entropy_lab.training.piece import pieces_of
from entropy_lab.training.recipe_files import catalogue, dump_recipe, load_recipe
from entropy_lab.workflows.train import train

METHOD = '''
"""Advantages that fade with the entropy of their token."""

from typing import ClassVar

from torch import Tensor

from entropy_lab.training.advantages import AdvantageStep, Needs
from entropy_lab.training.columns import needed
from entropy_lab.training.tokens import Tokens


class Toy(AdvantageStep):
    """A' = A / (1 + fade · H)."""

    piece: ClassVar[str] = "toy"

    fade: float = 1.0

    @property
    def needs(self) -> Needs:
        return "tokens"

    def __call__(self, tokens: Tokens, advantage_N: Tensor) -> Tensor:
        return advantage_N / (1 + self.fade * needed(tokens.old_entropy_N, "old_entropy_N"))
'''
RECIPE = """
name = "own"
steps = 1
exploration = { piece = "groups", prompts = 4, samples = 4 }
rewards = [{ piece = "correctness" }]
advantage = [{ piece = "group-z" }, { piece = "toy", fade = 2.0 }]
objective = { piece = "clipped" }
evaluation = { every = 0 }
save = { trackers = [] }
start = { device = "cpu" }
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    (tmp_path / "toy_method.py").write_text(METHOD)
    (tmp_path / "own.toml").write_text(RECIPE)
    package = import_module("entropy_lab.training.advantages")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    pieces_of.cache_clear()
    yield tmp_path
    pieces_of.cache_clear()


def test_one_file_of_thirty_lines_adds_a_method(own):
    assert len(METHOD.strip().splitlines()) <= 30
    assert "toy" in {piece["name"] for piece in catalogue()["pieces"]["advantages"]}
    recipe = load_recipe(own / "own.toml", ["advantage.toy.fade=0.5"])
    assert recipe.advantage[1].fade == 0.5
    assert "fade = 0.5" in dump_recipe(recipe)
    trained = train(recipe, own / "run")
    assert trained.step == 1
    assert trained.metrics["loss"] is not None
