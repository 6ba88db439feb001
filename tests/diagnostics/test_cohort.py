"""The problems solved by all arms, against picking them by hand, and the numbers within them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.cohort import solved_by_all, with_cohort
from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.comparison import compare
from entropy_lab.diagnostics.intervals import wilson
from entropy_lab.diagnostics.summary import summarise

NAN = float("nan")


def summary(name, verdicts, breadth=None):
    """`verdicts` maps each problem to the verdicts of its samples."""
    problems = np.array([problem for problem, row in verdicts.items() for _ in row])
    correct = np.array([verdict for row in verdicts.values() for verdict in row], float)
    more = () if breadth is None else (Column("coverage.family", "share", np.array(breadth, float)),)
    return summarise(name, problems, None, correct_N=correct, lengths_N=np.ones(len(problems), int), ks=(1,), more=more)


def rows_of(one):
    return {metric.metric: metric for metric in one.metrics}


A = {"p": [1, 0], "q": [1, 1], "r": [0, 0], "s": [1, 0], "t": [1, 1], "u": [0, NAN]}
B = {"p": [0, 1], "q": [0, 0], "r": [0, 0], "s": [NAN, 1], "t": [1, 1], "u": [1, 1]}
SOLVABLE = {"p", "q", "r", "s", "u"}


def test_cohort_by_hand():
    """t has no enumerated solution and stands apart; in u a sample that could not be graded may be the right one."""
    cohort = solved_by_all([summary("a", A), summary("b", B)], SOLVABLE)
    assert cohort.members == {"p", "s"}
    assert (cohort.decided, cohort.undecided, cohort.apart, cohort.arms) == (4, 1, 1, 2)


def test_a_problem_unsolved_in_one_arm_is_decided_whatever_failed_in_another():
    cohort = solved_by_all([summary("a", {"p": [0, 0]}), summary("b", {"p": [NAN, 0]})], {"p"})
    assert (cohort.members, cohort.decided, cohort.undecided) == (frozenset(), 1, 0)


def test_numbers_over_the_cohort():
    arms = [summary("a", A, [0.5, 0.1, 0, 0.25, NAN, 0.9]), summary("b", B, [1, 0.1, 0, 0.75, NAN, 0.8])]
    cohort = solved_by_all(arms, SOLVABLE)
    first, second = (with_cohort(one, cohort) for one in arms)
    found = rows_of(first)
    size, share = found["cohort.size"], found["cohort.share"]
    low, high = wilson(2, 4)
    assert (size.value, size.unit, size.n) == (2, "problems", 4)
    assert (size.low, size.high) == (pytest.approx(4 * low), pytest.approx(4 * high))
    assert (share.value, share.low, share.high) == (0.5, pytest.approx(low), pytest.approx(high))
    assert "could not be graded" in size.note
    assert "1 without an enumerated solution" in size.note
    assert found["cohort.coverage.family"].value == (0.5 + 0.25) / 2
    assert found["cohort.coverage.family"].n == 2
    assert "4 of 6 problems left out: not solved in all 2 arms" in found["cohort.coverage.family"].note
    assert found["cohort.pass@1"].value == 0.5
    assert found["cohort.pass@1"].low is not None
    assert found["pass@1"] == rows_of(arms[0])["pass@1"], "what was there stays"
    difference = {row.metric: row for row in compare(second, first)}["difference.cohort.coverage.family"]
    assert difference.value == pytest.approx(((1 - 0.5) + (0.75 - 0.25)) / 2)
    assert difference.n == 2


def test_nobody_solved_by_all():
    arms = [summary("a", {"p": [1], "q": [0]}), summary("b", {"p": [0], "q": [1]})]
    found = rows_of(with_cohort(arms[0], solved_by_all(arms, {"p", "q"})))
    assert (found["cohort.size"].value, found["cohort.size"].n) == (0, 2)
    assert found["cohort.size"].high > 0
    assert found["cohort.pass@1"].value is None
    assert found["cohort.pass@1"].note
    nothing = rows_of(with_cohort(arms[0], solved_by_all(arms, set())))
    assert nothing["cohort.size"].value is None
    assert "2 without an enumerated solution" in nothing["cohort.size"].note


verdicts = st.lists(st.sampled_from([0.0, 1.0, NAN]), min_size=2, max_size=2)
arms_of_four = st.lists(st.lists(verdicts, min_size=4, max_size=4), min_size=1, max_size=3)


@given(arms_of_four, st.sets(st.sampled_from("pqrs")))
def test_members_are_those_that_every_arm_surely_solved(table, solvable):
    arms = [dict(zip("pqrs", arm, strict=True)) for arm in table]
    cohort = solved_by_all([summary(str(i), arm) for i, arm in enumerate(arms)], solvable)
    surely, perhaps = set(), set()
    for problem in solvable:
        if all(1 in arm[problem] for arm in arms):
            surely.add(problem)
        if all(1 in arm[problem] or np.isnan(arm[problem]).any() for arm in arms):
            perhaps.add(problem)
    assert cohort.members == surely
    assert cohort.undecided == len(perhaps - surely)
    assert cohort.decided + cohort.undecided + cohort.apart == 4
