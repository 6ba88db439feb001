"""Outer prefixes: exact ids, one prefix a group, no loss on it; solutions are drawn once, kept and used again."""

import json

import numpy as np
import pytest

from entropy_lab import Rollouts
from entropy_lab.errors import InputError
from entropy_lab.training.recipe_files import load_recipe
from entropy_lab.workflows.train import train
from tests.training.test_loop import KillAt, Killed, last_weights, lines

SMALL = ("exploration.prompts=6", "exploration.samples=4", "exploration.probability=0.7", "steps=4", "save.every=1",
         "evaluation.every=0", "save.trackers=[]", "start.device=cpu")  # fmt: skip


def recipe(*more):
    return load_recipe("outer-prefix", [*SMALL, *more])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outer") / "run"
    train(recipe(), folder)
    return folder


def solutions_of(folder):
    parts = [Rollouts.read(path) for path in sorted((folder / "outer").glob("part-*.parquet"))]
    return {row["problem_id"]: row for row in Rollouts.concat(parts).table.to_pylist()}


def test_groups_continue_whole_steps_of_the_kept_solution(run):
    solutions = solutions_of(run)
    groups = {}
    for row in Rollouts.read(run).table.to_pylist():
        groups.setdefault((row["checkpoint"], row["group_id"]), []).append(row)
    prefixed = [rows for (_, name), rows in groups.items() if name.endswith(" outer")]
    assert prefixed
    assert len(prefixed) < len(groups)
    for rows in prefixed:
        solution = solutions[rows[0]["problem_id"]]
        assert len(rows) == 4
        for row in rows:
            given = row["branch_position"]
            assert row["prompt_ids"][-given:] == solution["token_ids"][:given]
            assert 0 < given < len(solution["token_ids"])
            assert row["text"].startswith(solution["text"][: solution["text"].index(",") + 1])
            assert len(row["token_ids"]) == len(row["entropy"])
            assert row["parent_id"] is None
            assert row["prefix_surprise"] == rows[0]["prefix_surprise"] > 0
    for (_, name), rows in groups.items():
        if not name.endswith(" outer"):
            assert {row["prefix_surprise"] for row in rows} == {None}


def test_what_is_logged(run):
    rows = [row for row in lines(run) if row["exploration.prefixed"] > 0]
    assert rows
    for row in rows:
        assert row["exploration.prefix_tokens"] > 0
        assert row["exploration.prefix_surprise"] > 0
        assert "exploration.prefix_entropy_drop" in row


def test_a_problem_s_solution_is_drawn_once(run):
    names = [
        row["problem_id"]
        for path in sorted((run / "outer").glob("part-*.parquet"))
        for row in Rollouts.read(path).table.to_pylist()
    ]
    assert len(names) == len(set(names))


def test_killed_and_continued_is_bit_equal(run, tmp_path):
    with pytest.raises(Killed):
        train(recipe(), tmp_path / "broken", view=KillAt(3))
    train(recipe(), tmp_path / "broken")
    assert lines(run) == lines(tmp_path / "broken")
    first, second = last_weights(run), last_weights(tmp_path / "broken")
    assert all(np.array_equal(first[key], second[key]) for key in first)


def test_kept_solutions_serve_another_run(run, tmp_path):
    """From text, as a file of any other model's solutions would: the ids are the policy's own."""
    again = recipe(f"exploration.source={json.dumps(str(run / 'outer' / 'part-00001.parquet'))}", "steps=1")
    train(again, tmp_path / "again")
    first = {row["step"]: row for row in lines(run)}[1]
    (row,) = lines(tmp_path / "again")
    assert row["exploration.prefixed"] == first["exploration.prefixed"]
    assert row["exploration.prefix_surprise"] == pytest.approx(first["exploration.prefix_surprise"], abs=1e-6)
    assert row["sampled_tokens"] < first["sampled_tokens"]  # the solutions cost nothing now
    assert not (tmp_path / "again" / "outer").exists()


def test_probability_zero_is_plain_groups(tmp_path):
    train(recipe("exploration.probability=0", "steps=1"), tmp_path / "none")
    assert not (tmp_path / "none" / "outer").exists()
    assert lines(tmp_path / "none")[0]["exploration.prefixed"] == 0


def test_a_source_that_is_nothing(tmp_path):
    with pytest.raises(InputError, match="nope"):
        train(recipe("exploration.source=builtin:nope", "exploration.probability=1"), tmp_path / "run")
