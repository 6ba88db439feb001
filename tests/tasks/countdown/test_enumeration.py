import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab.tasks.countdown.answers import grade_answer
from entropy_lab.tasks.countdown.enumeration import canonical_menu, everything, solutions, steps_menu, written_menu
from entropy_lab.tasks.countdown.expressions import canonical, form_text, leaves, value_of
from entropy_lab.tasks.countdown.rules import Rules
from entropy_lab.tasks.countdown.steps import random_steps
from tests.oracles.countdown import all_solutions, first_step_families, leftmost_family, pair_combining

DATA = Path(__file__).parents[2] / "data" / "countdown"
LADDER = Rules(integers_only=True, minimum=0, max_value=225)


def rows(name):
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", rows("enumeration.jsonl"), ids=str)
def test_counts_and_written_menus(case):
    forms = solutions(case["nums"], case["target"])
    assert len(forms) == case["canonical"]
    assert sorted(written_menu(forms)) == sorted(case["written_families"])


@pytest.mark.parametrize("case", rows("steps_menu.jsonl"), ids=str)
def test_steps_menus(case):
    integers = Rules(integers_only=True)
    assert sorted(steps_menu(solutions(case["nums"], case["target"]))) == case["steps_families"]
    forms = solutions(case["nums"], case["target"], integers)
    assert sorted(steps_menu(forms, integers)) == case["steps_families_integers"]


def test_a_canonical_menu_is_not_the_menu_of_written_answers():
    forms = solutions([3, 5], 8)
    assert canonical_menu(forms) == {"3+"}
    assert written_menu(forms) == {"3+", "5+"}


@pytest.mark.parametrize(("nums", "count"), [((7,), 1), ((7, 11), 6), ((7, 11, 101), 104), ((7, 11, 101, 1009), 3012)])
def test_number_of_canonical_forms_over_distinct_numbers(nums, count):
    assert sum(len(forms) for forms in everything(nums).values()) == count


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=4),
    st.integers(0, 30),
    st.sampled_from([Rules(), Rules(integers_only=True), LADDER, Rules(max_value=20), Rules(minimum=1)]),
)
def test_solutions_and_menus_equal_brute_force(nums, target, rules):
    trees = all_solutions(nums, target, rules)
    forms = solutions(nums, target, rules)
    assert set(forms) == {canonical(tree) for tree in trees}
    compound = [tree for tree in trees if not isinstance(tree, int)]
    assert written_menu(forms) == {leftmost_family(tree) for tree in compound}
    assert steps_menu(forms, rules) == set().union(*(first_step_families(tree) for tree in compound))


@pytest.mark.parametrize(
    ("nums", "target", "rules"),
    [
        ((1, 2, 3, 4, 5), 10, Rules()),
        ((0, 1, 1, 2, 3), 0, Rules()),
        ((0, 0, 2, 4, 4), 2, Rules()),
        ((3, 3, 8, 8, 10), 34, Rules()),
        ((1, 5, 6, 7, 75), 24, Rules(minimum=-3, max_value=80)),
        ((2, 2, 3, 9, 15), 24, LADDER),
        ((0, 4, 6, 7, 9), 5, Rules(integers_only=True)),
    ],
    ids=str,
)
def test_five_numbers_equal_pair_combining(nums, target, rules):
    assert set(solutions(nums, target, rules)) == pair_combining(nums, target, rules)


@settings(max_examples=25, deadline=None)
@given(st.data(), st.sampled_from([Rules(), Rules(integers_only=True), LADDER, Rules(minimum=-3, max_value=80)]))
def test_random_problems_equal_pair_combining(data, rules):
    nums = data.draw(st.lists(st.sampled_from([0, 1, 1, 2, 3, 4, 5, 7, 10, 25, 75]), min_size=3, max_size=5))
    target = data.draw(st.one_of(st.integers(0, 30), st.integers(31, 400)))
    assert set(solutions(nums, target, rules)) == pair_combining(nums, target, rules)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 10), min_size=3, max_size=4), st.integers(0, 60), st.sampled_from(["all", "any"]))
def test_pair_combining_over_subsets_is_leaving_numbers_out(nums, target, use):
    sizes = range(1, len(nums) + 1) if use == "any" else [len(nums)]
    subsets = {subset for size in sizes for subset in combinations(sorted(nums), size)}
    expected = set().union(*(pair_combining(subset, target) for subset in subsets))
    assert set(solutions(nums, target, Rules(use=use))) == expected


def test_the_worst_case_tried_of_six_numbers():
    forms = solutions([1, 2, 3, 4, 5, 6], 10)
    assert len(forms) == len(set(forms)) == 44_070
    assert all(value_of(form) == 10 and sorted(leaves(form)) == [1, 2, 3, 4, 5, 6] for form in forms)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nums", "target"), [((1, 2, 3, 4, 5, 6), 10), ((0, 2, 3, 25, 50, 50), 100), ((3, 7, 8, 10, 25, 75), 765)], ids=str
)
def test_six_numbers_equal_pair_combining(nums, target):
    assert set(solutions(nums, target)) == pair_combining(nums, target)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 10), min_size=3, max_size=4),
    st.integers(0, 30),
    st.sampled_from([Rules(use="any"), Rules(use="any", integers_only=True, minimum=1, max_value=50)]),
)
def test_solutions_that_leave_numbers_out_equal_brute_force(nums, target, rules):
    subsets = {subset for size in range(1, len(nums) + 1) for subset in combinations(sorted(nums), size)}
    trees = set().union(*(all_solutions(subset, target, rules) for subset in subsets))
    assert set(solutions(nums, target, rules)) == {canonical(tree) for tree in trees}


def test_leaving_numbers_out():
    forms = solutions([1, 3, 7, 10], 21, Rules(use="any"))
    assert "3*7" in map(form_text, forms)
    assert all(value_of(form) == 21 and len(leaves(form)) <= 4 for form in forms)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 15), min_size=2, max_size=4), st.integers(1, 60), st.integers(0, 2**32))
def test_random_steps_are_correct_answers_and_all_first_steps_occur(nums, target, seed):
    forms = solutions(nums, target, LADDER)
    generator = np.random.default_rng(seed)
    menu = steps_menu(forms, LADDER)
    for form in forms[:3]:
        verdict = grade_answer(nums, target, random_steps(form, generator, LADDER), "steps", LADDER)
        assert verdict.correct
        # A result equal to a given number is read as the most recent one, so another form may be read back.
        assert canonical(verdict.tree) in forms
        assert verdict.family in menu
