"""A finished pipeline in the terminal: its boundaries in one table, then what was found along the way."""

from typing import TYPE_CHECKING

from rich.table import Table

from .terminal import console

if TYPE_CHECKING:
    from entropy_lab.diagnostics.metric import Metric
    from entropy_lab.workflows.outcome import Analysis

COLUMNS = {
    "pass@1": "pass@1",
    "coverage.family": "family cov.",
    "entropy.token_mean": "entropy",
    "triage.pass_ratio": "p/p*",
    "triage.degenerate": "flat groups",
}


def show_pipeline(analysis: "Analysis") -> None:
    """Print boundaries in the order in which they were reached, and the metrics of the pipeline as a whole."""
    out = console()
    table = Table(box=None, header_style="bold", pad_edge=False, highlight=False)
    table.add_column("boundary", overflow="fold")
    for label in COLUMNS.values():
        table.add_column(label, justify="right")
    for one in analysis.diagnosis.checkpoints:
        found = {metric.metric: metric for metric in one.metrics}
        table.add_row(one.name, *(_cell(found.get(name)) for name in COLUMNS))
    out.print(table)
    for note in analysis.diagnosis.notes:
        out.print(note, markup=False, soft_wrap=True)
    out.print(f"report {analysis.report}", markup=False, soft_wrap=True)


def _cell(metric: "Metric | None") -> str:
    """The value, and its interval below it."""
    if metric is None or metric.value is None:
        return "—"
    ends = "" if metric.low is None else f"\n[{metric.low:.3f}, {metric.high:.3f}]"
    return f"{metric.value:.3f}{ends}"
