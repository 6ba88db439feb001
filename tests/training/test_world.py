"""The world of an iteration: the order of problems, streams of its own, grades counted apart, rewards checked."""

from dataclasses import dataclass, field
from typing import ClassVar

import pytest

from entropy_lab import Sampling, load_checkpoint, open_engine
from entropy_lab.errors import InputError
from entropy_lab.progress import Silent
from entropy_lab.tasks.grading import GraderFailure
from entropy_lab.tasks.protocol import Grade, Problem
from entropy_lab.training.rewards import Reward
from entropy_lab.training.rewards.correctness import Correctness
from entropy_lab.training.world import TrainingWorld


@dataclass
class Asked:
    """A task whose grader can be told what to say."""

    count: int = 10
    say: dict[str, bool | None] = field(default_factory=dict)
    name: str = "asked"

    def problems(self):
        return [Problem(f"p{index}", f"Numbers: {index + 1} 2 3\nTarget: 6") for index in range(self.count)]

    def messages(self, problem):
        return [{"role": "user", "content": f"{problem.question}\n"}]

    def grade(self, problem, text):
        if problem.id in self.say and self.say[problem.id] is None:
            raise TimeoutError
        return Grade(self.say.get(problem.id, True), "said")


class Broken(Reward):
    piece: ClassVar[str] = "broken"

    def __call__(self, rollouts):
        return [float("nan")] * len(rollouts)


@pytest.fixture(scope="module")
def checkpoint():
    return load_checkpoint("builtin:sft-early", device="cpu")


RIGHT = (Correctness(),)


def world(checkpoint, task, rewards=RIGHT, seed=0):
    engine = open_engine("auto", checkpoint, None, Silent())
    return TrainingWorld(
        checkpoint, engine, task, task.problems(), Sampling(max_new_tokens=8, seed=seed), rewards, "auto", seed
    )


def test_every_epoch_has_every_problem_in_an_order_of_its_own(checkpoint):
    made = world(checkpoint, Asked())
    epochs = [[one.id for one in made.problems_at(10 * epoch, 10)] for epoch in range(3)]
    assert all(sorted(epoch) == sorted(epochs[0]) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert [one.id for one in made.problems_at(3, 4)] == epochs[0][3:7]


@pytest.mark.parametrize("position", range(0, 30, 3))
def test_no_problem_comes_twice_where_epochs_meet(checkpoint, position):
    names = [one.id for one in world(checkpoint, Asked()).problems_at(position, 7)]
    assert len(set(names)) == 7


def test_another_seed_is_another_order(checkpoint):
    orders = [[one.id for one in world(checkpoint, Asked(), seed=seed).problems_at(0, 10)] for seed in (0, 1)]
    assert orders[0] != orders[1]


def test_iterations_draw_from_streams_of_their_own_and_repeat_themselves(checkpoint):
    made = world(checkpoint, Asked())
    problem = made.problems_at(0, 1)[0]

    def draws(iteration, stream):
        made.begin(iteration)
        sampled = made.sample([made.request(problem, 3, stream=stream)], ["g"])
        return [one.trajectory.seed for one in sampled], [one.trajectory.token_ids.tolist() for one in sampled]

    assert draws(1, "a") == draws(1, "a")
    seeds = [seed for key in ((1, "a"), (2, "a"), (1, "b"), (12, "")) for seed in draws(*key)[0]]
    assert len(set(seeds)) == len(seeds)


def test_rollouts_stand_in_the_order_of_requests(checkpoint):
    made = world(checkpoint, Asked())
    problems = made.problems_at(0, 4)
    requests = [made.request(one, 3, first_sample=5) for one in problems]
    found = made.sample(requests, [f"group {one.id}" for one in problems])
    assert [(one.trajectory.problem_id, one.sample_index) for one in found] == [
        (one.id, index) for one in problems for index in (5, 6, 7)
    ]
    assert [one.group for one in found] == [f"group {one.id}" for one in problems for _ in range(3)]
    assert made.sampled_tokens == sum(len(one.trajectory.token_ids) for one in found)


def test_a_prefix_is_part_of_the_text_that_is_graded(checkpoint):
    made = world(checkpoint, Asked())
    given = tuple(checkpoint.tokenizer.encode("1+2=3,", add_special_tokens=False))
    (found,) = made.sample([made.request(made.problems_at(0, 1)[0], 1, prefix_ids=given)], ["g"])
    assert found.text.startswith("1+2=3,")
    assert found.prefix_ids == given


def test_ungraded_rollouts_are_no_wrong_answers(checkpoint):
    made = world(checkpoint, Asked(40, {"p3": None}))
    problems = made.problems_at(0, 40)
    found = made.sample([made.request(one, 1) for one in problems], [one.id for one in problems])
    assert len(found) == 39
    assert {one.reward for one in found} == {1.0}
    assert sum(grade.correct is None for grade in made.grades) == 1


def test_a_grader_that_fails_often_ends_the_run(checkpoint):
    made = world(checkpoint, Asked(40, {f"p{index}": None for index in range(20)}))
    problems = made.problems_at(0, 40)
    with pytest.raises(GraderFailure, match="TimeoutError"):
        made.sample([made.request(one, 1) for one in problems], [one.id for one in problems])


def test_rewards_are_weighted_channels(checkpoint):
    made = world(checkpoint, Asked(4, {"p0": False}), (Correctness(), Correctness(weight=0.5)))
    problems = made.problems_at(0, 4)
    found = made.sample([made.request(one, 1) for one in problems], [one.id for one in problems])
    for one in found:
        right = float(one.trajectory.problem_id != "p0")
        assert (one.rewards, one.reward) == ((right, right), 1.5 * right)


def test_a_reward_that_is_no_number_is_named(checkpoint):
    made = world(checkpoint, Asked(), (Broken(),))
    with pytest.raises(InputError, match="Reward 'broken' gave nan"):
        made.sample([made.request(made.problems_at(0, 1)[0], 1)], ["g"])
