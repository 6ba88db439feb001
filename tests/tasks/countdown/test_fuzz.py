"""Any text gets a grade, at once: structured random texts, and long ones that punish every reader that looks twice."""

import random
import time

import pytest

from entropy_lab.tasks.countdown.answers import find_answer, grade_answer
from entropy_lab.tasks.countdown.expressions import value_of
from entropy_lab.tasks.countdown.task import Countdown, countdown_problem

PROBLEM = countdown_problem([3, 5, 7, 44], 22)
TASKS = [Countdown((PROBLEM,), form=form) for form in ("auto", "expression", "steps")]
LIMIT_S = 0.05
LONGEST = 1_000_000

GRAMMAR = [*"0123456789", "3", "5", "7", "44", *"+-*/=()", ",", ";", "\n", " ", "3*5=15", ",15+7=22", "(3*5)+7", "22"]
MARKUP = ["<answer>", "</answer>", "<think>", "</think>", r"\boxed{", r"\boxed {", r"\frac{", r"\dfrac{3}{5}", "{", "}"]
LATEX = [r"\times", r"\cdot ", r"\div", r"\left(", r"\right)", "$", r"\(", r"\)", r"\[", r"\]", "\\", r"\{", r"\,", "^"]
UNICODE = [*"×·⋅∗÷−–∕٣५３²½①Ⅷ", "😀", "\u200b", "\u00a0", "\u2028", "\ud800", "e\u0301", "ﬁ", "\ufeff", "𝟑"]
CONTROL = ["\x00", "\x1b[0m", "\r", "\t", "\x0b", "\x85", "\x7f"]
PROSE = [
    "**",
    "__",
    "//",
    "%",
    ".",
    "3.5",
    "1e3",
    "007",
    "- ",
    "1. ",
    "so we try ",
    "between 10-20 ",
    "98 - 35 = 63",
    "\\",
]
FRAGMENTS = [GRAMMAR, GRAMMAR, GRAMMAR, MARKUP, LATEX, UNICODE, CONTROL, PROSE]

# One unit repeated to LONGEST characters, after an opening that makes readers look far ahead.
OPENINGS = ["", "<answer>", r"\boxed{", "3+(", "3", "3*", "3+5", r"\boxed{3+5}", "<answer>3+5</answer>", "98-35"]
ENDINGS = ["", "</answer>", "}", "^2", "=", "*"]
UNITS = [
    *(
        " ",
        "\n",
        "3",
        "3 ",
        "+",
        "3+",
        "98-35, ",
        "98+1+1+1+1+1+1+1+1 ",
        "3+3  ^ ",
        "3**3 ",
        "**",
        "_",
        "(",
        "{",
        "{}",
        "\\",
    ),
    *("<answer>", "</answer>", "<answer>3</answer>", r"\boxed{", r"\boxed{}", r"\boxed   ", r"\frac{", r"\times ", "$"),
    *("1 ", "1-", "=", "98*9/"),
    *(r"\(", "3×", "٣", "\x00", "3*5=15,", "3+(  ", "so we try 3 and 5 again ", "3 + (", "3.", "-", "-("),
]


def random_text(generator: random.Random, long_share: float = 0.0005) -> str:
    """A text of fragments of all kinds; with probability `long_share` a long one of one repeated unit."""
    if generator.random() < long_share:
        return long_text(*(generator.choice(choices) for choices in (OPENINGS, UNITS, ENDINGS)))
    kinds = generator.sample(FRAGMENTS, generator.randint(1, 4))
    size = int(generator.expovariate(1 / 25))
    text = "".join(generator.choice(generator.choice(kinds)) for _ in range(size))
    if generator.random() < 0.3:
        depth = generator.choice([1, 5, 49, 60, 900])
        text = "(" * depth + text + ")" * depth
    if generator.random() < 0.5:
        opening, closing = generator.choice(
            [("<answer>", "</answer>"), (r"\boxed{", "}"), ("<answer>\\boxed{", "}</answer>")]
        )
        text = f"{generator.choice(PROSE)}{opening}{text}{closing}{generator.choice(PROSE)}"
    return text


def long_text(opening: str, unit: str, ending: str) -> str:
    return opening + unit * ((LONGEST - len(opening) - len(ending)) // len(unit)) + ending


def worst_seconds(texts) -> float:
    """Longest CPU time of one grade. Every text is graded in every format, each time as if it were new."""
    worst = 0.0
    for text in texts:
        for task in TASKS:
            find_answer.cache_clear()
            began = time.process_time()
            grade = task.grade(PROBLEM, text)
            worst = max(worst, time.process_time() - began)
            if grade.correct:
                tree = grade_answer(PROBLEM.data["nums"], PROBLEM.data["target"], text, task.form, task.rules).tree
                assert value_of(tree) == 22
    return worst


def test_random_texts_get_a_grade_at_once():
    generator = random.Random(0)
    assert worst_seconds(random_text(generator, long_share=0) for _ in range(3_000)) < LIMIT_S


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_long_texts_get_a_grade_at_once(unit):
    generator = random.Random(unit)
    texts = [(opening, generator.choice(ENDINGS)) for opening in generator.sample(OPENINGS, 3)]
    assert worst_seconds(long_text(opening, unit, ending) for opening, ending in texts) < LIMIT_S


@pytest.mark.slow
def test_a_hundred_thousand_texts_get_a_grade_at_once():
    generator = random.Random(1)
    assert worst_seconds(random_text(generator) for _ in range(100_000)) < LIMIT_S


@pytest.mark.slow
def test_every_long_text_gets_a_grade_at_once():
    texts = (long_text(opening, unit, ending) for opening in OPENINGS for unit in UNITS for ending in ENDINGS)
    assert worst_seconds(texts) < LIMIT_S
