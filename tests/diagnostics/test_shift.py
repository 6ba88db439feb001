import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entropy_lab.diagnostics.shift import Shifts, Split, shift_columns, shift_metrics, size, split_at
from entropy_lab.ragged import Ragged


@pytest.mark.parametrize(
    ("pieces", "start", "operator", "expected"),
    [
        (["3", "*", "5", "=", "15", "<end>"], 0, 1, (0, 2)),  # one token a number and an operator
        (["1", "3", " *", " 5", "=", "65", "<end>"], 0, 3, (0, 3)),  # digits one by one, a space before the operator
        (["3*", "5=", "15", "<end>"], 0, 1, (0, 1)),  # operator merged with its first operand
        (["3*5", "=15", "<end>"], 0, 1, (0, 1)),  # … and with the second: the whole token goes to the entrance
        (["3", "*5=", "15"], 0, 1, (0, 2)),
        (["3*5=15"], 0, 1, (0, 1)),  # nothing is left to execute
        (["<", "answer", ">", "(", "3", "*", "5", ")", "</answer>", "<end>"], 8, 10, (3, 6)),
        (["<", "answer", ">(", "3*", "5", ")"], 8, 10, (2, 4)),  # a tag that swallows the bracket is no pure scaffold
        (["<answer>", "3", "*", "5"], 8, 9, (1, 3)),
        (["", "⋅3", "", "×", "5"], 0, 2, (0, 4)),  # an unfinished character goes with the token that completes it
        (["a", "", "×", "", "é"], 0, 1, (0, 3)),
        (["<answer>", "", "×3"], 8, 8, (1, 3)),
    ],
)
def test_a_token_that_reaches_into_the_entrance_belongs_to_it(pieces, start, operator, expected):
    assert split_at(pieces, start, operator) == Split(*expected)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_parts_cover_all_but_the_scaffold_for_any_tokenisation(data):
    """Whatever the cuts: every character of the entrance is in entrance tokens, the scaffold's own tokens in none."""
    scaffold, text = data.draw(st.sampled_from(["", "<answer>", "  <answer>"])), "(12*5)+7</answer><end>"
    whole = scaffold + text
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    operator = len(scaffold) + text.index("*")
    split = split_at(pieces, len(scaffold), operator)
    assert len("".join(pieces[: split.start])) <= len(scaffold)
    assert len("".join(pieces[: split.stop])) > operator
    assert split.start < split.stop <= len(pieces)
    assert all(len("".join(pieces[:token])) <= operator for token in range(split.stop))


def made(rows, seed=0):
    """Texts of (problem, scaffold, entrance, execution) tokens with random values."""
    random = np.random.default_rng(seed)
    lengths = [sum(row[1:]) for row in rows]
    return Shifts(
        np.array([row[0] for row in rows]),
        1 + max(row[0] for row in rows),
        Ragged.of([random.normal(size=length) for length in lengths]),
        Ragged.of([random.exponential(size=length) for length in lengths]),
        np.array([row[1] for row in rows]),
        np.array([row[1] + row[2] for row in rows]),
    )


ROWS = [(0, 0, 2, 5), (0, 0, 3, 1), (1, 3, 2, 4), (2, 1, 1, 0), (2, 0, 2, 2), (3, 0, 4, 0)]


def by_hand(shifts, values, part):
    """Mean over a part's tokens, then over a problem's texts, one loop after another."""
    of_problem = {}
    for text, problem in enumerate(shifts.problem_N):
        tokens = list(values[text])
        cut = tokens[shifts.start_N[text] : shifts.stop_N[text]]
        cut = cut if part == "entrance" else tokens[shifts.stop_N[text] :]
        if cut:
            of_problem.setdefault(problem, []).append(sum(cut) / len(cut))
    return [np.mean(of_problem[p]) if p in of_problem else np.nan for p in range(shifts.problems)]


def test_columns_are_means_over_tokens_then_texts():
    shifts = made(ROWS)
    columns = {column.name: column for column in shift_columns(shifts, "a note")}
    assert len(columns) == 6
    for name, values in (("shift.{}.abs", size(shifts.delta)), ("shift.{}.mean", shifts.delta), ("kl.{}", shifts.kl)):
        for part in ("entrance", "execution"):
            column = columns[name.format(part)]
            np.testing.assert_allclose(column.values_P, by_hand(shifts, values, part), rtol=1e-12)
            assert (column.unit, column.note) == ("nats", "a note")


def test_ratio_is_of_problem_means_over_problems_with_both_parts():
    shifts = made([*ROWS, (4, 0, 2, 3), (5, 0, 2, 3)])
    columns = shift_columns(shifts)
    metrics = {row.metric: row for row in shift_metrics(columns, "a → b")}
    for ratio, top, bottom in (
        ("shift.ratio", "shift.entrance.abs", "shift.execution.abs"),
        ("kl.ratio", "kl.entrance", "kl.execution"),
    ):
        values = {column.name: column.values_P for column in columns}
        both = ~np.isnan(values[bottom])
        row = metrics[ratio]
        assert row.value == pytest.approx(values[top][both].mean() / values[bottom][both].mean())
        assert row.low < row.value < row.high
        assert (row.n, row.unit, row.checkpoint) == (5, "ratio", "a → b")
    assert metrics["shift.entrance.abs"].n == 6
    assert metrics["shift.execution.abs"].n == 5
    assert "1 of 6 problems left out: no text goes on after its first operator" in metrics["kl.execution"].note


def test_a_problem_without_any_shift_after_the_entrance_still_counts():
    shifts = made([(0, 0, 2, 3), (1, 0, 2, 3), (2, 0, 2, 3)])
    still = shifts.problem_N[shifts.delta.row_ids()] == 1
    flat = Shifts(
        shifts.problem_N,
        3,
        Ragged(np.where(still & (shifts.delta.positions() >= 2), 0, shifts.delta.values), shifts.delta.offsets),
        shifts.kl,
        shifts.start_N,
        shifts.stop_N,
    )
    metrics = {row.metric: row for row in shift_metrics(shift_columns(flat), "x")}
    assert metrics["shift.ratio"].n == 3
    assert metrics["shift.ratio"].value == pytest.approx(
        metrics["shift.entrance.abs"].value / metrics["shift.execution.abs"].value
    )


def test_equal_checkpoints_have_no_shift_and_a_ratio_without_value():
    shifts = made([(0, 0, 2, 3), (1, 0, 2, 3)])
    nothing = Ragged(np.zeros_like(shifts.kl.values), shifts.kl.offsets)
    equal = Shifts(shifts.problem_N, 2, nothing, nothing, shifts.start_N, shifts.stop_N)
    for row in shift_metrics(shift_columns(equal), "x"):
        if row.metric.endswith(".ratio"):
            assert (row.value, row.low, row.high) == (None, None, None)
            assert "no value" in row.note
        else:
            assert row.value == row.low == row.high == 0
    (ratio,) = (row for row in shift_metrics(shift_columns(made([(0, 0, 2, 0)])), "x") if row.metric == "shift.ratio")
    assert ratio.value is None
    assert ratio.n == 0


def test_curve_begins_at_the_solution_text_and_counts_problems():
    rows = [(problem, scaffold, 2, 3 + (problem == 0)) for problem in range(5) for scaffold in (0, 2)]
    shifts = made(rows)
    band = shifts.by_position(size(shifts.delta))
    assert band.x.tolist() == [0, 1, 2, 3, 4]  # a sixth token is reached by too few texts
    assert band.n.tolist() == [5] * 5
    expected = [
        np.mean([abs(shifts.delta[text][shifts.start_N[text] + place]) for text in range(10)]) for place in range(5)
    ]
    np.testing.assert_allclose(band.value, expected)
    assert (band.low <= band.value).all()
