"""Recipes as files: what ships, overrides, what comes back from a dump, and what bad input is told."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.errors import InputError
from entropy_lab.training.piece import KINDS, pieces_of
from entropy_lab.training.recipe import Lora, Recipe
from entropy_lab.training.recipe_files import SHIPPED, catalogue, dump_recipe, load_recipe, shipped_names, with_field

NAMES = sorted(
    [
        *("cispo", "dapo", "dpo", "dr-grpo", "fr3e", "gspo", "grpo", "loop", "ppo", "rloo", "sapo", "sft"),
        *("adapo", "clip-cov", "entropy-bonus", "forking-tokens", "gdpo", "kl-cov", "outer-prefix"),
        *("repo-d", "repo-r", "rlif", "saf", "stare"),
    ]
)
PIPELINES = ["depth-ladder", "sequential", "staged"]

BARE = """
name = "mine"
steps = 3
[exploration]
piece = "demonstrations"
[objective]
piece = "next-token"
"""


def _again(recipe: Recipe, folder: Path) -> Recipe:
    path = folder / "again.toml"
    path.write_text(dump_recipe(recipe), encoding="utf-8")
    return load_recipe(path)


def _write(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


def _field(recipe: Recipe, path: str) -> Any:
    value: Any = recipe
    for part in path.split("."):
        value = value[part] if isinstance(value, Mapping) else getattr(value, part)
    return value


def _pieces(recipe: Recipe) -> tuple[str, list[str], list[str], str]:
    return (
        recipe.exploration.piece,
        [reward.piece for reward in recipe.rewards],
        [step.piece for step in recipe.advantage],
        recipe.objective.piece,
    )


def test_what_ships() -> None:
    assert shipped_names() == sorted([*NAMES, *PIPELINES])


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_recipe_loads_says_what_it_is_and_survives_a_dump(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    lines = (SHIPPED / f"{name}.toml").read_text(encoding="utf-8").splitlines()
    assert 1 <= [line.startswith("#") for line in lines].index(False) <= 2
    assert max(map(len, lines)) <= 120
    assert _again(recipe, tmp_path) == recipe
    if name != "sft":
        assert (recipe.start.checkpoint, recipe.sampling.max_new_tokens) == ("builtin:sft", 40)
        assert recipe.steps == {"dapo": 120, "fr3e": 80}.get(name, 200)
        every = {"dapo": 15, "fr3e": 10}.get(name, 25)
        assert (recipe.evaluation.every, recipe.save.every, recipe.optimizer.learning_rate) == (every, every, 5e-5)
        assert recipe.exploration.prompts == 24
        assert recipe.optimizer.epochs * recipe.optimizer.minibatches == (1 if name in ("rloo", "dpo") else 2)


@pytest.mark.parametrize(
    ("name", "pieces"),
    [
        ("grpo", ("groups", ["correctness"], ["group-z"], "clipped")),
        ("dr-grpo", ("groups", ["correctness"], ["centred"], "clipped")),
        ("dapo", ("groups", ["correctness", "overlong"], ["group-z"], "clipped")),
        ("gspo", ("groups", ["correctness"], ["group-z"], "clipped")),
        ("loop", ("groups", ["correctness"], ["leave-one-out"], "clipped")),
        ("cispo", ("groups", ["correctness"], ["group-z"], "cispo")),
        ("sapo", ("groups", ["correctness"], ["group-z"], "sapo")),
        ("rloo", ("groups", ["correctness"], ["leave-one-out"], "reinforce")),
        ("ppo", ("groups", ["correctness"], ["gae"], "ppo")),
        ("fr3e", ("fr3e", ["correctness"], ["centred", "state-modulation"], "clipped")),
        ("dpo", ("pairs", ["correctness"], [], "dpo")),
        ("sft", ("demonstrations", [], [], "next-token")),
    ],
)
def test_the_pieces_of_a_shipped_recipe(name: str, pieces: tuple[str, list[str], list[str], str]) -> None:
    assert _pieces(load_recipe(name)) == pieces


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("grpo", {"low": 0.2, "high": 0.2, "dual": 0, "level": "token", "reduction": "sequence-mean"}),
        ("dr-grpo", {"low": 0.2, "high": 0.2, "reduction": "length-constant"}),
        ("dapo", {"low": 0.2, "high": 0.28, "reduction": "token-mean"}),
        ("gspo", {"low": 3e-4, "high": 4e-4, "level": "sequence", "reduction": "sequence-mean"}),
        ("loop", {"low": 0.1, "high": 0.1, "symmetric_in_log": True, "reduction": "token-mean"}),
        ("cispo", {"cap": 5, "reduction": "token-mean"}),
        ("sapo", {"tau_positive": 1, "tau_negative": 1.05, "reduction": "sequence-mean"}),
        ("ppo", {"low": 0.2, "high": 0.2, "value_clip": 0.2, "reduction": "token-mean"}),
        ("fr3e", {"low": 0.22, "high": 0.28, "dual": 3, "reduction": "token-mean"}),
        ("rloo", {"reduction": "token-mean"}),
        ("dpo", {"beta": 0.1, "reduction": "sequence-mean"}),
    ],
)
def test_the_objective_of_a_shipped_recipe_is_the_methods(name: str, fields: dict[str, object]) -> None:
    objective = load_recipe(name).objective
    assert {field: getattr(objective, field) for field in fields} == fields


def test_the_explorations_of_shipped_recipes() -> None:
    assert load_recipe("grpo").exploration.table() == {
        "piece": "groups",
        "prompts": 24,
        "samples": 8,
        "drop_degenerate": False,
        "max_tries": 3,
    }
    dapo = load_recipe("dapo")
    assert dapo.exploration.drop_degenerate  # type: ignore[attr-defined]
    assert (dapo.rewards[1].limit, dapo.rewards[1].cache) == (40, 8)  # type: ignore[attr-defined]
    wanted = {"prompts": 24, "first_n": 4, "bases": 10, "anchors": 3, "continuations": 5, "target_groups": 36}
    assert wanted.items() <= load_recipe("fr3e").exploration.table().items()
    sft = load_recipe("sft")
    assert (sft.seed, sft.steps, sft.save.rungs) == (20, 2500, {"sft-early": 300, "sft-middle": 1000, "sft": 2500})
    assert sft.start.fresh is not None


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("steps=7", "steps", 7),
        ("start.checkpoint=builtin:sft-early", "start.checkpoint", "builtin:sft-early"),
        ("data.task = a = b.jsonl", "data.task", "a = b.jsonl"),
        ('data.task="quoted"', "data.task", "quoted"),
        ("evaluation.every=0", "evaluation.every", 0),
        ("optimizer.learning_rate=1e-3", "optimizer.learning_rate", 1e-3),
        ("optimizer.betas=[0.8, 0.9]", "optimizer.betas", (0.8, 0.9)),
        ("objective.high=.3", "objective.high", 0.3),
        ("lora.rank=8", "lora.rank", 8),
        ("lora={}", "lora", Lora()),
        ("lora.targets=['q_proj']", "lora.targets", ("q_proj",)),
        ("save.rungs.half=70", "save.rungs.half", 70),
        ("save.rungs={a = 1, b = 2}", "save.rungs", {"a": 1, "b": 2}),
        ("exploration.drop_degenerate=true", "exploration.drop_degenerate", True),
        ("numerics.softmax_fix=false", "numerics.softmax_fix", False),
        ("data.problems=100", "data.problems", 100),
    ],
)
def test_one_override(override: str, path: str, value: object, tmp_path: Path) -> None:
    recipe = load_recipe("grpo", [override])
    assert _field(recipe, path) == value
    assert _again(recipe, tmp_path) == recipe
    section = override.partition("=")[0].partition(".")[0].strip()
    untouched = Recipe.model_fields.keys() - {section}
    assert all(getattr(recipe, name) == getattr(load_recipe("grpo"), name) for name in untouched)


def test_overrides_of_pieces_in_lists() -> None:
    assert load_recipe("fr3e", ["advantage.state-modulation.sharpen=true"]).advantage[1].table()["sharpen"] is True
    assert load_recipe("fr3e", ["advantage.sharpen=true"]).advantage[1].table()["sharpen"] is True
    assert load_recipe("grpo", ["advantage.epsilon=0.01"]).advantage[0].table()["epsilon"] == 0.01
    assert [reward.weight for reward in load_recipe("dapo", ["rewards.overlong.weight=0.5"]).rewards] == [1, 0.5]
    bonus = ["penalties.entropy-bonus.coefficient=0.02", 'penalties=[{piece="entropy-bonus"}]']  # in either order
    assert load_recipe("grpo", bonus) == load_recipe("grpo", bonus[::-1])
    assert load_recipe("grpo", bonus).penalties[0].table()["coefficient"] == 0.02


def test_a_piece_is_exchanged_and_takes_along_the_fields_it_has() -> None:
    for order in (1, -1):
        recipe = load_recipe("grpo", ["objective.cap=3", "objective.piece=cispo"][::order])
        assert recipe.objective.table() == {"piece": "cispo", "cap": 3.0, "reduction": "sequence-mean"}
    assert load_recipe("gspo", ["objective.piece=ppo", "advantage.piece=gae"]).objective.table()["high"] == 4e-4
    assert load_recipe("grpo", ["advantage.piece=centred"]).advantage == load_recipe("dr-grpo").advantage


def test_the_last_of_two_overrides_counts() -> None:
    assert load_recipe("grpo", ["steps=1", "steps=2"]).steps == 2


def test_a_list_section_may_be_one_table(tmp_path: Path) -> None:
    rest = BARE.replace("demonstrations", "groups")
    one = load_recipe(_write(tmp_path, rest + "[rewards]\npiece = 'correctness'\nweight = 2"))
    many = load_recipe(_write(tmp_path, rest + "[[rewards]]\npiece = 'correctness'\nweight = 2"))
    assert one == many
    assert one.rewards[0].weight == 2
    path = _write(tmp_path, rest + "[rewards]\npiece = 'correctness'\nweight = 2")
    assert load_recipe(path, ["rewards.weight=3"]).rewards[0].weight == 3


numbers = st.floats(1e-12, 0.999, allow_subnormal=False)


@given(
    name=st.sampled_from(["grpo", "dapo", "fr3e"]),
    text=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", fullmatch=True),
    rate=numbers,
    betas=st.tuples(numbers, numbers),
    rungs=st.dictionaries(
        st.from_regex(r"[A-Za-rt-z0-9][A-Za-z0-9._-]{0,99}", fullmatch=True), st.integers(1, 200), max_size=3
    ),
    lora=st.none()
    | st.builds(Lora, rank=st.integers(1, 99), targets=st.lists(st.text("a_."), min_size=1, max_size=2).map(tuple)),
)
def test_any_recipe_survives_a_dump(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    text: str,
    rate: float,
    betas: tuple[float, float],
    rungs: dict[str, int],
    lora: Lora | None,
) -> None:
    recipe = load_recipe(name)
    changes = {
        "name": text,
        "optimizer.learning_rate": rate,
        "optimizer.betas": betas,
        "objective.high": rate,
        "save.rungs": rungs,
        "lora": lora,
    }
    for path, value in changes.items():
        recipe = with_field(recipe, path, value)
    assert _again(recipe, tmp_path_factory.mktemp("dumped")) == recipe


@pytest.mark.parametrize(
    ("override", "parts"),
    [
        ("optimizer.learning_rat=1", ["Recipe grpo", "`optimizer.learning_rat` = 1", "`learning_rate`?"]),
        ("optimiser.epochs=1", ["`optimiser.epochs`", "did you mean `optimizer`?"]),
        ("advantages.epsilon=1", ["did you mean `advantage`?"]),
        ("stepss=1", ["did you mean `steps`?"]),
        ("objective.lwo=0.1", ["`objective.lwo` = 0.1", "did you mean `low`?", "high"]),
        ("advantage.epsilonn=1", ["`advantage.epsilonn`", "did you mean `epsilon`?"]),
        ("advantage.group-z.epsilonn=1", ["`advantage.group-z.epsilonn`", "did you mean `epsilon`?"]),
        ("advantage.group-z=1", ["is a piece", "epsilon"]),
        ("objective.piece=cipso", ["`objective.piece` = 'cipso'", "did you mean `cispo`?"]),
        ("penalties.entropy-bonus.coefficient=1", ["no `entropy-bonus`", 'penalties=[{piece="entropy-bonus"}]']),
        ("penalties=[{piece='reference_kl'}]", ["`penalties.piece` = 'reference_kl'", "`reference-kl`?"]),
        ("penalties=[{weight=1}]", ["`penalties.piece` is missing", "entropy-bonus"]),
        ("penalties=3", ["`penalties` = 3", "[[penalties]]"]),
        ("objective=cispo", ["`objective` = 'cispo'", "piece"]),
        ("save.rungs.step-3=3", ["rung step-3 has the name"]),
        ("save.rungs={'../up' = 3}", ["save.rungs", "../up"]),
        ("steps=0", ["`steps` = 0 must be greater than 0"]),
        ("steps=many", ["`steps` = 'many' must be a valid integer"]),
        ("steps.more=1", ["`steps`", "200"]),
        ("optimizer=3", ["`optimizer` = 3 must be a table"]),
        ("optimizer.learning_rate=nan", ["`optimizer.learning_rate` = nan", "finite"]),
        ("numerics.dtype=float8", ["`numerics.dtype` = 'float8'", "'bfloat16'"]),
        ("lora.targets=3", ["`lora.targets` = 3", "'all-linear'", "a list"]),
        ("optimizer.betas=[0.9]", ["`optimizer.betas.1` is missing"]),
        ("start.fresh.hidden_size=32", ["`start.fresh.layers` is missing"]),
        ("rewards=[]", ["[[rewards]]"]),
        ("steps", ["'steps' is not KEY=VALUE"]),
        ("objective.=1", ["is not KEY=VALUE"]),
        ("exploration.prompts=2\nsteps=3", ["`exploration.prompts` = '2\\nsteps=3'"]),
    ],
)
def test_bad_overrides_name_field_value_and_remedy(override: str, parts: list[str]) -> None:
    with pytest.raises(InputError) as caught:
        load_recipe("grpo", [override])
    message = str(caught.value)
    assert override.partition("\n")[0] in message  # what was written
    assert [part for part in parts if part not in message] == []
    assert "pydantic" not in message


def test_a_field_of_several_pieces() -> None:
    with pytest.raises(InputError, match=r"rewards\.correctness\.weight, rewards\.overlong\.weight"):
        load_recipe("dapo", ["rewards.weight=2"])


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (BARE.replace("name = ", "nam = "), ["`nam` = 'mine'", "did you mean `name`?"]),
        (BARE.replace('name = "mine"', ""), ["`name` is missing"]),
        (BARE.replace("[objective]", "[objektive]"), ["`objektive`", "did you mean `objective`?"]),
        (BARE + "labelsmoothing = 1", ["`objective.labelsmoothing` = 1", "did you mean `label_smoothing`?"]),
        (BARE.replace("[objective]", "[[objective]]"), ["`objective` = [", "no table"]),
        (BARE.replace('piece = "next-token"', ""), ["`objective.piece` is missing", "next-token"]),
        (BARE.replace("next-token", "clipped"), ["[[advantage]]"]),
        (BARE + "[start.fresh]\nhidden = 1", ["`start.fresh.hidden` = 1", "did you mean `hidden_size`?"]),
        ("steps = = 3", ["not valid TOML"]),
    ],
)
def test_bad_files_are_named_with_field_and_remedy(text: str, parts: list[str], tmp_path: Path) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert [part for part in [str(path), *parts] if part not in str(caught.value)] == []


def test_recipes_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean `grpo`"):
        load_recipe("grop")
    with pytest.raises(InputError, match="No such file"):
        load_recipe(tmp_path / "absent.toml")
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(InputError, match="not valid TOML"):
        load_recipe(tmp_path / "latin.toml")


def test_a_changed_field_leaves_the_other_pieces_the_same_objects() -> None:
    recipe = load_recipe("fr3e", ['penalties=[{piece="entropy-bonus"}]'])
    changed = with_field(recipe, "penalties.entropy-bonus.coefficient", 0.25)
    assert changed.penalties[0].table()["coefficient"] == 0.25
    assert changed == load_recipe("fr3e", ['penalties=[{piece="entropy-bonus", coefficient=0.25}]'])
    for name in Recipe.model_fields.keys() - {"penalties"}:
        ours, theirs = getattr(changed, name), getattr(recipe, name)
        if isinstance(ours, tuple):
            assert [id(piece) for piece in ours] == [id(piece) for piece in theirs]
        else:
            assert ours is theirs, name
    assert recipe.penalties[0].table()["coefficient"] != 0.25
    assert with_field(recipe, "steps", 9).steps == 9
    assert with_field(recipe, "lora.rank", 3).lora == Lora(rank=3)
    assert with_field(recipe, "objective.high", 0.5).objective.table()["high"] == 0.5
    assert with_field(recipe, "advantage.sharpen", True).advantage[0] is recipe.advantage[0]


@pytest.mark.parametrize(
    ("path", "value", "part"),
    [
        ("objective.hihg", 0.3, "did you mean `high`?"),
        ("objective.high", -1, "`objective.high` = -1 must be"),
        ("advantage.nothing", 1, "no piece under `advantage`"),
        ("steps.more", 1, "`steps` = 200 is no table"),
        ("steps", 0, "`steps` = 0 must be greater than 0"),
    ],
)
def test_fields_that_cannot_be_changed(path: str, value: object, part: str) -> None:
    with pytest.raises(InputError) as caught:
        with_field(load_recipe("grpo"), path, value)
    assert part in str(caught.value)


def test_the_catalogue_names_recipes_and_pieces_with_their_fields() -> None:
    listing = json.loads(json.dumps(catalogue(), allow_nan=False))
    assert [entry["name"] for entry in listing["recipes"]] == shipped_names()
    assert all(entry["summary"] and entry["steps"] > 0 for entry in listing["recipes"])
    fr3e = next(entry for entry in listing["recipes"] if entry["name"] == "fr3e")
    assert fr3e["advantage"] == ["centred", "state-modulation"]
    assert list(listing["pieces"]) == list(KINDS)
    for kind, entries in listing["pieces"].items():
        assert [entry["name"] for entry in entries] == list(pieces_of(kind))
        assert all(entry["summary"] for entry in entries)
    clipped = next(entry for entry in listing["pieces"]["objectives"] if entry["name"] == "clipped")
    assert clipped["fields"]["low"] == {"default": 0.2, "type": "float"}
    assert clipped["fields"]["level"] == {"default": "token", "type": "'token' | 'sequence'"}
    overlong = next(entry for entry in listing["pieces"]["rewards"] if entry["name"] == "overlong")
    assert "default" not in overlong["fields"]["limit"]


@pytest.mark.parametrize("name", ["../../evil", "a/b", "", "a" * 400, "a\\u0000b", ".hidden"])
def test_a_name_is_the_name_of_a_folder(name: str) -> None:
    with pytest.raises(InputError, match="name"):
        load_recipe("grpo", [f'name="{name}"'])


@pytest.mark.parametrize("override", ["optimizer.learning_rate=1e300", "lora.targets=[]", "optimizer.learning_rate=0"])
def test_values_that_no_library_takes(override: str) -> None:
    with pytest.raises(InputError, match=r"learning_rate|targets"):
        load_recipe("grpo", ["lora.rank=2", override])


def test_a_file_nested_beyond_reading(tmp_path: Path) -> None:
    (tmp_path / "deep.toml").write_text("a = " + "[" * 5000 + "]" * 5000)
    with pytest.raises(InputError, match="not valid TOML"):
        load_recipe(tmp_path / "deep.toml")
