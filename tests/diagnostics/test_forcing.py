"""Access and execution against sums done by hand and, for the mass, against a softmax in plain Python."""

from dataclasses import replace
from math import exp

import numpy as np
import pytest

from entropy_lab.diagnostics.forcing import FORCED, FamilyTable, access_bins, forcing_columns, forcing_metrics

# Problem 0: 100 free samples, 80 with a first calculation, 30 correct; menu 3*, 5+, 7-; control 3/.
# Problem 1: 50 free samples, none with a first calculation, none correct; menu 2+.
TABLE = FamilyTable(
    problem_F=np.array([0, 0, 0, 0, 1]),
    family_F=("3*", "5+", "7-", "3/", "2+"),
    offered_F=np.array([True, True, True, False, True]),
    first_F=np.array([40, 20, 2, 10, 0]),
    free_correct_F=np.array([20, 9, 1, 0, 0]),
    log_mass_F=np.array([-1.0, -2.0, -4.0, np.nan, -300.0]),
    completed={
        "entrance": np.array([8, 6, 12, 0, 4]),
        "value": np.array([12, 0, 16, 0, 0]),
        "infeasible": np.array([0, 0, 0, 0, 0]),
        "corrupted": np.array([0, 0, 0, 0, 1]),
        "continued": np.array([4, 0, 0, 0, 0]),
    },
    asked={
        "entrance": np.array([16, 16, 16, 0, 16]),
        "value": np.array([16, 0, 16, 0, 0]),
        "infeasible": np.array([0, 0, 0, 16, 0]),
        "corrupted": np.array([16, 16, 16, 0, 16]),
        "continued": np.array([16, 16, 0, 0, 0]),
    },
    samples_P=np.array([100, 50]),
    started_P=np.array([80, 0]),
    solved_P=np.array([30, 0]),
)
NAN = float("nan")


def test_every_column_by_hand():
    total = exp(-1) + exp(-2) + exp(-4)
    mass = [exp(-1) / total, exp(-2) / total, exp(-4) / total]
    sampled = [40 / 62, 20 / 62, 2 / 62]
    expected = {
        "force.solve_rate": [0.3, 0.0],
        "force.free": [(0.2 + 0.09 + 0.01) / 3, 0.0],
        "force.execution": [(0.5 + 0.375 + 0.75) / 3, 0.25],
        "force.execution_value": [(0.75 + 1) / 2, NAN],
        "force.infeasible": [0.0, NAN],
        "force.corrupted": [0.0, 1 / 16],
        "force.corrupted_continued": [(0.25 + 0) / 2, NAN],
        "force.low_access.share": [1 / 3, NAN],  # 7-: 2 of 80
        "force.low_access.free": [0.01, NAN],
        "force.low_access.forced": [0.75, NAN],
        "force.low_access.forced_value": [1.0, NAN],
        "force.support_mass": [62 / 80, NAN],
        "force.access_agreement": [1 - sum(abs(p - q) for p, q in zip(mass, sampled, strict=True)) / 2, NAN],
        "force.factor.product": [0.4 * 0.5 + 0.2 * 0.375 + 0.02 * 0.75, 0.0],
    }
    columns = {column.name: column for column in forcing_columns(TABLE, {"force.corrupted": "seen"})}
    assert set(columns) == set(expected)
    for name, values in expected.items():
        np.testing.assert_allclose(columns[name].values_P, values, err_msg=name)
    assert columns["force.corrupted"].note == "seen"
    np.testing.assert_allclose(TABLE.access_mass(), [*mass, NAN, 1.0])
    np.testing.assert_allclose(TABLE.access_sampled(), [0.5, 0.25, 0.025, 0.125, NAN])


def test_paired_differences_and_their_notes():
    metrics = {one.metric: one for one in forcing_metrics(TABLE, "mine", {}, seed=0)}
    gap, gain = metrics["force.factor.gap"], metrics["force.low_access.gain"]
    assert gap.value == pytest.approx((0.29 - 0.3) / 2)
    assert gap.n == 2
    assert gain.value == pytest.approx(0.74)
    assert gain.n == 1
    assert all(one.checkpoint == "mine" and (one.value is not None or one.note) for one in metrics.values())


def test_a_level_that_nobody_reached_has_a_reason_and_no_number():
    none = {level: np.zeros(5, np.int64) for level in FORCED}
    metrics = {one.metric: one for one in forcing_metrics(replace(TABLE, asked=none, completed=none), "", {}, seed=0)}
    for name in ("execution_value", "infeasible", "corrupted", "corrupted_continued", "low_access.gain"):
        assert metrics[f"force.{name}"].value is None
        assert metrics[f"force.{name}"].note


def test_a_policy_whose_starts_decide_everything_has_no_gap():
    """Where execution is exact, Σ access · execution is the solve rate, however the starts spread."""
    rng = np.random.default_rng(0)
    execution = rng.integers(0, 17, 12)
    first = rng.multinomial(64, np.full(4, 0.25), size=3).ravel()
    table = FamilyTable(
        problem_F=np.repeat(np.arange(3), 4),
        family_F=("1+", "1-", "2*", "3+") * 3,
        offered_F=np.ones(12, bool),
        first_F=first * 16,
        free_correct_F=first * execution,
        log_mass_F=np.log(np.maximum(first, 1e-300)),
        completed=dict.fromkeys(FORCED, execution),
        asked={level: np.full(12, 16) for level in FORCED},
        samples_P=np.full(3, 64 * 16),
        started_P=np.full(3, 64 * 16),
        solved_P=(first * execution).reshape(3, 4).sum(axis=1),
    )
    columns = {column.name: column.values_P for column in forcing_columns(table, {})}
    np.testing.assert_allclose(columns["force.factor.product"], columns["force.solve_rate"])
    np.testing.assert_allclose(columns["force.access_agreement"], 1.0)
    np.testing.assert_allclose(columns["force.support_mass"], 1.0)


def test_every_started_family_is_in_one_access_bin():
    bins = access_bins(TABLE)
    held = {label: access.values_P[0] for label, access, _ in bins if not np.isnan(access.values_P[0])}
    assert held == {"to 0.05": 0.025, "to 0.4": 0.25, "to 1": 0.5}
    edge = access_bins(replace(TABLE, first_F=np.array([80, 0, 4, 0, 0])))
    held = {label: access.values_P[0] for label, access, _ in edge if not np.isnan(access.values_P[0])}
    assert held == {"never": 0.0, "to 0.1": 0.05, "to 1": 1.0}
    assert {label: execution.values_P[0] for label, _, execution in edge}["never"] == 0.375
