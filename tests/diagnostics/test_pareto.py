import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.pareto import pareto

CELLS = st.one_of(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.floats(0, 1), st.just(float("nan")))
POINTS = st.integers(1, 3).flatmap(lambda d: st.lists(st.tuples(*[CELLS] * d), max_size=12))


def dominates(one, other) -> bool:
    return all(a >= b for a, b in zip(one, other, strict=True)) and any(a > b for a, b in zip(one, other, strict=True))


@given(POINTS)
def test_equals_the_definition_point_by_point(points):
    whole = [not any(np.isnan(point)) for point in points]
    expected = [
        kept and not any(ok and dominates(other, point) for other, ok in zip(points, whole, strict=True))
        for point, kept in zip(points, whole, strict=True)
    ]
    assert pareto(points).tolist() == expected


def test_a_known_front_with_a_tie_and_a_missing_value():
    points = [(0.30, 0.24), (0.26, 0.33), (0.26, 0.24), (0.10, 0.33), (0.30, 0.24), (float("nan"), 0.9)]
    assert pareto(points).tolist() == [True, True, False, False, True, False]
