"""FR3E: states by token ids, values, degenerate states, bounded refill, trees as rows (pitfalls T4, T5)."""

import random
from collections import Counter, defaultdict
from dataclasses import replace
from statistics import fmean

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.engines.protocol import Sampling
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.errors import InputError
from entropy_lab.tasks.countdown.task import Countdown
from entropy_lab.training.advantages.centred import Centred
from entropy_lab.training.anchors import anchors
from entropy_lab.training.batch import batch_of
from entropy_lab.training.exploration.fr3e import FR3E
from entropy_lab.training.piece import pieces_of
from entropy_lab.training.rewards.correctness import Correctness
from entropy_lab.training.rollout import rollouts_table
from entropy_lab.training.world import TrainingWorld
from tests.training.exploration.scripted_world import ScriptedWorld

SMALL = {"prompts": 4, "first_n": 2, "bases": 4, "anchors": 2, "continuations": 3, "target_groups": 12}


class SeenWorld(ScriptedWorld):
    """Completions of four tokens whose third is the least sure, then the second, then the end token."""

    def rollout(self, request, index, group):
        made = super().rollout(request, index, group)
        trajectory = replace(
            made.trajectory,
            token_ids=np.array([10 + index, 20 + index, 30 + index, 1], np.int32),
            logprobs=np.array([-9, -0.5, -0.1, -3], np.float32),
            entropy=np.array([9, 0.5, 2, 0.1], np.float32),
        )
        return replace(made, trajectory=trajectory, prefix_ids=request.prefix_ids)


def branches(explored):
    return [one for one in (*explored.rollouts, *explored.others) if one.state is not None]


def first_returns(explored):
    return [one for one in explored.others if one.state is None]


def sizes(rollouts):
    return Counter(one.group for one in rollouts)


def always(problem, sample):
    return True


def differing(problem, sample):
    """Within any two samples in a row one is right."""
    return sample % 2 == 0


def test_a_tree_of_one_base():
    """Two first returns, sample 0 right and 1 wrong; states at 0, 1 and 2 with samples counted on."""
    world = SeenWorld(differing)
    explored = FR3E(**{**SMALL, "prompts": 1, "bases": 1, "max_tries": 1})(world, 7)
    first, *states = world.asked
    assert (first.problem_id, first.stream, first.first_sample, first.count) == ("p7", "7 base", 0, 2)
    assert [one.prefix_ids for one in states] == [(), (10,), (10, 20)]  # ids of sample 0; the anchor is drawn again
    assert [(one.first_sample, one.count) for one in states] == [(2, 3), (5, 3), (8, 3)]
    assert [one.stream for one in states] == [f"7 base0 state{state}" for state in range(3)]
    assert sizes(explored.rollouts) == {f"p7/base0/state{state}": 3 for state in range(3)}
    assert sizes(explored.others) == {"p7/first try0": 2}
    assert {one.parent_index for one in explored.rollouts} == {0}
    assert [one.state.index for one in explored.rollouts] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert {one.state.values for one in explored.rollouts} == {(2 / 3, 1 / 3, 2 / 3)}
    assert explored.position == 8
    assert explored.metrics == {
        "exploration.tries": 1,
        "exploration.bases": 1,
        "exploration.degenerate_states": 0,
        "exploration.state_value": fmean((2 / 3, 1 / 3, 2 / 3)),
    }


def test_other_anchors_read_other_columns():
    world = SeenWorld(differing)
    FR3E(**{**SMALL, "prompts": 1, "bases": 1, "max_tries": 1, "anchors": 1, "anchor": "low-logprob"})(world, 0)
    assert [len(one.prefix_ids) for one in world.asked[1:]] == [0, 3]  # the end token, as a place to go on instead


def test_bases_are_the_first_right_and_the_first_wrong_in_the_order_of_problems():
    """p0 both ways, p1 always right, p2 never: five bases to be had, four taken; each with a tree of its own."""
    world = SeenWorld(lambda problem, sample: {0: sample in (1, 2), 1: True, 2: False}.get(problem, sample == 0))
    explored = FR3E(**{**SMALL, "first_n": 4, "max_tries": 1})(world, 0)
    trees = {one.state.tree for one in branches(explored)}
    assert trees == {"p0/base1", "p0/base0", "p1/base0", "p2/base0"}
    assert len(sizes(branches(explored))) == 4 * 3
    assert len(first_returns(explored)) == 4 * 4


def test_degenerate_states_do_not_train_but_keep_their_value():
    """State 1 (samples 5 to 7) is always right, the others differ."""
    world = SeenWorld(lambda problem, sample: 5 <= sample <= 7 or sample % 2 == 0)
    explored = FR3E(**{**SMALL, "prompts": 1, "bases": 1, "max_tries": 1})(world, 0)
    assert list(sizes(explored.rollouts)) == ["p0/base0/state0", "p0/base0/state2"]
    assert sizes(explored.others)["p0/base0/state1"] == 3
    assert {one.state.values for one in branches(explored)} == {(2 / 3, 1.0, 2 / 3)}
    assert explored.metrics["exploration.degenerate_states"] == 1 / 3


def test_batches_are_refilled_until_the_share_is_reached():
    """Each batch of 4 problems gives 2 bases that differ, with 3 states each: 6, then 12 ≥ .8 × 12 > 6."""
    world = SeenWorld(lambda problem, sample: problem % 2 == 0 and sample % 2 == 0)
    piece = FR3E(**{**SMALL, "first_n": 1})
    explored = piece(world, 8)
    assert explored.metrics["exploration.tries"] == 2
    assert explored.position == 16
    assert len(sizes(explored.rollouts)) == 12
    assert explored.notes == ()
    assert explored.metrics["exploration.bases"] == 8
    assert explored.metrics["exploration.degenerate_states"] == 0.5


@pytest.mark.parametrize(("right", "kept"), [(lambda p, s: p == 5 and s % 2 == 0, 3), (always, 0)])
def test_tries_are_bounded_and_the_partial_batch_is_told(right, kept):
    world = SeenWorld(right)
    explored = FR3E(**{**SMALL, "first_n": 1})(world, 0)
    assert explored.metrics["exploration.tries"] == 3
    assert explored.position == 12
    assert len(sizes(explored.rollouts)) == kept
    (note,) = explored.notes
    assert f"Only {kept} of the 10 states wanted (0.8 of target_groups = 12)" in note
    assert f"after 3 tries ({36 - kept} of 36 states do not)" in note
    assert ("nothing trains" in note) == (kept == 0)
    assert "exploration.max_tries" in note


def test_states_beyond_the_target_do_not_train():
    explored = FR3E(**{**SMALL, "target_groups": 5, "min_share": 0.2})(SeenWorld(differing), 0)
    assert len(sizes(explored.rollouts)) == 5
    assert len(sizes(branches(explored))) == 12
    assert explored.metrics["exploration.degenerate_states"] == 0


def test_the_order_in_which_rows_come_back_changes_nothing():
    """T4: bases, groups, values and rows are told by ids."""

    def shuffled(rollouts):
        return random.Random(3).sample(rollouts, len(rollouts))

    piece = FR3E(**{**SMALL, "first_n": 4})
    straight, other = (piece(SeenWorld(differing, shuffle=shuffle), 0) for shuffle in (None, shuffled))
    keys = [
        [(one.group, one.trajectory.problem_id, one.sample_index, one.parent_index, one.state) for one in explored]
        for explored in (straight.rollouts, other.rollouts)
    ]
    assert keys[0] == keys[1]
    assert straight.metrics == other.metrics


def test_a_problem_that_comes_again_shares_neither_groups_nor_draws():
    """T4: two problems, refilled from the same two."""
    explored = FR3E(**{**SMALL, "first_n": 1})(SeenWorld(always, size=2), 0)
    rows = [*explored.rollouts, *explored.others]
    assert explored.metrics["exploration.bases"] == 6
    assert len({(one.trajectory.problem_id, one.sample_index) for one in rows}) == len(rows) == 6 + 6 * 9
    assert len({one.trajectory.seed for one in rows}) == len(rows)
    assert set(sizes(branches(explored)).values()) == {3}
    assert set(sizes(first_returns(explored)).values()) == {1}


def test_what_could_not_be_graded_counts_nowhere():
    """A state without any grade has no value, one with a single grade cannot differ."""
    right = {2: True, 3: None, 4: None, 5: None, 6: None, 7: None, 8: True, 9: False, 10: None}
    world = SeenWorld(lambda problem, sample: right.get(sample, True))
    explored = FR3E(**{**SMALL, "prompts": 1, "bases": 1, "max_tries": 1})(world, 0)
    assert list(sizes(explored.rollouts).items()) == [("p0/base0/state2", 2)]
    value_0, value_1, value_2 = explored.rollouts[0].state.values
    assert (value_0, value_2) == (1.0, 0.5)
    assert np.isnan(value_1)
    assert explored.metrics["exploration.state_value"] == 0.75
    assert explored.metrics["exploration.degenerate_states"] == 2 / 3


def test_an_engine_without_entropies_is_named():
    with pytest.raises(InputError, match=r'set exploration\.anchor = "low-logprob"'):
        FR3E(**SMALL)(ScriptedWorld(differing), 0)


def test_a_state_needs_two_continuations():
    with pytest.raises(ValidationError, match="continuations"):
        FR3E(continuations=1)
    assert pieces_of("exploration")["fr3e"] is FR3E


@pytest.fixture(scope="module")
def ladder():
    """The real policy, task, grader and reward; its engine counts tokens."""
    checkpoint = load_checkpoint("builtin:sft", device="cpu")
    task = Countdown.embedded("countdown-train")
    return TrainingWorld(
        checkpoint,
        TransformersEngine(checkpoint),
        task,
        task.problems()[:100],
        Sampling(max_new_tokens=40),
        [Correctness()],
        "auto",
        seed=0,
    )


PIECE = FR3E(prompts=8, bases=6, target_groups=16, max_tries=2)


@pytest.fixture(scope="module")
def explored(ladder):
    ladder.begin(5)
    return PIECE(ladder, 0)


def test_states_continue_the_ids_of_their_base(ladder, explored):
    """Anchors are the highest entropies; prefixes are the base's ids up to them, never re-encoded text."""
    assert len(branches(explored)) > 50
    first = {(one.trajectory.problem_id, one.sample_index): one for one in first_returns(explored)}
    trees = defaultdict(dict)
    for branch in branches(explored):
        base = first[branch.trajectory.problem_id, branch.parent_index]
        start = len(branch.prefix_ids)
        assert branch.prefix_ids == tuple(base.trajectory.token_ids[:start].tolist())
        assert branch.trajectory.prompt_ids == base.trajectory.prompt_ids
        assert branch.state.tree == f"{base.trajectory.problem_id}/base{base.sample_index}"
        trees[branch.state.tree][branch.state.index] = start
        assert branch.text.startswith(ladder.checkpoint.tokenizer.decode(branch.prefix_ids))
        positions = trees[branch.state.tree]
        entropy_T = base.trajectory.entropy
        highest = np.sort(np.lexsort((np.arange(1, len(entropy_T)), -entropy_T[1:]))[:3] + 1)
        assert (0, *highest)[branch.state.index] == positions[branch.state.index]
        assert (0, *anchors("entropy", 3, entropy_T, None))[branch.state.index] == start
    assert {tuple(sorted(tree)) for tree in trees.values()} == {(0, 1, 2, 3)}


def test_values_are_the_mean_rewards_of_states_by_brute_force(explored):
    rewards = defaultdict(list)
    for branch in branches(explored):
        rewards[branch.state.tree, branch.state.index].append(branch.reward)
    for branch in branches(explored):
        for state, value in enumerate(branch.state.values):
            assert value == pytest.approx(np.mean(rewards[branch.state.tree, state]))
    trained = {(one.state.tree, one.state.index) for one in explored.rollouts}
    differ = {key for key, found in rewards.items() if len(set(found)) > 1}
    assert trained <= differ
    assert len(trained) == min(len(differ), PIECE.target_groups)


def test_trees_can_be_read_back_from_the_table(explored):
    """Parent, branch position and value of a state are columns; parents are rows of the same table."""
    rows = rollouts_table([*explored.rollouts, *explored.others], "policy").table.to_pylist()
    by_id = {f"{row['problem_id']} {row['sample_index']}": row for row in rows}
    assert len(by_id) == len(rows)
    children = [row for row in rows if row["parent_id"] is not None]
    assert len(children) == len(branches(explored))
    values = defaultdict(list)
    for row in children:
        parent = by_id[row["parent_id"]]
        assert parent["parent_id"] is None
        start = row["branch_position"]
        assert row["prompt_ids"] == parent["prompt_ids"] + parent["token_ids"][:start]
        values[row["parent_id"], start].append((row["reward"], row["state_value"]))
    for found in values.values():
        reward, value = np.array(found).T
        assert value == pytest.approx(reward.mean())


def test_every_group_that_trains_has_an_advantage(explored):
    """Centred rewards are nowhere all 0, and the batch knows the rows' places in their trees."""
    tokens = batch_of(explored.rollouts, torch.device("cpu")).tokens
    advantage_N = Centred()(tokens, torch.zeros(int(tokens.length_R.sum())))
    moved = set(tokens.spread(tokens.group_R)[advantage_N != 0].tolist())
    assert moved == set(tokens.group_R.tolist())
    assert tokens.trees.value_TS.shape == (len({one.state.tree for one in explored.rollouts}), 4)


def test_a_seed_and_an_iteration_repeat_themselves(ladder, explored):
    ladder.begin(5)
    again = PIECE(ladder, 0)
    ladder.begin(6)
    later = PIECE(ladder, 0)

    def drawn(found):
        return [(one.group, one.sample_index, one.text) for one in (*found.rollouts, *found.others)]

    assert drawn(again) == drawn(explored)
    assert drawn(later) != drawn(explored)
    assert again.position == explored.position == 8 * explored.metrics["exploration.tries"]


@pytest.mark.parametrize(("longest", "alone_costs"), [(40, 1.1), (6, 1.25)])
def test_branches_cost_what_a_tree_with_shared_prefixes_costs(ladder, monkeypatch, longest, alone_costs):
    """Prompt once, each base's longest prefix once, each continuation's tokens once: at most 1.15 × that.

    Where completions are short, states that shared nothing but their rows would cost more than that.
    """
    ladder.begin(9)
    costs = []
    sample = ladder.sample

    def counted(requests, groups):
        before = ladder.engine.forward_tokens
        found = sample(requests, groups)
        costs.append(ladder.engine.forward_tokens - before)
        return found

    monkeypatch.setattr(ladder, "sample", counted)
    monkeypatch.setattr(ladder, "sampling", Sampling(max_new_tokens=longest))
    explored = FR3E(max_tries=1)(ladder, 0)
    prompts, prefixes, alone, own = {}, defaultdict(int), {}, 0
    for one in branches(explored):
        prompts[one.trajectory.problem_id] = len(one.trajectory.prompt_ids)
        prefixes[one.state.tree] = max(prefixes[one.state.tree], len(one.prefix_ids))
        alone[one.trajectory.prompt_ids + one.prefix_ids] = len(one.trajectory.prompt_ids) + len(one.prefix_ids)
        own += len(one.trajectory.token_ids) - 1  # the last token is drawn and never fed
    needed = sum(prompts.values()) + sum(prefixes.values()) + own
    assert len(prefixes) == 10
    assert costs[1] <= 1.15 * needed
    assert sum(alone.values()) + own > alone_costs * needed
