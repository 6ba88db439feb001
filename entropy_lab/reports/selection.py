"""What a report shows first and side by side: the headline rows, the metric table, the decision tokens."""

from collections.abc import Iterable
from dataclasses import dataclass

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import DecisionToken, Diagnosis
from entropy_lab.reports.names import headline_names
from entropy_lab.reports.wording import by_name, has_interval


@dataclass(frozen=True)
class MetricRow:
    """One metric across the checkpoints, in their order; None where it was not measured.

    `difference` is the paired one of two checkpoints; what more of them differ by is in `pair_rows`.
    """

    name: str
    unit: str
    cells: tuple[Metric | None, ...]
    difference: Metric | None

    @property
    def counts(self) -> tuple[int, ...]:
        """The n of its numbers: one where they agree, else one a checkpoint."""
        counts = tuple(metric.n for metric in self.cells if metric is not None)
        return counts[:1] if len(set(counts)) == 1 else counts

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes of its numbers, each once."""
        metrics = (*self.cells, self.difference)
        return tuple(dict.fromkeys(metric.note for metric in metrics if metric is not None and metric.note))


@dataclass(frozen=True)
class PairRow:
    """The paired differences of one metric, whichever checkpoints they compare, in the order of the diagnosis."""

    name: str
    differences: tuple[Metric, ...]


def is_pair(diagnosis: Diagnosis) -> bool:
    """Whether all differences are those of the two checkpoints shown, so that they fit beside them in one row."""
    return len(diagnosis.checkpoints) == 2 and len({metric.checkpoint for metric in diagnosis.differences}) == 1


def pair_rows(diagnosis: Diagnosis) -> tuple[PairRow, ...]:
    """The differences that have no place beside their checkpoints, by metric: those a report leads with first."""
    if is_pair(diagnosis):
        return ()
    known: dict[str, list[Metric]] = {}
    for metric in diagnosis.differences:
        known.setdefault(metric.metric, []).append(metric)
    names = dict.fromkeys((*headline_names(diagnosis.differences), *known))
    return tuple(PairRow(name, tuple(known[name])) for name in names)


def metric_rows(diagnosis: Diagnosis) -> tuple[MetricRow, ...]:
    """Every metric of the diagnosis, in order of first appearance."""
    columns = [by_name(checkpoint.metrics) for checkpoint in diagnosis.checkpoints]
    differences = by_name(diagnosis.differences if is_pair(diagnosis) else ())
    units = {name: metric.unit for column in (differences, *reversed(columns)) for name, metric in column.items()}
    names = dict.fromkeys(name for column in (*columns, differences) for name in column)
    return tuple(
        MetricRow(name, units[name], tuple(column.get(name) for column in columns), differences.get(name))
        for name in names
    )


def headline_rows(diagnosis: Diagnosis) -> tuple[MetricRow, ...]:
    """The rows a report leads with. A number without interval and n is left out of them: it stands in the table."""
    rows = {row.name: row for row in metric_rows(diagnosis)}
    names = headline_names(metric for checkpoint in diagnosis.checkpoints for metric in checkpoint.metrics)
    return tuple(
        MetricRow(name, rows[name].unit, tuple(map(_backed, rows[name].cells)), _backed(rows[name].difference))
        for name in names
    )


def _backed(metric: Metric | None) -> Metric | None:
    return metric if metric is not None and has_interval(metric) else None


def metric_groups(rows: Iterable[MetricRow]) -> dict[str, list[MetricRow]]:
    """Rows by the first part of their dotted name; `pass@4` belongs to `pass@k`."""
    groups: dict[str, list[MetricRow]] = {}
    for row in rows:
        family = f"{row.name.split('@')[0]}@k" if "@" in row.name else row.name.split(".")[0]
        groups.setdefault(family, []).append(row)
    return groups


@dataclass(frozen=True)
class DecisionRow:
    """A token text that opens decision blocks, across the checkpoints; None where it opens none."""

    text: str
    cells: tuple[DecisionToken | None, ...]


def decision_rows(diagnosis: Diagnosis, limit: int) -> tuple[DecisionRow, ...]:
    """The `limit` token texts with the largest share of any checkpoint's decision blocks, largest first."""
    columns = [{token.text: token for token in checkpoint.decision_tokens} for checkpoint in diagnosis.checkpoints]
    texts = dict.fromkeys(text for column in columns for text in column)
    rows = [DecisionRow(text, tuple(column.get(text) for column in columns)) for text in texts]
    rows.sort(key=lambda row: -max(cell.share for cell in row.cells if cell is not None))
    return tuple(rows[:limit])
