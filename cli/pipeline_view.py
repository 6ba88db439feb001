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
    whole: list[Metric] = []
    for one in analysis.diagnosis.checkpoints:
        found = {metric.metric: metric for metric in one.metrics}
        if "pass@1" not in found:
            whole += one.metrics
            continue
        table.add_row(one.name, *(_cell(found.get(name), "\n") for name in COLUMNS))
    out.print(table)
    for metric in whole:
        out.print(
            f"{metric.metric}: {_cell(metric, ' ')} (n = {metric.n}; {metric.note})", markup=False, soft_wrap=True
        )
    out.print(f"report {analysis.report}", markup=False, soft_wrap=True)


def _cell(metric: "Metric | None", between: str) -> str:
    """The value, and its interval behind or below it."""
    if metric is None or metric.value is None:
        return "—"
    ends = "" if metric.low is None else f"{between}[{metric.low:.3f}, {metric.high:.3f}]"
    return f"{metric.value:.3f}{ends}"
