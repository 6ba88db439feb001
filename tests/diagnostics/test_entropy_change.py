"""The tabular law's boundary and quadrants, and the tables, against root finding and plain loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq

from entropy_lab.diagnostics.entropy_change import (
    QUADRANTS,
    Changes,
    boundary,
    change_columns,
    change_metrics,
    tabular_change,
)

LOGITS = st.lists(st.floats(-8, 8), min_size=2, max_size=30)


def distribution(z_V):
    """log p, H and E_p[p(s − H)] of logits."""
    logp_V = z_V - z_V.max()
    logp_V = logp_V - np.log(np.exp(logp_V).sum())
    p_V = np.exp(logp_V)
    h = -(p_V * logp_V).sum()
    return logp_V, h, (p_V**2 * (-logp_V - h)).sum()


@given(LOGITS)
def test_the_boundary_lies_at_or_below_the_entropy(z):
    _, h, drift = distribution(np.array(z))
    found = boundary(np.array([h]), np.array([drift]))[0]
    assert -1e-12 <= found <= h + 1e-12


@pytest.mark.parametrize("scale", [0.3, 1, 3])
def test_the_boundary_is_where_the_law_changes_sign(scale):
    """The root by bisection; every token on either side of it has the sign of its side."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        logp_V, h, drift = distribution(scale * rng.normal(size=30))
        found = boundary(np.array([h]), np.array([drift]))[0]
        root = brentq(lambda s, h=h, drift=drift: np.exp(-s) * (s - h) - drift, 0, h, xtol=1e-14)
        assert found == pytest.approx(root, abs=1e-10)
        assert h - found > 1e-4
        for advantage in (2.0, -1.0):
            law_V = tabular_change(np.full(30, advantage), logp_V, np.full(30, h), np.full(30, drift))
            np.testing.assert_array_equal(np.sign(law_V), np.sign(advantage) * np.sign(-logp_V - found))


def test_a_uniform_distribution_has_its_boundary_at_its_entropy():
    h = np.log(7)
    assert boundary(np.array([h]), np.array([0.0]))[0] == pytest.approx(h)
    assert boundary(np.array([h]), np.array([1e-17]))[0] == pytest.approx(h)  # what rounding may leave


def made(problems=6, seed=0, noise=0.1, tokens=120):
    """Tokens of every quadrant; what is measured is what is predicted and a little noise."""
    rng = np.random.default_rng(seed)
    rows = [distribution(2 * rng.normal(size=9)) for _ in range(tokens)]
    token_N = [rng.choice(9, p=np.exp(logp_V)) for logp_V, *_ in rows]
    logprob_N = np.array([logp_V[token] for (logp_V, *_), token in zip(rows, token_N, strict=True)])
    predicted_N = rng.normal(size=tokens) + 0.3
    return Changes(
        problem_N=rng.permutation(np.arange(tokens) % problems),
        problems=problems,
        advantage_N=rng.choice([-1.0, 0.0, 2.0], tokens),
        bonus_N=rng.choice([0.0, 0.5], tokens),
        weight_N=rng.uniform(0.5, 1.5, tokens),
        logprob_N=logprob_N,
        entropy_N=np.array([h for _, h, _ in rows]),
        drift_N=np.array([drift for *_, drift in rows]),
        steepness_N=rng.uniform(0, 0.2, tokens),
        predicted_N=predicted_N,
        measured_N=predicted_N + noise * rng.normal(size=tokens),
    )


def test_tables_are_sums_over_tokens():
    changes = made()
    of = {row.metric: row for row in change_metrics(changes, "one", 0)}
    count = len(changes.measured_N)
    assert all(row.checkpoint == "one" for row in of.values())
    assert of["change.measured"].value == pytest.approx(changes.measured_N.mean())
    assert of["change.ratio"].value == pytest.approx(changes.predicted_N.sum() / changes.measured_N.sum())
    error = np.abs(changes.predicted_N - changes.measured_N).sum() / np.abs(changes.measured_N).sum()
    assert of["change.error"].value == pytest.approx(error)
    for name, guess_N in (("predicted", changes.predicted_N), ("tabular", changes.tabular_N)):
        wanted = np.corrcoef(guess_N, changes.measured_N)[0, 1]
        assert of[f"correlation.{name}"].value == pytest.approx(wanted)
    found = {name: [] for name in QUADRANTS}
    for token in range(count):
        advantage = changes.advantage_N[token]
        surprising = -changes.logprob_N[token] > changes.boundary_N[token]
        sign = "positive" if advantage > 0 else "negative"
        found["none" if advantage == 0 else f"{sign}.{'surprising' if surprising else 'expected'}"].append(token)
    sizes = dict.fromkeys(("tabular", "predicted", "measured"), 0.0)
    for what in sizes:
        values_N = getattr(changes, f"{what}_N")
        sizes[what] = sum(abs(values_N[rows].sum()) for rows in found.values())
    for name, rows in found.items():
        assert len(rows) > 5
        assert of[f"quadrant.{name}.tokens"].value == pytest.approx(len(rows) / count)
        assert of[f"quadrant.{name}.advantage"].value == pytest.approx(changes.advantage_N[rows].mean())
        assert of[f"quadrant.{name}.measured"].value == pytest.approx(changes.measured_N[rows].sum() / count)
        for what, size in sizes.items():
            share = of[f"quadrant.{name}.{what}_share"].value
            assert share == pytest.approx(getattr(changes, f"{what}_N")[rows].sum() / size)
    parts = sum(of[f"quadrant.{name}.predicted"].value for name in QUADRANTS)
    assert parts == pytest.approx(of["change.predicted"].value)
    for row in of.values():
        assert row.note or row.unit
        assert row.low is None or row.low <= row.value <= row.high


def test_the_law_counts_weights_and_the_entropy_bonus():
    changes = made()
    logp_N, h_N = changes.logprob_N, changes.entropy_N
    law_N = changes.advantage_N * (np.exp(logp_N) * (-logp_N - h_N) - changes.drift_N)
    wanted_N = changes.weight_N * (law_N + changes.bonus_N * changes.steepness_N)
    np.testing.assert_allclose(changes.tabular_N, wanted_N)
    assert (changes.weight_N * law_N != wanted_N).any()


def test_intervals_hold_the_truth_and_narrow_with_agreement():
    loose, tight = (
        {row.metric: row for row in change_metrics(made(noise=noise), "", 0)}["change.ratio"] for noise in (0.3, 0.01)
    )
    assert tight.low < 1 < tight.high
    assert tight.high - tight.low < (loose.high - loose.low) / 5
    assert tight == {row.metric: row for row in change_metrics(made(noise=0.01), "", 0)}["change.ratio"]


def test_columns_average_each_problem():
    changes = made()
    columns = {column.name: column.values_P for column in change_columns(changes)}
    for problem in range(changes.problems):
        here = changes.problem_N == problem
        assert columns["change.measured"][problem] == pytest.approx(changes.measured_N[here].mean())
        assert columns["change.predicted"][problem] == pytest.approx(changes.predicted_N[here].mean())


def test_what_does_not_exist_is_none_and_says_why():
    base = made(problems=1)
    flat = Changes(**{**vars(base), "advantage_N": np.ones(120), "measured_N": np.zeros(120)})
    of = {row.metric: row for row in change_metrics(flat, "", 0)}
    for name, reason in {
        "change.ratio": "nothing changed",
        "correlation.predicted": "the same at every token",
        "quadrant.none.advantage": "no such tokens",
        "quadrant.positive.expected.measured_share": "nothing changed",
    }.items():
        assert of[name].value is None
        assert reason in of[name].note
    assert of["quadrant.none.tokens"].value == 0
    assert of["correlation.tabular"].low is None
    assert of["change.predicted"].low is None
    assert "one problem" in of["change.predicted"].note
