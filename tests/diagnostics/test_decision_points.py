"""Decision blocks against a token-by-token reference."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import diagnostics as oracle

from entropy_lab.diagnostics.decision_points import Rule, decision_blocks, opening_tokens
from entropy_lab.errors import InputError
from entropy_lab.ragged import Ragged

# Few distinct values, exact in float32, so that ties and flat rows are common.
ROWS = st.lists(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 3.5]), max_size=30), max_size=8)
RULES = st.one_of(
    st.builds(Rule, st.just("quantile"), st.sampled_from([0.0, 0.5, 0.8, 1.0])),
    st.builds(Rule, st.sampled_from(["top-k", "low-logprob"]), st.integers(1, 6)),
    st.builds(Rule, st.just("threshold"), st.sampled_from([0.0, 0.5, 4.0])),
)


def tuples(blocks):
    fields = (
        blocks.row,
        blocks.start,
        blocks.stop,
        blocks.peak,
        blocks.peak_entropy,
        blocks.mean_entropy,
        blocks.share,
    )
    return list(zip(*(field.tolist() for field in fields), strict=True))


@given(ROWS, RULES, st.integers(1, 5), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_blocks_equal_the_reference_and_are_disjoint_and_cover_the_picks(rows, rule, gap, random):
    entropies = Ragged.of(rows, np.float32)
    surprisal = [[random.choice([0.5, 1.0, 3.0]) for _ in row] for row in rows]
    logprobs = Ragged.of([[-s for s in row] for row in surprisal], np.float32)
    blocks = decision_blocks(entropies, rule, gap=gap, logprobs=logprobs)
    picks = oracle.pick(list(entropies), rule.kind, rule.value, list(logprobs))
    found = tuples(blocks)
    expected = oracle.blocks(list(entropies), picks, gap)
    assert [block[:4] for block in found] == [block[:4] for block in expected]
    assert np.array(found) == pytest.approx(np.array(expected), abs=1e-6)
    for before, after in pairwise(found):
        assert before[0] < after[0] or (before[0] == after[0] and before[2] + gap <= after[1])
    for row, picked in enumerate(picks):
        for position in picked:
            assert any(block[0] == row and block[1] <= position < block[2] for block in found)


def test_default_rule_takes_ties_at_the_quantile():
    entropies = Ragged.of([[0.0] * 16 + [1.0] * 4])
    blocks = decision_blocks(entropies)
    assert tuples(blocks) == [(0, 16, 20, 16, 1.0, 1.0, 1.0)]
    assert blocks.level == pytest.approx(0.2)


def test_picks_within_the_gap_are_one_block():
    row = [0.0, 2.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 3.0, 0.0]
    blocks = decision_blocks(Ragged.of([row]), Rule("threshold", 0.5))
    assert [block[:4] for block in tuples(blocks)] == [(0, 1, 5, 1), (0, 8, 9, 8)]
    assert blocks.mean_entropy == pytest.approx([3 / 4, 3])
    assert blocks.share == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("rule", [Rule(), Rule("top-k", 3), Rule("threshold", 0.0), Rule("low-logprob", 2)])
def test_flat_and_short_trajectories_have_no_blocks(rule):
    """G6."""
    rows = [[1.0] * 10, [5.0], [], [0.0] * 3]
    blocks = decision_blocks(Ragged.of(rows), rule, logprobs=Ragged.of(rows))
    assert len(blocks) == 0
    nothing = decision_blocks(Ragged.of([]), rule, logprobs=Ragged.of([]))
    assert len(nothing) == 0
    assert len(opening_tokens(nothing, Ragged.of([]), Ragged.of([])).token_id) == 0


def test_masked_tokens_are_not_picked_but_keep_their_place():
    """L3, L6: an observation of entropy 9 neither opens a block nor moves the quantile."""
    row = [0.0, 1.0, 9.0, 9.0, 9.0, 9.0, 2.0, 0.5]
    mask = np.array([1, 1, 0, 0, 0, 0, 1, 1], bool)
    blocks = decision_blocks(Ragged.of([row]), Rule("threshold", 1.0), policy_mask=mask)
    assert [block[:4] for block in tuples(blocks)] == [(0, 1, 2, 1), (0, 6, 7, 6)]
    assert blocks.share == pytest.approx([1 / 3.5, 2 / 3.5])
    joined = decision_blocks(Ragged.of([row]), Rule("threshold", 1.0), policy_mask=mask, gap=5)
    assert tuples(joined) == [(0, 1, 7, 6, 2.0, 1.5, pytest.approx(3 / 3.5))]


@given(ROWS, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_order_of_trajectories_changes_nothing(rows, random):
    """L6: the quantile is the run's, so blocks follow their trajectory wherever it stands."""
    order = random.sample(range(len(rows)), len(rows))
    straight = decision_blocks(Ragged.of(rows, np.float32))
    shuffled = decision_blocks(Ragged.of([rows[i] for i in order], np.float32))
    assert sorted((order[b[0]], *b[1:3]) for b in tuples(shuffled)) == [b[:3] for b in tuples(straight)]


def test_blocks_of_one_trajectory():
    blocks = decision_blocks(Ragged.of([[0.0, 3.0], [0.0, 0.0], [2.0, 0.0]]), Rule("threshold", 1.0))
    assert [blocks.start[blocks.of(row)].tolist() for row in range(3)] == [[1], [], [0]]


def test_opening_tokens_are_counted_by_frequency():
    entropies = Ragged.of([[0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 2.0], [1.0, 0.0]])
    token_ids = Ragged.of([[5, 7, 5, 5, 5, 5, 9], [7, 5]], np.int32)
    opening = opening_tokens(decision_blocks(entropies, Rule("threshold", 0.5)), token_ids, entropies)
    assert opening.token_id.tolist() == [7, 9]
    assert opening.count.tolist() == [2, 1]
    assert opening.share == pytest.approx([2 / 3, 1 / 3])
    assert opening.mean_entropy == pytest.approx([2.0, 2.0])


@pytest.mark.parametrize(("kind", "value"), [("quantile", 1.5), ("top-k", 0), ("top-k", 2.5), ("low-logprob", -1)])
def test_impossible_rules_are_refused(kind, value):
    with pytest.raises(InputError, match=str(value)):
        Rule(kind, value)


@pytest.mark.parametrize("logprobs", [None, Ragged.of([[-1.0]])])
def test_low_logprob_needs_aligned_logprobs(logprobs):
    with pytest.raises(InputError, match="log-probs"):
        decision_blocks(Ragged.of([[1.0, 2.0]]), Rule("low-logprob", 1), logprobs=logprobs)
