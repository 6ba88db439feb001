"""Pipelines as files: what they may say, and what is refused before anything trains."""

import pytest

from entropy_lab.errors import InputError
from entropy_lab.training.pipeline import is_pipeline, load_pipeline

TEXT = """
name = "own"
seeds = [4]

[[stages]]
name = "sft"
recipe = "sft"
set = ["steps=4", "save.rungs={half = 2, whole = 4}"]

[[stages]]
name = "rl"
recipe = "grpo"
after = "sft/half"
set = ["steps=3", "save.rungs={}"]

[[stages]]
name = "more"
recipe = "fr3e"
set = ["steps=2", "save.rungs={}"]
"""


def written(folder, text=TEXT):
    path = folder / "own.toml"
    path.write_text(text)
    return path


def test_stages_begin_where_they_say(tmp_path):
    pipeline = load_pipeline(written(tmp_path))
    assert [pipeline.begins_after(stage) for stage in pipeline.stages] == [None, "sft/half", "rl"]
    recipe = pipeline.recipe_of(pipeline.stages[1], 4, "builtin:sft-early")
    assert (recipe.name, recipe.steps, recipe.seed, recipe.start.checkpoint) == ("grpo", 3, 4, "builtin:sft-early")
    assert pipeline.recipe_of(pipeline.stages[0], 4, None).start.fresh is not None


def test_overrides_reach_stages_seeds_and_boundaries(tmp_path):
    pipeline = load_pipeline(
        written(tmp_path), ["rl.optimizer.learning_rate=1e-3", "seeds=[1, 2]", 'boundaries.tasks=["countdown-3"]']
    )
    assert pipeline.recipe_of(pipeline.stages[1], 1, None).optimizer.learning_rate == 1e-3
    assert (pipeline.seeds, pipeline.boundaries.tasks) == ((1, 2), ("countdown-3",))


@pytest.mark.parametrize("name", ["staged", "sequential", "depth-ladder"])
def test_shipped_pipelines_load(name):
    assert is_pipeline(name)
    assert load_pipeline(name).name == name


def test_a_recipe_is_no_pipeline(tmp_path):
    assert not is_pipeline("grpo")
    assert not is_pipeline(written(tmp_path, "name = ["))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (('after = "sft/half"', 'after = "sft/halves"'), "did you mean `half`"),
        (('after = "sft/half"', 'after = "more"'), "no stage before it"),
        (('name = "more"', 'name = "rl"'), "two stages are called rl"),
        (("seeds = [4]", "seeds = []"), "seeds"),
        (("seeds = [4]", "seeds = [4, 4]"), "named twice"),
        (("seeds = [4]", "seed = [4]"), "there is no such field"),
        (('recipe = "fr3e"', 'recipe = "fr3"'), "no recipe 'fr3'"),
        (('"steps=3"', '"stepps=3"'), "stepps"),
        (("save.rungs={half = 2, whole = 4}", "save.rungs={half = 9}"), "rl begins at sft/half"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, change, said):
    with pytest.raises(InputError, match=said) as error:
        load_pipeline(written(tmp_path, TEXT.replace(*change)))
    assert "own.toml" in str(error.value)


@pytest.mark.parametrize("override", ["steps=3", "boundaries.problem=3", "rk.steps=3", "rl.steps"])
def test_overrides_that_lead_nowhere(tmp_path, override):
    with pytest.raises(InputError, match="--set"):
        load_pipeline(written(tmp_path), [override])
