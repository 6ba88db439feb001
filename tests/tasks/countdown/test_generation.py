import json
from collections import Counter
from fractions import Fraction

import pytest

from entropy_lab.errors import InputError
from entropy_lab.tasks.countdown.generation import Wishes, generate, write_problems
from entropy_lab.tasks.countdown.rules import Rules, problem_key
from entropy_lab.tasks.countdown.task import Countdown
from tests.oracles.countdown import all_solutions, first_step_families, leftmost_family

SMALL = {"smallest": 1, "largest": 12, "target_min": 1, "target_max": 40}


def keys(problems):
    return [problem_key(problem.nums, problem.target) for problem in problems]


def test_the_same_wishes_give_the_same_problems_and_another_seed_gives_others():
    wishes = Wishes(60, **SMALL, seed=5)
    assert generate(wishes) == generate(wishes)
    assert set(keys(generate(wishes))) != set(keys(generate(Wishes(60, **SMALL, seed=6))))


@pytest.mark.parametrize(
    ("form", "rules"), [("expression", Rules()), ("steps", Rules(integers_only=True, minimum=0, max_value=60))]
)
def test_every_problem_passes_the_filters_by_brute_force(form, rules):
    problems = generate(Wishes(40, (3,), **SMALL, min_families=3, solvable_share=0.75, form=form, rules=rules, seed=1))
    assert len(set(keys(problems))) == 40
    assert sum(problem.solvable for problem in problems) == 30
    for problem in problems:
        assert all(1 <= number <= 12 for number in problem.nums)
        assert 1 <= problem.target <= 40
        trees = all_solutions(problem.nums, problem.target, rules)
        assert bool(trees) == problem.solvable
        if trees and form == "expression":
            assert len({leftmost_family(tree) for tree in trees}) == problem.families >= 3
        elif trees:
            assert len(set().union(*map(first_step_families, trees))) == problem.families >= 3


def test_sizes_are_mixed_and_equal_numbers_in_another_order_are_the_same_problem():
    problems = generate(Wishes(100, (2, 3), smallest=1, largest=4, target_min=1, target_max=9, seed=2))
    assert set(Counter(len(problem.nums) for problem in problems)) == {2, 3}
    assert len({(problem.target, tuple(sorted(problem.nums))) for problem in problems}) == 100


def test_a_small_space_can_be_asked_for_whole():
    """Two numbers of 1 … 3, targets 1 … 9: every solvable problem is found, none is made up."""
    solvable = {
        problem_key((a, b), target)
        for a in range(1, 4)
        for b in range(1, a + 1)
        for target in range(1, 10)
        if Fraction(target) in {Fraction(v) for v in (a + b, a * b, a - b, b - a, Fraction(a, b), Fraction(b, a))}
    }
    wishes = {"numbers": (2,), "smallest": 1, "largest": 3, "target_min": 1, "target_max": 9}
    assert set(keys(generate(Wishes(len(solvable), **wishes)))) == solvable
    with pytest.raises(InputError, match=rf"Only {len(solvable)} of {len(solvable) + 1} problems were found"):
        generate(Wishes(len(solvable) + 1, **wishes))


def test_an_impossible_share_ends_with_what_was_found():
    """Of the nine problems with two numbers of 1 … 2 and targets 1 … 3, only 3<1,1 and 3<2,2 have no solution."""
    wishes = Wishes(8, (2,), 1, 2, 1, 3, solvable_share=0.5, rules=Rules("any"))
    with pytest.raises(InputError, match=r"Only 6 of 8 .*\(4 solvable, 2 not\).*Nothing was written"):
        generate(wishes)


def test_a_failed_write_leaves_nothing(tmp_path, monkeypatch):
    wishes = Wishes(5, (2,), 1, 5, 1, 9)
    problems = generate(wishes)
    path = tmp_path / "set.jsonl"
    path.write_text("before")

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("entropy_lab.files.os.fsync", broken)
    with pytest.raises(InputError, match="No space left"):
        write_problems(problems, wishes, path)
    assert [file.name for file in tmp_path.iterdir()] == ["set.jsonl"]
    assert path.read_text() == "before"


def test_both_file_formats_hold_the_same_problems(tmp_path):
    wishes = Wishes(20, **SMALL, form="steps", rules=Rules(minimum=0, max_value=99))
    problems = generate(wishes)
    for ending in ("jsonl", "parquet"):
        write_problems(problems, wishes, tmp_path / f"set.{ending}")
    lines, columns = (Countdown.from_file(tmp_path / f"set.{ending}") for ending in ("jsonl", "parquet"))
    assert lines == columns
    assert [tuple(one.data["nums"]) for one in lines.problems()] == [problem.nums for problem in problems]
    assert json.loads((tmp_path / "set.jsonl").read_text().splitlines()[0])["format"] == "steps"
