import json
from itertools import tee
from math import comb, factorial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab.tasks.countdown.counting import function_count, ordered_count, residues
from entropy_lab.tasks.countdown.enumeration import everything, everything_by_value, solutions
from entropy_lab.tasks.countdown.expressions import canonical, parse
from entropy_lab.tasks.countdown.rules import Rules
from tests.oracles.countdown import all_solutions

DATA = Path(__file__).parents[2] / "data" / "countdown"
SYMBOLS = (7, 101, 10_007, 1_000_003, 100_000_007, 10_000_000_019)
"""Numbers so far apart that different functions of them have different values."""
RULES = [
    *(Rules(), Rules(integers_only=True), Rules(integers_only=True, minimum=0, max_value=225), Rules(max_value=20)),
    *(Rules(minimum=1), Rules(minimum=-6, max_value=12)),
]


def ordered_trees(n):
    """n! · Catalan(n − 1) · 4^(n − 1)"""
    return factorial(n) * comb(2 * n - 2, n - 1) // n * 4 ** (n - 1)


@pytest.mark.parametrize(
    "case", [json.loads(line) for line in (DATA / "enumeration.jsonl").read_text("utf-8").splitlines()], ids=str
)
def test_functions_of_the_solutions(case):
    assert function_count(solutions(case["nums"], case["target"])) == case["function"]


@pytest.mark.parametrize(
    ("n", "canonical_forms", "functions"), [(1, 1, 1), (2, 6, 6), (3, 104, 68), (4, 3012, 1170), (5, 122152, 27142)]
)
def test_counts_of_everything_over_distinct_numbers(n, canonical_forms, functions):
    by_value = everything(SYMBOLS[:n])
    forms = [form for value in by_value for form in by_value[value]]
    assert len(set(forms)) == len(forms) == canonical_forms
    assert function_count(forms) == len(by_value) == functions
    assert ordered_count(forms) == ordered_trees(n)


@pytest.mark.slow
def test_counts_of_everything_over_six_distinct_numbers():
    forms = (form for _, forms in everything_by_value(SYMBOLS) for form in forms)
    seen, functions, ordered = 0, set(), 0
    first, second = tee(forms)  # read in step, so that the 6.4 million trees never stand in memory together

    def counted():
        nonlocal seen
        for form, residue in zip(first, residues(second, seed=0), strict=True):
            seen += 1
            functions.add(residue)
            yield form

    ordered = ordered_count(counted())
    assert (seen, len(functions), ordered) == (6_369_792, 793_002, ordered_trees(6))


def test_the_television_game_has_780_ways_to_write_its_solutions():
    rules = Rules(use="any", integers_only=True, minimum=1)
    assert ordered_count(solutions([1, 3, 7, 10, 25, 50], 765, rules), rules) == 780


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=4), st.integers(-5, 30), st.sampled_from(RULES))
def test_ordered_trees_equal_brute_force(nums, target, rules):
    assert ordered_count(solutions(nums, target, rules), rules) == len(all_solutions(nums, target, rules))


@pytest.mark.parametrize(
    ("texts", "functions"),
    [
        (["(8-3)*2", "(8*2)-(3*2)", "2*(8-3)"], 1),
        (["5/5", "5-(5-5)", "5-5"], 3),  # as functions of x: 1, x and 0
        (["4+(4/4)", "(4/4)+4", "(4*4+4)/4"], 1),
        (["3*1", "3/1"], 2),
        ([], 0),
    ],
)
def test_functions_are_told_apart_by_symbols_not_by_values(texts, functions):
    assert function_count([canonical(parse(text)) for text in texts]) == functions


def test_a_form_without_a_value_has_no_function():
    with pytest.raises(ValueError, match="divides by zero"):
        function_count([parse("3/(5-5)")])
