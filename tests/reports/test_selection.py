from dataclasses import replace

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import DecisionToken, Diagnosis
from entropy_lab.reports.selection import decision_rows, headline_rows, metric_groups, metric_rows, pair_rows


def test_rows_stand_side_by_side_and_lose_nothing(compared: Diagnosis) -> None:
    extra = Metric("shift.ratio", 2.0, 1.5, 2.5, "", 40)
    rows = {row.name: row for row in metric_rows(replace(compared, differences=(*compared.differences, extra)))}
    assert set(rows) == {metric.metric for metric in compared.checkpoints[0].metrics} | {"shift.ratio"}
    assert [cell.checkpoint for cell in rows["pass@1"].cells] == [part.name for part in compared.checkpoints]
    assert rows["pass@1"].difference == compared.differences[0]
    assert rows["pass@2"].difference is None
    assert rows["shift.ratio"].cells == (None, None)


def test_headlines_drop_numbers_without_interval(single: Diagnosis) -> None:
    bare = Metric("pass@1", 0.5, None, None, "share", 100)
    part = replace(single.checkpoints[0], metrics=(bare, Metric("entropy.early", 1.0, 0.9, 1.1, "nats", 100)))
    assert [row.name for row in headline_rows(replace(single, checkpoints=(part,)))] == ["entropy.early"]


def test_headlines_drop_the_one_cell_without_interval(compared: Diagnosis) -> None:
    first, second = compared.checkpoints
    bare = tuple(replace(metric, low=None, high=None) for metric in second.metrics)
    rows = headline_rows(replace(compared, checkpoints=(first, replace(second, metrics=bare))))
    assert all(row.cells[0] is not None and row.cells[1] is None for row in rows)


def test_counts_are_one_number_where_they_agree(compared: Diagnosis) -> None:
    first, second = compared.checkpoints
    fewer = tuple(replace(metric, n=7) for metric in second.metrics)
    assert {row.name: row.counts for row in metric_rows(compared)}["pass@1"] == (100,)
    rows = metric_rows(replace(compared, checkpoints=(first, replace(second, metrics=fewer))))
    assert {row.name: row.counts for row in rows}["pass@1"] == (100, 7)


def test_groups_follow_the_dotted_names(single: Diagnosis) -> None:
    assert list(metric_groups(metric_rows(single))) == ["pass@k", "entropy", "coverage", "sampling", "answers"]


def test_decision_rows_take_the_largest_share_of_either_side(compared: Diagnosis) -> None:
    first = (DecisionToken("a", 9, 0.9, 1.0), DecisionToken("b", 1, 0.1, 1.0))
    second = (DecisionToken("c", 5, 0.5, 1.0), DecisionToken("a", 5, 0.5, 1.0))
    parts = [
        replace(part, decision_tokens=tokens)
        for part, tokens in zip(compared.checkpoints, (first, second), strict=True)
    ]
    rows = decision_rows(replace(compared, checkpoints=tuple(parts)), 2)
    assert [row.text for row in rows] == ["a", "c"]
    assert rows[1].cells == (None, second[0])


def test_pairs_of_more_than_two_keep_every_difference_and_lead_as_headlines_do(several: Diagnosis) -> None:
    odd = Metric("zeta", 0.1, 0.0, 0.2, "", 3, "a - b")
    rows = pair_rows(replace(several, differences=(odd, *several.differences)))
    assert [row.name for row in rows[:2]] == ["pass@1", "pass@64"]
    assert rows[-1].differences == (odd,)
    assert sum(len(row.differences) for row in rows) == len(several.differences) + 1
    assert all(row.difference is None for row in metric_rows(several))


def test_two_checkpoints_have_their_differences_beside_them(compared: Diagnosis) -> None:
    assert pair_rows(compared) == ()
    other = replace(compared.differences[0], checkpoint="another - pair")
    assert len(pair_rows(replace(compared, differences=(*compared.differences, other)))[0].differences) == 2


def test_one_pair_of_three_is_not_a_column(several: Diagnosis) -> None:
    pair = several.differences[0].checkpoint
    only = tuple(metric for metric in several.differences if metric.checkpoint == pair)
    rows = pair_rows(replace(several, differences=only))
    assert [metric for row in rows for metric in row.differences] == list(only)
