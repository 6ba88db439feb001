import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import Diagnosis
from entropy_lab.reports.wording import difference_words, headline_names, number, parts, percent, sentence


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.312, "0.312"),
        (0.3, "0.300"),
        (-0.0123, "−0.0123"),
        (12.34, "12.3"),
        (1234.5, "1,234"),
        (0.9996, "1.00"),
        (0.0, "0"),
        (-0.0, "0"),
        (1.2e-7, "1.20e−7"),
        (None, "—"),
        (math.nan, "—"),
        (-math.inf, "—"),
    ],
)
def test_a_number_has_three_significant_digits(value: float | None, text: str) -> None:
    """G2: what is not a number is a dash."""
    assert number(value) == text


@given(st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-12))
def test_a_written_number_is_within_half_a_unit_of_its_third_digit(value: float) -> None:
    assert math.isclose(float(number(value).replace("−", "-").replace(",", "")), value, rel_tol=0.00501)


@pytest.mark.parametrize(
    ("numbers", "shown"),
    [
        ((0.312, 0.2714, 0.3531), ("0.312", "[0.271, 0.353]")),
        ((-0.02, -0.0514, 0.0127), ("−0.020", "[−0.051, 0.013]")),
        ((0.998, 0.992, 1.0), ("0.998", "[0.992, 1.000]")),
        ((58.3, 55.12, 61.7), ("58.3", "[55.1, 61.7]")),
        ((0.0, 0.0, 0.0), ("0", "[0, 0]")),
        ((-0.0001, -0.03, 0.03), ("0.000", "[−0.030, 0.030]")),
        ((0.5, None, 0.6), ("0.500", "—")),
        ((0.5, math.nan, 0.6), ("0.500", "—")),
        ((None, None, None), ("—", "—")),
    ],
)
def test_value_and_interval_share_their_decimals(
    numbers: tuple[float | None, float | None, float | None], shown: tuple[str, str]
) -> None:
    assert parts(Metric("m", *numbers, "", 10)) == shown


def test_a_number_without_interval_or_n_never_leads() -> None:
    whole = Metric("pass@1", 0.5, 0.4, 0.6, "share", 10)
    without = (replace(whole, low=None), replace(whole, n=0), replace(whole, value=math.nan))
    assert headline_names([whole]) == ("pass@1",)
    assert headline_names(without) == ()


def test_the_headline_holds_the_smallest_and_largest_k() -> None:
    ks = [Metric(f"pass@{k}", 0.5, 0.4, 0.6, "share", 10) for k in (16, 4, 1, 64)]
    assert headline_names(ks) == ("pass@1", "pass@64")


def test_differences_are_only_called_when_zero_is_outside() -> None:
    base = Metric("entropy.problem_mean", -0.12, -0.16, -0.08, "nats", 100)
    assert difference_words(base) == "lower by 0.120 [0.080, 0.160] nats"
    assert difference_words(replace(base, value=0.12, low=0.08, high=0.16)) == "higher by 0.120 [0.080, 0.160] nats"
    assert difference_words(replace(base, high=0.01)) == "no clear difference (−0.120 [−0.160, 0.010] nats)"
    assert difference_words(replace(base, high=0.0)).startswith("no clear difference")
    assert difference_words(replace(base, low=None)) == "not compared"


def test_the_sentence_of_one_checkpoint(single: Diagnosis) -> None:
    assert sentence(single) == (
        "builtin:countdown-sft on countdown, 100 problems × 16 samples: pass@1 is 0.310 [0.270, 0.350] and pass@16 is "
        "0.710 [0.670, 0.750]; problem-mean entropy is 0.480 [0.440, 0.520] nats and first-8-token entropy is "
        "1.21 [1.12, 1.29] nats; family coverage is 0.420 [0.370, 0.470] (n = 98)."
    )


def test_the_sentence_of_two_checkpoints_is_their_paired_differences(compared: Diagnosis) -> None:
    assert sentence(compared) == (
        "builtin:countdown-rl compared with builtin:countdown-sft on countdown, paired on 100 problems: "
        "pass@1 higher by 0.160 [0.113, 0.208]; pass@16 no clear difference (−0.020 [−0.051, 0.013]); "
        "problem-mean entropy lower by 0.216 [0.189, 0.244] nats; first-8-token entropy lower by "
        "0.545 [0.488, 0.603] nats; family coverage lower by 0.189 [0.146, 0.231] (n = 98)."
    )


def test_without_differences_two_checkpoints_are_not_compared(compared: Diagnosis) -> None:
    text = sentence(replace(compared, differences=()))
    assert "higher" not in text
    assert "lower" not in text
    assert text.count(" on countdown, 100 problems × 16 samples: ") == 2


def test_nothing_measured_is_said(empty: Diagnosis) -> None:
    assert sentence(empty) == "nothing on countdown: no number with an interval was measured."
    assert sentence(replace(empty, checkpoints=())) == "Nothing was measured."


def test_the_early_length_is_the_diagnosis_own(single: Diagnosis) -> None:
    assert "first-32-token entropy" in sentence(replace(single, early_tokens=32))


def test_percent() -> None:
    assert (percent(0.95), percent(0.999)) == ("95%", "99.9%")
