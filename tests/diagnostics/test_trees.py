"""Trees worked out by hand, and their invariance."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entropy_lab.diagnostics.trees import Branch, opening_columns, states_of, tree_columns, value_columns

HAND = [
    *(Branch("p", "p 0", 0, 0.25, reward) for reward in (1, 0, 0, 0)),
    *(Branch("p", "p 0", 3, 0.5, reward) for reward in (1, 0, 1, 0)),
    *(Branch("p", "p 0", 7, 1.0, reward) for reward in (1, 1, 1, 1)),
    *(Branch("p", "p 1", 0, 0.0, reward) for reward in (0, 0)),
    *(Branch("q", "q 2", 0, 0.5, reward) for reward in (0, 1)),
    *(Branch("q", "q 2", 1, 0.0, reward) for reward in (0, 0)),
]


def means(columns):
    return {column.name: float(np.nanmean(column.values_P)) for column in columns}


def test_by_hand():
    states = states_of(HAND)
    assert [(one.tree, one.index, one.position, one.degenerate) for one in states] == [
        ("p 0", 0, 0, False),
        ("p 0", 1, 3, False),
        ("p 0", 2, 7, True),
        ("p 1", 0, 0, True),
        ("q 2", 0, 0, False),
        ("q 2", 1, 1, True),
    ]
    assert [one.gain for one in states if one.index] == [0.25, 0.5, -0.5]
    assert means(tree_columns(states)) == pytest.approx(
        {
            "tree.states": (2 + 2) / 2,  # problem p has trees of three states and of one
            "tree.position": (5 + 1) / 2,
            "tree.value.root": (0.125 + 0.5) / 2,
            "tree.value.later": (0.75 + 0.0) / 2,
            "tree.gain": (0.375 - 0.5) / 2,
            "tree.degenerate": (0.5 + 0.5) / 2,
        }
    )
    assert means(value_columns(states)) == pytest.approx(
        {"tree.value.0": (0.125 + 0.5) / 2, "tree.value.1": (0.5 + 0.0) / 2, "tree.value.2": 1.0}
    )


def test_trees_of_unequal_depth_have_a_place_for_every_problem():
    states = states_of([*HAND, Branch("r", "r 0", 0, 0.5, 0.0), Branch("r", "r 0", 0, 0.5, 1.0)])
    columns = [*tree_columns(states), *value_columns(states)]
    assert {len(column.values_P) for column in columns} == {3}
    assert {column.name for column in columns if math.isnan(column.values_P[2])} == {
        *("tree.position", "tree.value.later", "tree.gain", "tree.value.1", "tree.value.2")
    }


def test_openings_are_ranked_by_how_often():
    rows = opening_columns(states_of(HAND), ["root", "+", "=", "root", "root", "+"], 2)
    assert [(text, times) for text, times, *_ in rows] == [("+", 2), ("=", 1)]
    assert rows[0][2].values_P.tolist() == [0.5, 0.0]
    assert rows[0][3].values_P.tolist() == [0.25, -0.5]


@given(st.permutations(HAND))
def test_the_order_of_rows_changes_nothing(rows):
    assert repr(states_of(rows)) == repr(states_of(HAND))


def test_unknown_rewards_are_not_called_alike():
    (state,) = states_of([Branch("p", "p 0", 0, 0.5, math.nan)] * 2)
    assert not state.degenerate


def test_no_trees_are_no_numbers():
    assert states_of([]) == []
    assert value_columns([]) == []
    assert all(not len(column.values_P) for column in tree_columns([]))
