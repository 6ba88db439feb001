"""How the command line shows progress (on stderr, to a person at a terminal) and results (on stdout)."""

import sys
from dataclasses import asdict
from json import dump
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

if TYPE_CHECKING:
    from entropy_lab.workflows.outcome import Analysis


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        unit = str(task.fields["unit"])
        if task.speed is None:
            return Text(f"- {unit}/s", no_wrap=True)
        return Text(f"{task.speed:,.3g} {unit}/s" if task.speed < 100 else f"{task.speed:,.0f} {unit}/s", no_wrap=True)


class TerminalStage:
    """One bar with count, rate and time left; nothing at all where stderr is no terminal."""

    def __init__(self, console: Console, name: str, total: int, unit: str, done: int) -> None:
        self._bars = RichProgress(
            SpinnerColumn(),
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(max_width=30, no_wrap=True, overflow="ellipsis"),
            ),
            BarColumn(bar_width=10),
            MofNCompleteColumn(),
            _Rate(),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._bars.add_task(name, total=total, completed=done, unit=unit)

    def advance(self, amount: int = 1) -> None:
        """Count `amount` more units."""
        self._bars.advance(self._task, amount)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()


class TerminalProgress:
    """Progress on stderr: bars for people, notes for everybody."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)

    def stage(self, name: str, total: int, unit: str, done: int = 0) -> TerminalStage:
        """Open a bar."""
        return TerminalStage(self._console, name, total, unit, done)

    def note(self, text: str) -> None:
        """Print one line."""
        self._console.print(text, markup=False, style="dim")


def print_json(content: Any) -> None:
    """The one JSON document of `--json`; strict, so a NaN raises instead of being printed."""
    dump(content, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def console() -> Console:
    """Standard output; 80 columns where its width is unknown."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=max(80, min(out.width, 120)))


def show(analysis: "Analysis", json: bool) -> None:
    """A finished analysis on stdout: the summary for a person, or run, report and metrics as one JSON document."""
    if json:
        print_json(document(analysis))
        return
    from entropy_lab.reports.terminal import summary

    out = console()
    out.print(summary(analysis.diagnosis))
    out.print(f"report {analysis.report}", markup=False, soft_wrap=True)


def document(analysis: "Analysis") -> dict[str, Any]:
    """What `--json` prints of an analysis."""
    metrics = [asdict(metric) for metric in analysis.metrics]
    return {"run": str(analysis.folder), "report": str(analysis.report), "metrics": metrics}
