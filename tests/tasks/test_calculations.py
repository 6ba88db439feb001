import json
import time
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from entropy_lab.tasks.calculations import LONGEST, first_calculation

GSM8K = Path(__file__).parents[1] / "data" / "math" / "gsm8k.jsonl"


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("48/2 = 24", "48/2"),
        ("so 3*5, then 7+1", "3*5"),
        ("3 × 5", "3*5"),
        ("3·5", "3*5"),
        ("48 ÷ 2", "48/2"),
        ("10 − 3", "10-3"),
        (r"$48 \div 2$", "48/2"),
        (r"5 \times 3", "5*3"),
        (r"5 \cdot 3", "5*3"),
        (r"\frac{48}{2}=24", "48/2"),
        (r"\dfrac{48}{2}", "48/2"),
        (r"3 \cdot \frac{1}{2}", "1/2"),
        ("$1,200 * 3", "1200*3"),
        (r"1{,}200 \cdot 3", "1200*3"),
        (r"\$1,200 / \$3", "1200/3"),
        ("2.50*.5", "2.5*0.5"),
        ("007 + 1", "7+1"),
        ("50% * 200", "50%*200"),
        (r"50\% \times 200", "50%*200"),
        ("3 x 5 = 15", "3*5"),
        ("(3+5)*2", "3+5"),
        ("3 * (4+5)", "4+5"),
        ("3*(4) and (150)*(1600)", "3*4"),
        ("(150)*(1600)", "150*1600"),
        ("3 * (-4)", "3*-4"),
        ("= -5 + 3", "-5+3"),
        ("- 5 + 3", "5+3"),
        ("1. 3 + 4", "3+4"),
        ("1) 3+4", "3+4"),
        ("**44** + 19 = 63", "44+19"),
        ("16 - 3 - 4 = 9", "16-3"),
        ("10-3=7", "10-3"),
        ("16-3-4=9", "16-3"),
        ("eggs - 16 - 3 = 13", "16-3"),
        ("Step 1 - 44 + 19", "44+19"),
        ("3+4.", "3+4"),
        ("3 + 4, 5 + 6", "3+4"),
        (r"5 + 3\text{ cm}", "5+3"),
        ("3/4/20 = 0.0375", "3/4"),
    ],
)
def test_a_calculation_is_labelled_in_normal_form(text, label):
    assert first_calculation(text) == label


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no numbers here",
        "pages 10-20",
        "$5-$10",
        "pages 10–20",
        "phone 555-1234-99",
        "2020-01-15",
        "3/4/2020",
        "2020/12/25",
        "from 10:30 - 11:30",
        "5\n- 3 apples",
        "2x + 3",
        "5 + 3x",
        r"5 + 3\sqrt{2}",
        "x + 3 - 4",
        r"\alpha} - 3 + 4",
        "3(4) + 5x",
        "f(2) + 3",
        "2^3 + 1",
        "2 + 2^3",
        "2**3",
        "x^{5 / 3}",
        "a_1 + 2",
        "version 1.2.3 + 4",
        "1,2,3+4",
        "1920x1080",
        "a3+4",
        "5 ± 3",
        "16 GB * 3",
    ],
)
def test_what_only_looks_like_a_calculation_is_skipped(text):
    assert first_calculation(text) is None
    assert first_calculation(f"{text}\nThen 6*7 = 42.") == "6*7"


def test_a_product_beside_a_variable_stands_by_itself():
    assert first_calculation("x + 3 * 4") == "3*4"


def test_published_solutions_open_with_their_first_equation():
    """GSM8K marks its calculations as <<16-3-4=9>>: the label must agree with the first operands written there."""
    for line in GSM8K.read_text().splitlines():
        solution = json.loads(line)["answer"]
        before, _, rest = solution.partition("<<")
        marked = first_calculation(rest.partition("=")[0] + " =")
        assert first_calculation(before + rest) is not None
        if first_calculation(before) is None:
            assert first_calculation(solution) == marked


NUMBER = st.integers(0, 10**9).map(str)


@given(NUMBER, st.sampled_from("+-*/"), NUMBER, st.sampled_from(["{}{}{}=1", "{} {} {}", "so {} {} {}.", "${} {} {}$"]))
def test_every_plain_calculation_is_found(first, operator, second, frame):
    assert first_calculation(frame.format(first, operator, second)) == f"{first}{operator}{second}"


@given(st.integers(0, 10**12), st.integers(0, 999))
def test_equal_numbers_give_equal_labels(whole, thousandths):
    number = f"{whole:,}.{thousandths:03d}"
    label = first_calculation(f"{number} * 2")
    assert label is not None
    assert Fraction(label.removesuffix("*2")) == whole + Fraction(thousandths, 1000)
    assert label == first_calculation(f"{whole}.{thousandths:03d}0 * 2")


PIECES = [
    *"0123456789+-*/()=.,:%$^_{}x \n\\&",
    "\\frac{",
    "\\times ",
    "1,000",
    "\u2212",
    "**",
    "step ",
    "٣",
    "\ud800",
    "²",
]


@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join) | st.text(max_size=200))
@example("1" * 5_000)
def test_any_text_gives_a_label_or_none_without_an_exception(text):
    label = first_calculation(text)
    assert label is None or (label.isascii() and len(label) < 100 and any(operator in label for operator in "+-*/"))


@pytest.mark.parametrize(
    "piece",
    [
        "1",
        "1-",
        "1-1+",
        "1 ",
        " ",
        "$",
        "漢",
        "\\frac{1}{",
        "1,111",
        "**",
        "x+3-4 ",
        "1/1/20 ",
        "3*(",
        "day 1 - 4 ",
        "−1",
        "(1",
    ],
)
def test_a_megabyte_of_anything_takes_no_time(piece):
    text = "1" + piece * (1_000_000 // len(piece))
    began = time.process_time()
    first_calculation(text)
    assert time.process_time() - began < 0.05


def test_only_the_opening_of_a_text_is_read():
    assert first_calculation("a" * (LONGEST - 10) + " 3+4 ") == "3+4"
    assert first_calculation("a" * LONGEST + " 3+4 ") is None
