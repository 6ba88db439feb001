"""The summary of a diagnosis for a terminal, as rich renderables: readable at 80 columns and without colour.

Nothing is printed here. Model text goes into `Text`, so no markup, emoji code or escape sequence in it takes effect.
"""

import re
from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import Diagnosis
from entropy_lab.reports.names import metric_name
from entropy_lab.reports.selection import MetricRow, decision_rows, headline_rows, is_pair, pair_rows
from entropy_lab.reports.sentences import sentence
from entropy_lab.reports.visible import label, short_name
from entropy_lab.reports.wording import ABSENT, has_interval, is_clear, number, parts, percent, spoken_unit

_COLUMN = 16  # the widest usual interval: [−0.244, −0.189]
_PIECE = re.compile(rf"[^:/ -]{{0,{_COLUMN - 1}}}[:/ -]|[^:/ -]{{1,{_COLUMN}}}")
_WIDTH = 80
_ARM, _HEADING = 18, 14
_PAIR, _PAIRS = 25, 20
_NOTE_LIMIT = 400
_DECISION_TOKENS = 5


def _table(first: str, *headings: str, first_width: int | None = None, gap: int = 1) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, gap, 0, 0), header_style="bold")
    table.add_column(Text(first), overflow="fold", vertical="top", max_width=first_width)
    for heading in headings:
        table.add_column(Text(heading), justify="right", no_wrap=True, vertical="top")
    return table


def _names(diagnosis: Diagnosis, width: int = _COLUMN) -> list[str]:
    return [_folded(short_name(checkpoint.name, width * 3), width) for checkpoint in diagnosis.checkpoints]


def _folded(name: str, width: int) -> str:
    """A name broken into lines that fit its column, after a `:`, `/`, `-` or space where there is one."""
    lines = [""]
    for piece in _PIECE.findall(name):
        if len(lines[-1]) + len(piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


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
    differences = ["difference"] if is_pair(diagnosis) else []
    table = _table("metric", *_names(diagnosis), *differences, "n", first_width=20)
    for row in headline_rows(diagnosis):
        cells = [*row.cells, *([row.difference] if differences else [])]
        name = metric_name(row.name, diagnosis.early_tokens)
        table.add_row(Text(name), *map(_stacked, cells), Text(_counts(row).replace(" / ", "\n")))
    return table


def _heading(row: MetricRow, early_tokens: int) -> str:
    lines = wrap(metric_name(row.name, early_tokens), _HEADING)
    return "\n".join((*lines, f"n = {_counts(row)}") if len(row.counts) == 1 else lines)


def _of_arm(row: MetricRow, metric: Metric | None) -> Text:
    text = _stacked(metric)
    return text if metric is None or len(row.counts) == 1 else text.append(f"\nn = {metric.n:,}")


def _leading(diagnosis: Diagnosis) -> tuple[MetricRow, ...]:
    """The metrics shown of arms: three tables of a few arms, two of many."""
    return headline_rows(diagnosis)[: 12 if len(diagnosis.checkpoints) <= 4 else 8]


def _metrics_of_arms(diagnosis: Diagnosis) -> Iterator[Table]:
    """Arms as rows, the first main metrics as columns: as many tables as 80 columns make of them."""
    columns = [
        (_heading(row, diagnosis.early_tokens), [_of_arm(row, metric) for metric in row.cells])
        for row in _leading(diagnosis)
    ]
    names = _names(diagnosis, _ARM)
    while columns:
        width, fitting = _ARM, 0
        for heading, cells in columns:
            width += 1 + max(len(line) for text in (heading, *map(str, cells)) for line in text.splitlines())
            if width > _WIDTH and fitting:
                break
            fitting += 1
        yield _arms_table(names, columns[:fitting])
        columns = columns[fitting:]


def _arms_table(names: Sequence[str], columns: Sequence[tuple[str, Sequence[Text]]]) -> Table:
    table = _table("", *(heading for heading, _ in columns), first_width=_ARM, gap=0)
    for name, *cells in zip(names, *(cells for _, cells in columns), strict=True):
        table.add_row(Text(name), *cells)
    return table


def _clear_differences(diagnosis: Diagnosis) -> list[RenderableType]:
    """The differences of several pairs whose intervals leave out zero, by metric; how many there are in all."""
    led = {row.name for row in _leading(diagnosis)}
    rows = [
        (metric_name(row.name, diagnosis.early_tokens), metric)
        for row in pair_rows(diagnosis)
        for metric in row.differences
        if row.name in led and has_interval(metric)
    ]
    if not rows:
        return []
    clear: dict[str, list[Metric]] = {}
    for name, metric in rows:
        if is_clear(metric):
            clear.setdefault(name, []).append(metric)
    count = sum(map(len, clear.values()))
    each = count if count <= _PAIRS else max(1, _PAIRS // len(clear))
    table = _table("metric", "first − second", "difference", "interval", "n", first_width=18)
    table.columns[1].justify = "left"
    for name, metrics in clear.items():
        for place, metric in enumerate(sorted(metrics, key=lambda metric: -abs(metric.value or 0.0))[:each]):
            value, interval = parts(metric)
            cells = (value + spoken_unit(metric.unit), interval, f"{metric.n:,}")
            table.add_row(*map(Text, (name if place == 0 else "", _pair(metric.checkpoint), *cells)))
    told = f"Differences whose interval leaves out 0: {count:,} of {len(rows):,} compared"
    told += f", the largest{f' {each}' * (each > 1)} of each metric here" if each < count else ""
    shown: list[RenderableType] = [Text(""), Text(told, style="bold")]
    return [*shown, Text(""), table] if clear else shown


def _pair(text: str) -> str:
    """`first - second` on one line, else broken between the two."""
    if len(text) <= _PAIR:
        return label(text, _PAIR)
    sides = [_folded(short_name(side, _PAIR * 2), _PAIR - 2) for side in text.split(" - ")]
    return " −\n".join(sides)


def _decision_tokens(diagnosis: Diagnosis) -> Table:
    headings = _names(diagnosis) if len(diagnosis.checkpoints) > 1 else ["share (blocks)"]
    table = _table("token", *headings, first_width=24)
    for row in decision_rows(diagnosis, _DECISION_TOKENS):
        cells = [ABSENT if cell is None else f"{number(cell.share)} ({cell.count:,})" for cell in row.cells]
        table.add_row(Text(label(row.text, 24, spaces=True)), *map(Text, cells))
    return table


def summary(diagnosis: Diagnosis) -> RenderableType:
    """The sentence, the main metrics with interval and n, the tokens that open decision blocks, and the notes.

    Three or more checkpoints stand below each other, with the differences that are clear; then the tokens that open
    decision blocks are shown of three checkpoints at most, and the rest is left to the page.
    """
    gap = Text("")
    arms = len(diagnosis.checkpoints)
    blocks: list[RenderableType] = [Text(label(diagnosis.title, 200), style="bold"), gap, Text(sentence(diagnosis))]
    if headline_rows(diagnosis):
        tables = _metrics_of_arms(diagnosis) if arms > 2 else [(_metrics_of_one, _metrics_of_many)[arms - 1](diagnosis)]
        blocks += [part for table in tables for part in (gap, table)]
        blocks += _clear_differences(diagnosis)
        differences = " Differences are the first minus the second." if diagnosis.differences else ""
        blocks += [gap, Text(f"Intervals are {percent(diagnosis.confidence)}.{differences}")]
    if decision_rows(diagnosis, 1) and arms <= 3:
        blocks += [gap, Text("Tokens that open decision blocks: share (blocks)", style="bold"), gap]
        blocks.append(_decision_tokens(diagnosis))
    if diagnosis.notes:
        blocks.append(gap)
    blocks += [Text(f"Note: {label(note, _NOTE_LIMIT)}") for note in diagnosis.notes]
    return Group(*blocks)
