"""Pairs from the policy and from a file: which row is preferred, and what gives no pair."""

import json
from itertools import islice

import pytest

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.prompts import encode_prompt
from entropy_lab.training.exploration.pairs import Pairs
from entropy_lab.training.exploration.preference_file import PreferenceFile
from entropy_lab.training.written import shuffled
from tests.training.exploration.scripted_world import ScriptedWorld


@pytest.fixture
def world():
    made = ScriptedWorld(None)
    made.checkpoint = load_checkpoint("builtin:sft", device="cpu")
    return made


def test_the_first_right_and_the_first_wrong_make_a_pair():
    """Problem 0: w r w r; 1: all wrong; 2: all right; 3: r w r w."""
    world = ScriptedWorld(lambda problem, sample: [sample % 2 == 1, False, True, sample % 2 == 0][problem])
    explored = Pairs(prompts=4, samples=4)(world, 0)
    rows = [(one.trajectory.problem_id, one.sample_index, one.reward) for one in explored.rollouts]
    assert rows == [("p0", 1, 1.0), ("p0", 0, 0.0), ("p3", 0, 1.0), ("p3", 1, 0.0)]
    assert explored.rollouts[0].group == explored.rollouts[1].group != explored.rollouts[2].group
    assert len(explored.others) == 12
    assert explored.position == 4
    assert explored.metrics == {"exploration.unpaired": 2}
    assert explored.notes == ()


def test_no_pair_at_all_is_told():
    explored = Pairs(prompts=3, samples=2)(ScriptedWorld(lambda problem, sample: False), 0)
    assert explored.rollouts == ()
    assert "None of 3 problems" in explored.notes[0]


def test_a_pair_whose_rewards_say_the_opposite_is_left_out():
    """A length penalty may put a right answer below a wrong one; it must not be taught as the worse of the two."""
    world = ScriptedWorld(lambda problem, sample: sample == 0, reward=lambda one: -1.0 if one.sample_index == 0 else 0)
    explored = Pairs(prompts=2, samples=2)(world, 0)
    assert explored.rollouts == ()
    assert len(explored.others) == 4


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_pairs_of_a_file_have_rewards_and_an_end_token(world, tmp_path):
    problem = "Numbers: 3 5 7\nTarget: 22\n"
    messages = [{"role": "system", "content": "Count."}, {"role": "user", "content": problem}]
    rows = [
        {"prompt": problem, "chosen": "3*5=15,15+7=22", "rejected": "3+5=8"},
        {"prompt": messages, "chosen": "5*3=15,15+7=22", "rejected": "7+5=12,12+3=15"},
    ]
    explored = PreferenceFile(file=write(tmp_path / "pairs.jsonl", rows), per_iteration=2)(world, 0)
    assert [one.reward for one in explored.rollouts] == [1.0, 0.0, 1.0, 0.0]
    assert [one.grade.code for one in explored.rollouts] == ["chosen", "rejected"] * 2
    groups = [one.group for one in explored.rollouts]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert {one.trajectory.problem_id for one in explored.rollouts} == {"pairs.jsonl:1", "pairs.jsonl:2"}
    assert explored.position == 2
    encoded = encode_prompt(world.checkpoint, [{"role": "user", "content": problem}])
    for one in explored.rollouts:
        assert one.trajectory.prompt_ids == encoded
        assert world.checkpoint.tokenizer.decode(one.trajectory.token_ids) == one.text + "<end>"
        assert one.trajectory.logprobs is None
        assert one.grade.correct is None
    world.sample = None  # a file is never sampled from
    assert PreferenceFile.asks_policy is False


def test_an_epoch_takes_every_row_once_and_each_in_its_own_order():
    """The endless order continues from any position, and wraps."""
    whole = list(islice(shuffled(10, 3, 0), 35))
    assert [sorted(whole[start : start + 10]) for start in (0, 10, 20)] == [list(range(10))] * 3
    assert whole[:10] != whole[10:20]
    assert list(islice(shuffled(10, 3, 13), 22)) == whole[13:]
    assert list(islice(shuffled(10, 4, 0), 10)) != whole[:10]


def test_a_small_file_comes_round_within_one_iteration(world, tmp_path):
    path = write(tmp_path / "one.jsonl", [{"prompt": "Target: 3\n", "chosen": "1+2=3", "rejected": "1-2=1"}])
    explored = PreferenceFile(file=path, per_iteration=3)(world, 0)
    assert len({one.group for one in explored.rollouts}) == 3
    assert len({one.sample_index for one in explored.rollouts}) == 6


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"chosen": "a", "rejected": "b"}, "has no `prompt` (or `messages`); fields found: chosen, rejected"),
        ({"prompt": 3, "chosen": "a", "rejected": "b"}, "`prompt` holds 3"),
        ({"prompt": [], "chosen": "a", "rejected": "b"}, "`prompt` holds []"),
        ({"prompt": " ", "chosen": "a", "rejected": "b"}, "`prompt` holds ' '"),
        ({"messages": "text", "chosen": "a", "rejected": "b"}, "`messages` holds 'text'"),
        ({"prompt": [{"role": "user"}], "chosen": "a", "rejected": "b"}, "`prompt.content` holds None"),
        ({"prompt": "Q", "chosen": "a"}, "`rejected` holds None"),
        ({"prompt": "Q", "chosen": "", "rejected": "b"}, "`chosen` holds ''"),
        ({"prompt": "Q", "chosen": "a", "rejected": "\ud800"}, "`rejected` holds half of a surrogate pair"),
    ],
)
def test_wrong_rows_are_named_with_line_and_field(world, tmp_path, row, words):
    path = write(tmp_path / "pairs.jsonl", [{"prompt": "Q", "chosen": "a", "rejected": "b"}, row])
    with pytest.raises(InputError) as caught:
        PreferenceFile(file=path)(world, 0)
    assert "pairs.jsonl:2: " in str(caught.value)
    assert words in str(caught.value)


def test_files_without_rows_are_named(world, tmp_path):
    with pytest.raises(InputError, match=r"no\.jsonl: no such file"):
        PreferenceFile(file=str(tmp_path / "no.jsonl"))(world, 0)
    with pytest.raises(InputError, match="holds no rows; each needs `prompt`, `chosen`, `rejected`"):
        PreferenceFile(file=write(tmp_path / "empty.jsonl", []))(world, 0)
