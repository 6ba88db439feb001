"""Demonstrations: right solutions that are never of a held-out problem, and rows of a file as they stand there."""

import json
import shutil

import numpy as np
import pytest

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.prompts import encode_prompt
from entropy_lab.tasks.countdown.answers import grade_answer
from entropy_lab.tasks.countdown.task import LADDER_RULES, Countdown, countdown_problem
from entropy_lab.training.countdown_corpus import Corpus, build_corpus
from entropy_lab.training.exploration.demonstration_file import DemonstrationFile
from entropy_lab.training.exploration.demonstrations import Demonstrations
from tests.training.exploration.scripted_world import ScriptedWorld

SMALL = {"numbers": (3,), "largest_number": 6, "largest_target": 20, "fewest_solutions": 1, "test_problems": 20}


@pytest.fixture
def world():
    made = ScriptedWorld(None)
    made.checkpoint = load_checkpoint("builtin:sft", device="cpu")
    made.sample = None  # demonstrations never ask the policy
    return made


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_demonstrations_are_right_and_posed_as_the_ladder_is_asked(world):
    piece = Demonstrations(**SMALL, count=40)
    explored = piece(world, 5)
    held_out = {problem.key for problem in build_corpus(Corpus(**SMALL)).test}
    examples = build_corpus(Corpus(**SMALL)).examples(world.seed, world.iteration, 40)
    task, tokenizer = Countdown((), "steps", LADDER_RULES), world.checkpoint.tokenizer
    assert len(explored.rollouts) == 40
    assert explored.position == 5
    assert len({one.group for one in explored.rollouts}) == len({one.sample_index for one in explored.rollouts}) == 40
    for one, (nums, target, answer) in zip(explored.rollouts, examples, strict=True):
        trajectory = one.trajectory
        assert grade_answer(nums, target, one.text, "steps", LADDER_RULES).correct
        assert trajectory.problem_id not in held_out
        assert trajectory.prompt_ids == encode_prompt(world.checkpoint, task.messages(countdown_problem(nums, target)))
        assert trajectory.token_ids.dtype == np.int32
        assert tokenizer.decode(trajectory.token_ids) == answer + "<end>"
        assert (trajectory.logprobs, trajectory.seed, trajectory.finish_reason) == (None, 0, "stop")
        assert (one.grade.correct, one.grade.code, one.reward) == (None, "demonstration", 0.0)


def test_draws_depend_on_seed_and_iteration_alone(world):
    piece = Demonstrations(**SMALL, count=20)

    def texts(seed, iteration, position=0):
        world.seed, world.iteration = seed, iteration
        return [one.text for one in piece(world, position).rollouts]

    assert texts(1, 4) == texts(1, 4, position=9)
    assert texts(1, 4) != texts(1, 5)
    assert texts(1, 4) != texts(2, 4)


def test_a_corpus_that_is_too_small_is_named(world):
    with pytest.raises(InputError, match="`test_problems` is 100000"):
        Demonstrations(**{**SMALL, "test_problems": 100_000})(world, 0)


def test_a_file_is_taught_row_by_row_in_a_new_order_each_epoch(world, tmp_path):
    rows = [{"prompt": f"Target: {k}\n", "completion": f"{k}+1={k + 1}"} for k in range(10)]
    rows[4] = {"messages": [{"role": "user", "content": "Target: 4\n"}], "completion": "4+1=5"}
    piece = DemonstrationFile(file=write(tmp_path / "taught.jsonl", rows), count=4)
    epochs, position = [], 0
    for _ in range(5):
        explored = piece(world, position)
        position = explored.position
        epochs += [one.text for one in explored.rollouts]
    assert position == 20
    assert sorted(epochs[:10]) == sorted(epochs[10:]) == sorted(row["completion"] for row in rows)
    assert epochs[:10] != epochs[10:]
    row = next(one for one in piece(world, epochs.index("4+1=5")).rollouts if one.text == "4+1=5")
    assert row.trajectory.problem_id == "taught.jsonl:5"
    assert row.trajectory.prompt_ids == encode_prompt(world.checkpoint, [{"role": "user", "content": "Target: 4\n"}])
    assert row.grade.code == "demonstration"


def test_a_wrong_row_of_a_file_is_named(world, tmp_path):
    path = write(tmp_path / "taught.jsonl", [{"prompt": "Q", "completion": "a"}, {"prompt": "Q", "answer": "a"}])
    with pytest.raises(InputError, match=r"taught\.jsonl:2: `completion` holds None"):
        DemonstrationFile(file=path)(world, 0)


def test_the_end_token_is_the_chat_templates_own(chat_checkpoint_folder, tmp_path):
    """<|im_end|> ends a turn of this template, though the tokenizer's end token is <eos>."""
    world = ScriptedWorld(None)
    world.checkpoint = load_checkpoint(str(shutil.copytree(chat_checkpoint_folder, tmp_path / "chat")), device="cpu")
    path = write(tmp_path / "taught.jsonl", [{"prompt": "find a way", "completion": "1 + 2"}])
    (row,) = DemonstrationFile(file=path, count=1)(world, 0).rollouts
    last = world.checkpoint.tokenizer.convert_ids_to_tokens([int(row.trajectory.token_ids[-1])])
    assert last == ["<|im_end|>"]


def test_a_tokenizer_without_an_end_token_is_named(tiny_checkpoint_folder, tmp_path):
    world = ScriptedWorld(None)
    world.checkpoint = load_checkpoint(str(shutil.copytree(tiny_checkpoint_folder, tmp_path / "tiny")), device="cpu")
    world.checkpoint.tokenizer.eos_token = None
    path = write(tmp_path / "taught.jsonl", [{"prompt": "find a way", "completion": "1 + 2"}])
    with pytest.raises(InputError, match="has no end token"):
        DemonstrationFile(file=path, count=1)(world, 0)
