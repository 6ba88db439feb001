"""Group baselines against their definitions, written out row by row."""

import statistics
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from packed_rows import rows_of, zeros

from entropy_lab.training.advantages import AdvantageStep
from entropy_lab.training.advantages.centred import Centred
from entropy_lab.training.advantages.group_z import GroupZ
from entropy_lab.training.advantages.leave_one_out import LeaveOneOut


def _z(reward: float, others: list[float]) -> float:
    members = [reward, *others]
    deviation = statistics.stdev(members) if others else 0.0
    return (reward - statistics.fmean(members)) / (deviation + 1e-4)


BASELINES: list[tuple[AdvantageStep, Callable[[float, list[float]], float]]] = [
    (Centred(), lambda reward, others: reward - statistics.fmean([reward, *others])),
    (GroupZ(), _z),
    (LeaveOneOut(), lambda reward, others: reward - statistics.fmean(others) if others else 0.0),
]
STEPS = [step for step, _ in BASELINES]
NAMES = [step.piece for step in STEPS]
each_baseline = pytest.mark.parametrize("step", STEPS, ids=NAMES)

rewards = st.integers(-8, 8).map(lambda quarters: quarters / 4)
batches = st.lists(st.tuples(rewards, st.integers(0, 3), st.integers(1, 3)), min_size=1, max_size=14)


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (LeaveOneOut(), [1, -1 / 3, -1 / 3, -1 / 3]),
        (Centred(), [0.75, -0.25, -0.25, -0.25]),
        (GroupZ(), [1.4997, -0.4999, -0.4999, -0.4999]),
    ],
    ids=["leave-one-out", "centred", "group-z"],
)
def test_one_right_of_four(step: AdvantageStep, expected: list[float]) -> None:
    tokens = rows_of([1, 0, 0, 0], lengths=[2, 1, 3, 1])
    spread = torch.tensor([expected[row] for row in (0, 0, 1, 2, 2, 2, 3)], dtype=torch.float64)
    torch.testing.assert_close(step(tokens, zeros(tokens)), spread, rtol=0, atol=5e-5)


@pytest.mark.parametrize(("step", "definition"), BASELINES, ids=NAMES)
@given(batch=batches)
@settings(max_examples=60, deadline=None)
def test_equals_the_definition(
    step: AdvantageStep, definition: Callable[[float, list[float]], float], batch: list[tuple[float, int, int]]
) -> None:
    """Groups are rows with one id, wherever they stand."""
    tokens = rows_of(*map(list, zip(*batch, strict=True)))
    expected = [
        definition(reward, [other for at, (other, its, _) in enumerate(batch) if its == group and at != row])
        for row, (reward, group, length) in enumerate(batch)
        for _ in range(length)
    ]
    torch.testing.assert_close(
        step(tokens, zeros(tokens)), torch.tensor(expected, dtype=torch.float64), rtol=1e-9, atol=1e-9
    )


@each_baseline
@given(batch=batches, data=st.data())
@settings(max_examples=40, deadline=None)
def test_neither_order_nor_names_of_groups_matter(
    step: AdvantageStep, batch: list[tuple[float, int, int]], data: st.DataObject
) -> None:
    """T4: rows dealt out anew, with other ids, keep their advantages."""
    order = data.draw(st.permutations(range(len(batch))))
    names = data.draw(st.permutations([7, -3, 10**12, 0]))
    tokens = rows_of(*map(list, zip(*batch, strict=True)))
    dealt = [batch[row] for row in order]
    others = rows_of(
        [reward for reward, _, _ in dealt], [names[group] for _, group, _ in dealt], [length for *_, length in dealt]
    )
    before = step(tokens, zeros(tokens, torch.float32))[tokens.token_index(torch.tensor(order))]
    torch.testing.assert_close(step(others, zeros(others, torch.float32)), before, rtol=1e-6, atol=0)


@each_baseline
@given(batch=batches, shift=st.integers(-40, 40))
@settings(max_examples=40, deadline=None)
def test_adding_a_constant_to_all_rewards_changes_nothing(
    step: AdvantageStep, batch: list[tuple[float, int, int]], shift: int
) -> None:
    values, groups, lengths = map(list, zip(*batch, strict=True))
    tokens, moved = rows_of(values, groups, lengths), rows_of([value + shift for value in values], groups, lengths)
    torch.testing.assert_close(step(moved, zeros(moved)), step(tokens, zeros(tokens)), rtol=1e-9, atol=1e-9)


@each_baseline
@pytest.mark.parametrize("count", [2, 3, 7, 16])
@pytest.mark.parametrize("base", [0.1, -0.7, 3.3, 1000.1])
def test_rewards_that_differ_by_rounding_alone_give_exactly_zero(step: AdvantageStep, count: int, base: float) -> None:
    """A residue of 1e-8 divided by its own deviation would be an advantage of ±1, or of thousands."""
    value_R = torch.full((count,), base, dtype=torch.float32)
    value_R[0] = torch.nextafter(value_R[0], torch.tensor(torch.inf))
    tokens = rows_of([float(value) for value in value_R])
    assert (tokens.reward_R[0] > tokens.reward_R[1]).item()
    found = step(tokens, zeros(tokens, torch.float32))
    assert not found.any()


def test_a_small_epsilon_cannot_blow_a_residue_up() -> None:
    tokens = rows_of([0.1 + 0.2, 0.3, 0.3])
    assert not GroupZ(epsilon=1e-12)(tokens, zeros(tokens)).any()


@each_baseline
def test_small_differences_are_no_residue(step: AdvantageStep) -> None:
    tokens = rows_of([0.001, 0.0, 0.0, 0.0])
    found = step(tokens, zeros(tokens))
    assert found[0] > 0
    assert (found[1:] < 0).all()


@each_baseline
def test_flat_groups_do_not_flatten_others(step: AdvantageStep) -> None:
    tokens = rows_of([1, 1, 1, 0], [4, 4, 2, 2])
    found = step(tokens, zeros(tokens))
    assert found.tolist()[:2] == [0, 0]
    assert found[2] > 0 > found[3]


@each_baseline
@pytest.mark.parametrize("groups", [[5], [5, 6, 9], []], ids=["one", "three-alone", "none"])
def test_a_row_alone_gives_zero_and_no_rows_give_none(step: AdvantageStep, groups: list[int]) -> None:
    tokens = rows_of([0.7] * len(groups), groups)
    found = step(tokens, zeros(tokens))
    assert found.tolist() == [0] * len(groups)


@each_baseline
def test_the_result_is_a_baseline_of_its_own(step: AdvantageStep) -> None:
    """What is given only tells the type; nothing given is changed."""
    tokens = rows_of([1, 0], lengths=[2, 1])
    given_N = torch.tensor([3.0, -4.0, 5.0])
    found = step(tokens, given_N)
    assert torch.equal(found, step(tokens, zeros(tokens, torch.float32)))
    assert (found.dtype, found.requires_grad) == (torch.float32, False)
    assert given_N.tolist() == [3, -4, 5]
    assert step.needs == "rewards"
