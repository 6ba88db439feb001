"""The summary of a diagnosis for a terminal, as rich renderables: readable at 80 columns and without colour.

Nothing is printed here. Model text goes into `Text`, so no markup, emoji code or escape sequence in it takes effect.
"""

import re

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import Diagnosis
from entropy_lab.reports.selection import MetricRow, decision_rows, headline_rows
from entropy_lab.reports.visible import label, short_name
from entropy_lab.reports.wording import ABSENT, metric_name, number, parts, percent, sentence, spoken_unit

_COLUMN = 16  # the widest usual interval: [−0.244, −0.189]
_PIECE = re.compile(rf"[^:/-]{{0,{_COLUMN - 1}}}[:/-]|[^:/-]{{1,{_COLUMN}}}")
_NOTE_LIMIT = 400
_DECISION_TOKENS = 5


def _table(first: str, *headings: str, first_width: int | None = None) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(Text(first), overflow="fold", vertical="top", max_width=first_width)
    for heading in headings:
        table.add_column(Text(heading), justify="right", no_wrap=True, vertical="top")
    return table


def _names(diagnosis: Diagnosis) -> list[str]:
    """Names broken into lines that fit a number column, after a `:`, `/` or `-` where there is one."""
    return [_folded(short_name(checkpoint.name, _COLUMN * 3)) for checkpoint in diagnosis.checkpoints]


def _folded(name: str) -> str:
    lines = [""]
    for piece in _PIECE.findall(name):
        if len(lines[-1]) + len(piece) > _COLUMN:
            lines.append("")
        lines[-1] += piece
    return "\n".join(lines)


def _counts(row: MetricRow) -> str:
    return " / ".join(f"{count:,}" for count in row.counts)


def _metrics_of_one(diagnosis: Diagnosis) -> Table:
    table = _table("metric", "value", "interval", "n")
    for row in headline_rows(diagnosis):
        for metric in filter(None, row.cells):
            value, interval = parts(metric)
            name = metric_name(row.name, diagnosis.early_tokens)
            table.add_row(Text(name), Text(value + spoken_unit(row.unit)), Text(interval), Text(_counts(row)))
    return table


def _stacked(metric: Metric | None) -> Text:
    if metric is None:
        return Text(ABSENT)
    value, interval = parts(metric)
    return Text(f"{value}{spoken_unit(metric.unit)}\n{interval}")


def _metrics_of_many(diagnosis: Diagnosis) -> Table:
    differences = ["difference"] if diagnosis.differences else []
    table = _table("metric", *_names(diagnosis), *differences, "n", first_width=20)
    for row in headline_rows(diagnosis):
        cells = [*row.cells, *([row.difference] if differences else [])]
        name = metric_name(row.name, diagnosis.early_tokens)
        table.add_row(Text(name), *map(_stacked, cells), Text(_counts(row).replace(" / ", "\n")))
    return table


def _decision_tokens(diagnosis: Diagnosis) -> Table:
    headings = _names(diagnosis) if len(diagnosis.checkpoints) > 1 else ["share (blocks)"]
    table = _table("token", *headings, first_width=24)
    for row in decision_rows(diagnosis, _DECISION_TOKENS):
        cells = [ABSENT if cell is None else f"{number(cell.share)} ({cell.count:,})" for cell in row.cells]
        table.add_row(Text(label(row.text, 24, spaces=True)), *map(Text, cells))
    return table


def summary(diagnosis: Diagnosis) -> RenderableType:
    """The sentence, the main metrics with interval and n, the tokens that open decision blocks, and the notes.

    Three or more checkpoints need more than 80 columns.
    """
    gap = Text("")
    blocks: list[RenderableType] = [Text(label(diagnosis.title, 200), style="bold"), gap, Text(sentence(diagnosis))]
    if headline_rows(diagnosis):
        table = _metrics_of_one if len(diagnosis.checkpoints) == 1 else _metrics_of_many
        differences = " Differences are the first minus the second." if diagnosis.differences else ""
        legend = f"Intervals are {percent(diagnosis.confidence)}.{differences}"
        blocks += [gap, table(diagnosis), gap, Text(legend)]
    if decision_rows(diagnosis, 1):
        blocks += [gap, Text("Tokens that open decision blocks: share (blocks)", style="bold"), gap]
        blocks.append(_decision_tokens(diagnosis))
    if diagnosis.notes:
        blocks.append(gap)
    blocks += [Text(f"Note: {label(note, _NOTE_LIMIT)}") for note in diagnosis.notes]
    return Group(*blocks)
