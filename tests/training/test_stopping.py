"""Stop rules: what is read, what is refused, and when a rule is looked at."""

import operator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.errors import InputError
from entropy_lab.training.stopping import StopRule, check

COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.sampled_from(["entropy.problem_mean", "evaluation.pass@1", "clip.high", "evaluation.gpass@4_0.5"]),
    st.sampled_from(list(COMPARE)),
    NUMBERS,
    st.tuples(*[st.sampled_from(["", " ", "\t ", "  "])] * 4),
)
def test_rules_are_read_with_any_spaces_and_written_back(metric, comparison, number, spaces):
    rule = StopRule.parse(f"{spaces[0]}{metric}{spaces[1]}{comparison}{spaces[2]}{number!r}{spaces[3]}")
    assert rule == StopRule(metric, comparison, number)
    assert StopRule.parse(str(rule)) == rule


@given(st.sampled_from(list(COMPARE)), NUMBERS, NUMBERS)
def test_a_rule_fires_exactly_when_its_comparison_holds(comparison, value, number):
    rule = StopRule("entropy.token_mean", comparison, number)
    expected = rule if COMPARE[comparison](value, number) else None
    assert check([rule], {"entropy.token_mean": value, "loss": 0.0}) == expected


@pytest.mark.parametrize(
    "text",
    ["", "entropy", "entropy<", "<0.05", "entropy=0.05", "entropy<low", "entropy<nan", "entropy<1e999", "a<1<2",
     "entropy<0,05", "entropy mean<1", "entropy.problem_mean<0.05 or clip.high>1", "entropy<.", "e!=1"],
)  # fmt: skip
def test_anything_else_is_refused_with_an_example(text):
    with pytest.raises(InputError, match=r"entropy\.problem_mean<0\.05") as refused:
        StopRule.parse(text)
    assert repr(text) in str(refused.value)


def test_the_first_rule_that_holds_is_named():
    rules = [StopRule.parse(text) for text in ("loss>5", "entropy.early<.2", "entropy.early<.3")]
    assert check(rules, {"loss": 1.0, "entropy.early": 0.25}) is rules[2]
    assert check(rules, {"loss": 6.0, "entropy.early": 0.1}) is rules[0]
    assert check(rules, {"loss": 1.0, "entropy.early": 0.3}) is None
    assert check([], {"loss": 1.0}) is None


def test_a_metric_without_a_value_fulfils_nothing():
    assert check([StopRule.parse("loss<1e9"), StopRule.parse("loss>-1e9")], {"loss": None}) is None


def test_an_unknown_metric_is_refused_with_the_nearest_one():
    with pytest.raises(InputError, match=r"entropy\.problem_men.*`entropy\.problem_mean`"):
        check([StopRule.parse("entropy.problem_men<1")], {"loss": 0.0, "entropy.problem_mean": 2.0, "reward.mean": 0.0})


def test_rules_on_evaluations_wait_for_one():
    rule = StopRule.parse("evaluation.pass@1>0.5")
    assert rule.evaluated
    assert check([rule], {"loss": 0.0, "accuracy": 1.0}) is None
    assert check([rule], {"loss": 0.0, "evaluation.pass@1": 0.6}) is rule
    with pytest.raises(InputError, match=r"evaluation\.pas@1.*`evaluation\.pass@1`"):
        check([StopRule.parse("evaluation.pas@1>0.5")], {"step": 0, "evaluation.pass@1": 0.6})


def test_an_iteration_without_an_update_breaks_no_rule():
    """All groups degenerate: the iteration has rewards but neither loss nor entropy."""
    rules = [StopRule.parse("entropy.problem_mean<0.05"), StopRule.parse("reward.mean>0.9")]
    assert check(rules, {"step": 3, "reward.mean": 0.5, "groups.degenerate": 1.0}) is None
    assert check(rules, {"step": 3, "reward.mean": 1.0, "groups.degenerate": 1.0}) is rules[1]


@pytest.mark.parametrize(
    ("entropy", "stopped"), [(0.04, "entropy.problem_mean<0.05"), (0.3, None), (4.0, "entropy.problem_mean>3")]
)
def test_a_pair_of_rules_ends_collapse_and_explosion_alike(entropy, stopped):
    rules = [StopRule.parse("entropy.problem_mean<0.05"), StopRule.parse("entropy.problem_mean>3")]
    found = check(rules, {"loss": 0.0, "entropy.problem_mean": entropy})
    assert (None if found is None else str(found)) == stopped
