import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.frontier import (
    Track,
    blended,
    common_tokens,
    frontier_gap,
    levels_of,
    matched,
    nearest_step,
    over_seeds,
    reached,
    read_track,
)

RISING = [0.10, 0.20, 0.30]


def track(passes, tokens=None, **values):
    tokens = [1000.0 * place for place in range(len(passes))] if tokens is None else tokens
    columns = {"pass@1": passes, **values}
    return Track(
        np.arange(len(passes)) * 25,
        np.array(tokens, float),
        {name: np.array(column, float) for name, column in columns.items()},
    )


def test_value_at_equal_tokens_is_the_straight_line_between_evaluations():
    one = track(RISING, [0, 1000, 3000], breadth=[0.8, 0.6, 0.2])
    assert one.at(one.place_of_tokens(2000))["breadth"] == pytest.approx(0.4)
    assert one.at(one.place_of_tokens(0))["breadth"] == 0.8
    assert one.at(one.place_of_tokens(3000))["breadth"] == pytest.approx(0.2)


def test_tokens_never_sampled_have_no_place():
    assert math.isnan(track(RISING).place_of_tokens(2001))
    assert math.isnan(track(RISING, [0, 0, 0]).place_of_tokens(1))


def test_common_tokens_ignore_runs_that_do_not_sample():
    tracks = [track(RISING, [0, 100, 250]), track(RISING, [0, 0, 0]), track(RISING, [0, 100, 200])]
    assert common_tokens(tracks) == 200
    assert common_tokens(tracks[1:2]) == 0


def test_a_level_is_matched_where_it_is_first_reached():
    collapsing = track([0.1, 0.3, 0.05, 0.4], breadth=[0.9, 0.7, 0.1, 0.0])
    assert collapsing.place_of_level(0.2) == pytest.approx(0.5)
    assert matched([collapsing], "breadth", np.array([0.2]))[0, 0] == pytest.approx(0.8)


def test_a_level_never_reached_or_below_the_start_has_no_place():
    assert math.isnan(track(RISING).place_of_level(0.31))
    assert math.isnan(track(RISING).place_of_level(0.09))
    assert track(RISING).place_of_level(0.10) == 0
    assert track(RISING).place_of_level(0.30) == 2


@given(
    st.lists(st.floats(0.01, 0.99), min_size=2, max_size=8),
    st.floats(0, 1),
)
def test_pass_at_a_matched_place_is_the_level_and_was_not_reached_before(passes, share):
    one = track(passes)
    level = passes[0] + share * (max(passes) - passes[0])
    place = one.place_of_level(level)
    assert one.at(place)["pass@1"] == pytest.approx(level, abs=1e-9)
    dense = np.interp(np.linspace(0, place, 50)[:-1], np.arange(len(passes)), passes)
    assert place == 0 or dense.max() <= level + 1e-9


def test_levels_step_from_the_start_to_the_highest_peak():
    tracks = [track([0.10, 0.15]), track([0.10, 0.165])]
    assert levels_of(tracks, 0.02) == pytest.approx([0.12, 0.14, 0.16])
    assert list(reached(tracks, levels_of(tracks, 0.02))) == [True, True, False]
    assert len(levels_of([track([0.2, 0.1])], 0.02)) == 0


def test_over_seeds_has_the_t_interval():
    found = over_seeds([0.1, 0.2, 0.6])
    low, high = stats.ttest_1samp([0.1, 0.2, 0.6], 0).confidence_interval(0.95)
    assert (found.value, found.low, found.high) == pytest.approx((0.3, low, high))
    assert (found.least, found.most, found.n) == (0.1, 0.6, 3)


def test_one_seed_has_a_value_and_no_interval_and_a_missing_seed_no_value():
    assert over_seeds([0.4]).value == 0.4
    assert math.isnan(over_seeds([0.4]).low)
    assert math.isnan(over_seeds([0.4, np.nan]).value)


def test_a_slower_run_on_the_same_frontier_has_no_gap():
    """Half the speed: broader at equal tokens, the same at matched pass@1."""
    passes = np.linspace(0.1, 0.3, 9)
    fast = [track(passes, breadth=1 - 2 * passes)]
    slow_passes = np.linspace(0.1, 0.2, 9)
    slow = [track(slow_passes, breadth=1 - 2 * slow_passes)]
    tokens = common_tokens([*fast, *slow])
    at_tokens = [run.at(run.place_of_tokens(tokens))["breadth"] for run in (slow[0], fast[0])]
    assert at_tokens[0] - at_tokens[1] == pytest.approx(0.2)
    gap, levels = frontier_gap(slow, fast, "breadth", levels_of([*slow, *fast], 0.02))
    assert levels == 5
    assert gap.value == pytest.approx(0, abs=1e-12)


def test_a_frontier_moved_up_is_found_and_paired_by_seed():
    passes = np.linspace(0.1, 0.3, 9)
    base = [track(passes, breadth=1 - passes + shift) for shift in (0, 0.2, 0.5)]
    better = [track(passes, breadth=1 - passes + shift + 0.1) for shift in (0, 0.2, 0.5)]
    gap, _ = frontier_gap(better, base, "breadth", levels_of(base, 0.02))
    assert (gap.value, gap.low, gap.high) == pytest.approx((0.1, 0.1, 0.1))


def test_without_a_common_level_there_is_no_gap():
    gap, levels = frontier_gap([track([0.1, 0.1])], [track([0.1, 0.3])], "pass@1", np.array([0.2]))
    assert levels == 0
    assert math.isnan(gap.value)


def test_the_nearest_evaluated_step_lies_beside_the_place():
    one = track([0.1, 0.2, 0.3], [0, 1000, 5000])
    assert nearest_step(one, 1.25, "tokens") == 25
    assert nearest_step(one, 1.75, "pass@1") == 50
    assert nearest_step(one, 2.0, "tokens") == 50


def test_columns_between_two_checkpoints_lie_on_the_straight_line():
    columns = [{"a": np.array([0.0, 1.0])}, {"a": np.array([1.0, 0.0]), "b": np.zeros(2)}]
    assert blended(columns, 0.25)["a"] == pytest.approx([0.25, 0.75])
    assert list(blended(columns, 1)["a"]) == [1, 0]
    assert list(blended(columns, 0.25)) == ["a"]


def test_a_track_is_read_from_a_run_directory(tmp_path):
    (tmp_path / "evaluations").mkdir()
    for step, value in ((0, 0.1), (25, None)):
        rows = [{"metric": "pass@1", "value": 0.2}, {"metric": "entropy.token_mean", "value": value}]
        (tmp_path / "evaluations" / f"step-{step:05d}.json").write_text(json.dumps(rows))
    lines = [{"step": 0}, {"step": 1, "sampled_tokens": 10}, {"step": 25, "sampled_tokens": 250}]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = read_track(tmp_path)
    assert found.steps_E.tolist() == [0, 25]
    assert found.tokens_E.tolist() == [0, 250]
    assert found.values["entropy.token_mean"][0] == 0.1
    assert math.isnan(found.values["entropy.token_mean"][1])
