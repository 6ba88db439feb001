import re
from collections import Counter, defaultdict
from dataclasses import replace

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.interventions.forcing import Leak, Prefix, countdown_task, encode_text, entrance_prefix
from entropy_lab.interventions.openings import entrance_text, openings
from entropy_lab.interventions.prefix_ladder import Ladder, ladder
from entropy_lab.prompts import encode_prompt
from entropy_lab.tasks.countdown.answers import grade_answer
from entropy_lab.tasks.countdown.enumeration import solutions
from entropy_lab.tasks.countdown.expressions import Tree, parse
from entropy_lab.tasks.countdown.rules import Rules, combine
from entropy_lab.tasks.countdown.task import LADDER_RULES, Countdown, countdown_problem
from entropy_lab.tasks.protocol import Problem
from entropy_lab.texts import decode
from tests.oracles.countdown import all_solutions, leftmost_family

ANY = replace(LADDER_RULES, use="any")
STEPS = Countdown((), "steps", LADDER_RULES)
EXPRESSION = Countdown((), "expression")


@pytest.fixture(scope="module")
def sft() -> Checkpoint:
    return load_checkpoint("builtin:sft", device="cpu")


def written(tree: Tree) -> str:
    """A binary tree as text, with only the brackets that reading it back needs."""
    if isinstance(tree, int):
        return str(tree)
    operator, (left, right) = tree
    first, second = written(left), written(right)
    if operator in "*/" and not isinstance(left, int) and left[0] in "+-":
        first = f"({first})"
    if not isinstance(right, int) and not (operator in "+-" and right[0] in "*/"):
        second = f"({second})"
    return first + operator + second


def beginnings(nums: list[int], target: int, rules: Rules) -> dict[tuple[str, int], set[tuple[str, str]]]:
    """By brute force: (family, second number) → (text through the operator, text through the number), any writing."""
    found = defaultdict(set)
    for tree in all_solutions(nums, target, rules):
        text = written(tree)
        assert parse(text) == tree
        match = re.match(r"(\(*([0-9]+)[-+*/])\(*([0-9]+)", text)
        assert match is not None
        found[leftmost_family(tree), int(match.group(3))].add((match.group(1), match.group()))
    return found


def first_steps(nums: tuple[int, ...], target: int, rules: Rules) -> set[str]:
    """By brute force: every first step, with its value, of a correct sequence of steps that uses all numbers."""
    found = set()

    def reachable(at_hand: tuple[int, ...]) -> bool:
        if len(at_hand) == 1:
            return at_hand[0] == target
        return any(reachable(rest) for _, rest in moves(at_hand))

    def moves(at_hand: tuple[int, ...]):
        for i, first in enumerate(at_hand):
            for j, second in enumerate(at_hand):
                for operator in "+-*/" if i != j else "":
                    value = combine(operator, first, second)
                    if isinstance(value, int) and value >= 0 and rules.admit(value):
                        others = tuple(number for k, number in enumerate(at_hand) if k not in (i, j))
                        yield f"{first}{operator}{second}={value}", (*others, value)

    for step, rest in moves(nums):
        if reachable(rest):
            found.add(step)
    return found


@st.composite
def solvable(draw: st.DrawFn, rules: Rules, most: int = 4, largest: int = 12) -> tuple[list[int], int]:
    """Numbers and a target that some expression over all of them reaches."""
    nums = draw(st.lists(st.integers(0, largest), min_size=2, max_size=most))
    value = nums[0]
    for number in nums[1:]:
        options = [each for operator in "+-*/" if isinstance(each := combine(operator, value, number), int)]
        options = [each for each in options if each >= 0 and rules.admit(each)]
        assume(options)
        value = draw(st.sampled_from(options))
    return nums, value


def made(task: Countdown, problem: Problem, scaffold: str | None = None) -> Ladder:
    steps = ladder(task, problem, scaffold, seed=0)
    assert steps is not None
    return steps


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([Rules(), LADDER_RULES, Rules(max_value=20)]).flatmap(lambda r: st.tuples(st.just(r), solvable(r)))
)
@example((Rules(), ([0, 2, 6, 2], 4)))  # 0+ opens without a bracket only where one follows the operator
def test_an_expression_opens_with_the_fewest_brackets_of_any_writing(case):
    rules, (nums, target) = case
    forms, expected = solutions(nums, target, rules), beginnings(nums, target, rules)
    found = openings(forms, rules)
    assert {(one.family, one.second) for one in found} == set(expected)
    for one in found:
        everywhere = expected[one.family, one.second]
        assert (one.text, one.whole) in everywhere
        fewest = min((text.count("("), whole.count("(")) for text, whole in everywhere)
        assert (one.text.count("("), one.whole.count("(")) == fewest
    for family in {family for family, _ in expected}:
        texts = {text for key, pairs in expected.items() if key[0] == family for text, _ in pairs}
        assert entrance_text(family, found) == min(texts, key=len)


@settings(max_examples=60, deadline=None)
@given(solvable(LADDER_RULES))
def test_values_are_the_first_steps_of_all_correct_sequences(case):
    nums, target = case
    steps = ladder(STEPS, countdown_problem(nums, target), None, 0)
    expected = first_steps(tuple(nums), target, LADDER_RULES)
    kept = {step for step in expected if len(nums) > 2 and not step.endswith(f"={target}")}
    if steps is None:
        assert not expected
        return
    assert {one.body for one in steps.prefixes if one.level == "value"} == kept
    assert set(steps.menu) == {step[: re.search(r"[-+*/]", step).end()] for step in expected}
    without = [family for family in steps.menu if not any(step.startswith(family) for step in kept)]
    assert steps.skipped.get("value", 0) == len(without)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        [STEPS, EXPRESSION, replace(STEPS, rules=ANY), Countdown((), "steps"), Countdown((), "expression", ANY)]
    ),
    solvable(LADDER_RULES),
)
def test_no_prefix_gives_the_answer_away(task, case):
    """Checked on the text alone: no stated target, a number left to use, and no solution that stands there already."""
    nums, target = case
    problem = countdown_problem(nums, target)
    steps = ladder(task, problem, None, 3)
    if steps is None:
        return
    assert {one.level for one in steps.prefixes} >= {"empty", "entrance"}
    for one in steps.prefixes:
        assert re.search(rf"=\s*{target}(?![0-9])", one.text) is None
        operands = Counter(map(int, re.findall(r"(?<![=0-9])[0-9]+", one.text)))
        assert Counter(nums) - operands
        for answer in (one.text, f"<answer>{one.body}</answer>"):
            assert not grade_answer(nums, target, answer, task.form, task.rules).correct


@pytest.mark.parametrize(
    ("task", "scaffold", "body", "reason"),
    [
        (STEPS, "", "3*5=22", "states the target"),
        (STEPS, "", "3 × 5 = 22", "states the target"),
        (STEPS, "so it = 22, ", "3*", "states the target"),
        (STEPS, "", "3*5=15,15+7", "uses all numbers"),
        (EXPRESSION, "<answer>", "(3*5)+7", "uses all numbers"),
        (replace(EXPRESSION, rules=ANY), "", "22+0", "is a solution already"),
    ],
)
def test_a_leak_cannot_be_made(task, scaffold, body, reason):
    nums = [3, 5, 7] if "22+" not in body else [22, 0, 9]
    with pytest.raises(Leak, match=reason):
        Prefix(task, countdown_problem(nums, 22), "value", "3*", scaffold, body)


def test_a_scaffold_that_holds_the_answer_is_refused():
    with pytest.raises(InputError, match="states the target"):
        ladder(STEPS, countdown_problem([3, 5, 7], 22), "Since 15+7=22: ", 0)


@settings(max_examples=40, deadline=None)
@given(solvable(LADDER_RULES), st.integers(0, 3))
def test_controls_are_what_they_say(case, seed):
    nums, target = case
    problem = countdown_problem(nums, target)
    steps = ladder(STEPS, problem, None, seed)
    if steps is None:
        return
    every = {f"{number}{operator}" for number in nums for operator in "+-*/"}
    assert set(steps.infeasible) <= every - set(steps.menu)
    assert len(steps.infeasible) == min(len(steps.menu), len(every - set(steps.menu)))
    assert steps == ladder(STEPS, problem, None, seed)
    for one in steps.prefixes:
        if one.level == "corrupted":
            first, operator, second, stated = re.fullmatch(r"([0-9]+)(.)([0-9]+)=([0-9]+)", one.body).groups()
            assert combine(operator, int(first), int(second)) != int(stated) <= 225
            if one.continued is not None:
                left = Counter(nums) - Counter([int(first), int(second)]) + Counter([int(stated)])
                assert Counter(one.continued.data["nums"]) == left
                assert solutions(one.continued.data["nums"], target, LADDER_RULES)


def test_a_value_is_not_corrupted_to_the_target_but_to_what_leads_on():
    """3*5=15 on the way to 16: 16 would be the answer, 14 leads nowhere, 17-1 is the target again."""
    steps = made(STEPS, countdown_problem([1, 3, 5], 16))
    corrupted = {one.body: one.continued for one in steps.prefixes if one.level == "corrupted"}
    assert corrupted["3*5=17"] == countdown_problem([1, 17], 16)
    assert not {"3*5=15", "3*5=16"} & set(corrupted)


def test_infeasible_entrances_depend_on_the_seed():
    problem = countdown_problem([3, 5, 7, 11], 26)
    assert len({ladder(STEPS, problem, None, seed).infeasible for seed in range(5)}) > 1


def test_problems_without_a_menu_have_no_ladder():
    assert ladder(STEPS, countdown_problem([1, 1], 200), None, 0) is None
    assert ladder(STEPS, countdown_problem([7], 7), None, 0) is None


def test_levels_spell_what_the_formats_say():
    """[3,5,7]→22 in steps; (9-4)*3 in an expression."""
    texts = {(one.level, one.text) for one in made(STEPS, countdown_problem([3, 5, 7], 22)).prefixes}
    assert {("empty", ""), ("entrance", "3*"), ("value", "3*5=15"), ("corrupted", "3*5=16")} <= texts
    expressions = made(EXPRESSION, countdown_problem([9, 4, 3], 15)).prefixes
    texts = {(one.level, one.text) for one in expressions}
    assert {("empty", "<answer>"), ("entrance", "<answer>(9-"), ("value", "<answer>(9-4")} <= texts
    assert not [one for one in expressions if one.level == "corrupted"]
    assert made(EXPRESSION, countdown_problem([9, 4, 3], 15), "So ").prefixes[0].text == "So "


def test_ids_of_an_entrance_in_a_number_vocabulary(sft):
    ids = entrance_prefix(sft, STEPS, countdown_problem([3, 5, 7], 22), "3*")
    assert sft.tokenizer.convert_ids_to_tokens(list(ids)) == ["3", "*"]


def test_ids_of_an_entrance_in_byte_pairs(smollm2):
    """Joined to the ids of a real prompt, they add exactly their text; a family outside the menu has no brackets."""
    problem = countdown_problem([9, 4, 3], 15)
    prompt = encode_prompt(smollm2, EXPRESSION.messages(problem))
    for family, text in (("9-", "<answer>(9-"), ("4/", "<answer>4/")):
        ids = entrance_prefix(smollm2, EXPRESSION, problem, family)
        assert decode(smollm2.tokenizer, ids) == text
        assert decode(smollm2.tokenizer, prompt + ids) == decode(smollm2.tokenizer, prompt) + text
        assert ids[: len(ids) - len(encode_text(smollm2, text[8:]))] == encode_text(smollm2, "<answer>")


def test_a_tokenizer_that_puts_a_space_before_every_text(tiny_checkpoint):
    """As SentencePiece does: "3*" alone would be read as " 3*" after a prompt."""
    backend = Tokenizer(models.WordLevel({t: i for i, t in enumerate(["<unk>", "▁", *"\n0123456789+-*/="])}, "<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme="always", split=False), pre_tokenizers.Split("", "isolated")]
    )
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", clean_up_tokenization_spaces=False)
    assert decode(tokenizer, tokenizer.encode("3*")) == "3*"
    assert decode(tokenizer, tokenizer.encode("\n") + tokenizer.encode("3*")) == "\n 3*"
    spaced = replace(tiny_checkpoint, tokenizer=tokenizer)
    ids = entrance_prefix(spaced, STEPS, countdown_problem([3, 5, 7], 22), "3*")
    assert tokenizer.convert_ids_to_tokens(list(ids)) == ["3", "*"]


def test_what_cannot_be_forced_is_named(sft, tiny_checkpoint):
    problem = countdown_problem([3, 5, 7], 22)
    with pytest.raises(InputError, match="cannot spell '3\\*'"):  # its words are apart by spaces
        entrance_prefix(tiny_checkpoint, STEPS, problem, "3*")
    with pytest.raises(InputError, match=r"cannot spell '<answer>'.*--scaffold"):
        entrance_prefix(sft, EXPRESSION, problem, "3*")
    for family in ("4*", "3", "3*5", "*3"):
        with pytest.raises(InputError, match="is no entrance"):
            entrance_prefix(sft, STEPS, problem, family)
    with pytest.raises(InputError, match="leaves the answer format open"):
        countdown_task(Countdown((), "auto"))

    class Other:
        name = "other"

    with pytest.raises(InputError, match="no Countdown task"):
        countdown_task(Other())
