import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import Diagnosis
from entropy_lab.reports.names import headline_names, metric_name
from entropy_lab.reports.sentences import sentence
from entropy_lab.reports.wording import difference_words, number, parts, percent, with_interval


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


@pytest.mark.parametrize("step", [1, -1])
def test_the_sentence_of_several_arms_is_their_range(several: Diagnosis, step: int) -> None:
    text = sentence(replace(several, checkpoints=several.checkpoints[::step]))
    assert text.startswith("3 arms on countdown, 100 problems × 64 samples: pass@1 from ")
    named = {name: [one for part in several.checkpoints for one in part.metrics if one.metric == name]
             for name in ("pass@1", "coverage.family")}  # fmt: skip
    for name, metrics in named.items():
        least, most = (pick(metrics, key=lambda metric: metric.value) for pick in (min, max))
        spoken = metric_name(name, 8)
        ends = [f"{with_interval(metric)} ({metric.checkpoint})" for metric in (least, most)]
        assert f"{spoken} from {ends[0]} to {ends[1]}" in text


def test_arms_that_agree_have_no_range(several: Diagnosis) -> None:
    parts = tuple(
        replace(part, metrics=(Metric("pass@1", 0.5, 0.4, 0.6, "share", 100),)) for part in several.checkpoints
    )
    assert sentence(replace(several, checkpoints=parts)).endswith(": pass@1 is 0.50 [0.40, 0.60] throughout.")
    none = tuple(replace(part, metrics=()) for part in parts)
    assert sentence(replace(several, checkpoints=none)).endswith(": no number with an interval was measured.")


def test_the_sentence_of_forcing(forced: Diagnosis) -> None:
    assert sentence(forced) == (
        "builtin:sft on countdown, 50 problems × 64 samples: 0.300 [0.260, 0.340] of free samples are correct; "
        "a family is completed 0.110 [0.090, 0.130] freely, 0.410 [0.360, 0.460] when its entrance is forced and "
        "0.520 [0.470, 0.570] when its value is forced too; low-access families are completed 0.020 [0.010, 0.030] "
        "freely and 0.330 [0.280, 0.390] when forced."
    )


def test_the_sentence_of_a_shift(shifted: Diagnosis) -> None:
    assert sentence(shifted) == (
        "builtin:sft - builtin:sft-early on countdown, 50 problems × 64 samples: |Δ log p| per token is "
        "1.55 [1.40, 1.70] nats at the entrance and 0.360 [0.300, 0.410] nats after it, a ratio of 4.30 [3.80, 4.90]; "
        "KL per token is 0.80 [0.70, 0.90] nats at the entrance and 0.100 [0.090, 0.120] nats after it."
    )


def test_a_phrase_with_a_number_missing_falls_back_to_names(shifted: Diagnosis) -> None:
    (part,) = shifted.checkpoints
    kept = tuple(metric for metric in part.metrics if metric.metric != "shift.execution.abs")
    text = sentence(replace(shifted, checkpoints=(replace(part, metrics=kept),)))
    assert "|Δ log p| at the entrance is 1.55 [1.40, 1.70] nats and |Δ log p|, entrance ÷ after is 4.30" in text


def test_a_run_of_rarer_numbers_still_says_something(forced: Diagnosis) -> None:
    (part,) = forced.checkpoints
    rare = (Metric("force.corrupted", 0.05, 0.03, 0.07, "share", 50),)
    text = sentence(replace(forced, checkpoints=(replace(part, metrics=rare),)))
    assert text.endswith(": solve rate, corrupted value is 0.050 [0.030, 0.070].")


def test_access_leads_only_beside_coverage() -> None:
    access = Metric("access.gini", 0.5, 0.4, 0.6, "index", 10)
    assert headline_names([access]) == ()
    assert headline_names([access, replace(access, metric="coverage.family")]) == ("coverage.family", "access.gini")


def test_numbers_over_the_cohort_are_named_as_such() -> None:
    assert metric_name("cohort.coverage.family", 8) == "family coverage, on problems solved by all"
    assert metric_name("cohort.pass@4", 8) == "pass@4, on problems solved by all"
    assert metric_name("cohort.size", 8) == "problems solved by all"
    assert metric_name("my.own", 8) == "my.own"
