"""How a training run is watched: one live table on stderr for a person at a terminal, notes for everybody."""

from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.table import Column, Table
from rich.text import Text

from entropy_lab.progress import Silent

if TYPE_CHECKING:
    from entropy_lab.training.recipe import Recipe

HISTORY = 60  # iterations that a curve shows
BARS = "▁▂▃▄▅▆▇█"
SHARES = frozenset({"groups.degenerate", "clip.low", "clip.high", "truncation"})
SHOWN = {
    "reward.mean": "reward",
    "accuracy": "accuracy",
    "groups": "groups",
    "entropy.token_mean": "entropy",
    "entropy.early": "early entropy",
    "groups.degenerate": "degenerate",
    "clip.low": "clip low",
    "clip.high": "clip high",
    "ratio.mean": "ratio mean",
    "ratio.max": "ratio max",
    "kl.reference": "KL reference",
    "loss": "loss",
    "length.mean": "length",
    "truncation": "truncation",
    "tokens_per_second": "tokens/s",
}
"""Metric of an iteration → its name in the table, in reading order."""
EVALUATED = {
    "coverage.family": "family cov.",
    "coverage.solution": "solution cov.",
    "entropy.problem_mean": "entropy",
    "entropy.first_calculation": "first calc. H",
}
CURVES = {"entropy.token_mean": "entropy", "reward.mean": "reward", "loss": "loss"}


class Seen:
    """What the lines of `metrics.jsonl` have said so far, as a table of at most 80 columns."""

    def __init__(self) -> None:
        self._now: dict[str, float | None] = {}
        self._first: dict[str, float | None] = {}
        self._last: dict[str, float | None] = {}
        self._history: dict[str, deque[float]] = {name: deque(maxlen=HISTORY) for name in CURVES}

    def add(self, metrics: Mapping[str, float | None]) -> None:
        """Take in one line."""
        evaluated = {name.removeprefix("evaluation."): value for name, value in metrics.items() if _is_evaluation(name)}
        if evaluated:
            self._last = {"step": metrics["step"], **evaluated}
            self._first = self._first or self._last
        iteration = {name: value for name, value in metrics.items() if not _is_evaluation(name)}
        if len(iteration) > 1:  # more than the step: not the evaluation before the first one
            self._now = iteration
        for name, values in self._history.items():
            value = metrics.get(name)
            if value is not None:
                values.append(value)

    def table(self, curves: bool = True) -> RenderableType:
        """Numbers of the last iteration and the last evaluation; `curves` adds how entropy and reward went."""
        now, first, last = self._now, self._first, self._last  # lines may come in while another thread draws
        parts: list[RenderableType] = []
        pairs = [
            (label, _share(value) if name in SHARES else _number(value))
            for name, label in SHOWN.items()
            if (value := now.get(name)) is not None
        ]
        if pairs:
            parts.append(_grid(pairs))
        if last:
            since = f", change since step {first['step']}" if first is not last else ""
            parts += [Text(f"evaluation at step {last['step']}{since}", style="bold"), _grid(_changes(first, last))]
        drawn = [(CURVES[name], list(values)) for name, values in self._history.items() if len(values) > 1]
        if curves and drawn:
            parts.append(_curves(drawn[:2]))
        return Group(*parts)


class TrainingView(Silent):
    """The view of `entropy-lab train`; also the progress of what comes before the first step.

    Nothing but notes where stderr is no terminal.
    """

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._seen = Seen()
        self._bar = Progress(
            TextColumn(
                "{task.description}",
                markup=False,
                table_column=Column(max_width=20, no_wrap=True, overflow="ellipsis"),
            ),
            BarColumn(bar_width=16),
            MofNCompleteColumn(),
            _Pace(),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=self._console,
            speed_estimate_period=600,
        )
        self._live = Live(get_renderable=self._render, console=self._console, transient=True, refresh_per_second=4)

    def start(self, recipe: "Recipe", done: int) -> None:
        """Show the bar of a run with `done` steps behind it."""
        self._bar.add_task(recipe.name, total=recipe.steps, completed=done)

    def iteration(self, metrics: Mapping[str, float | None]) -> None:
        """Show a line of `metrics.jsonl`."""
        self._seen.add(metrics)
        for task in self._bar.task_ids:
            self._bar.update(task, completed=metrics["step"])

    def note(self, text: str) -> None:
        """Print one line, above the table where there is one."""
        self._console.print(text, markup=False, style="dim", soft_wrap=not self._console.is_terminal)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def _render(self) -> RenderableType:
        curves = self._console.encoding.lower().startswith("utf")
        return Group(self._bar.get_renderable(), self._seen.table(curves))


class _Pace(ProgressColumn):
    def render(self, task: Task) -> Text:
        if not task.speed:
            return Text("- s/step", no_wrap=True)
        return Text(f"{1 / task.speed:.3g} s/step", no_wrap=True)


def _grid(pairs: list[tuple[str, str]]) -> Table:
    """Names and values, three a row."""
    table = Table.grid(padding=(0, 1))
    for _ in range(3):
        table.add_column(width=13, no_wrap=True, style="dim")
        table.add_column(width=12, no_wrap=True, justify="left")
    for start in range(0, len(pairs), 3):
        table.add_row(*(Text(cell) for pair in pairs[start : start + 3] for cell in pair))
    return table


def _changes(first: Mapping[str, float | None], last: Mapping[str, float | None]) -> list[tuple[str, str]]:
    """pass@1, pass@ the largest k, and EVALUATED: the last value, and its change since the first evaluation."""
    ks = sorted(int(name.removeprefix("pass@")) for name in last if name.startswith("pass@"))
    labels = {f"pass@{k}": f"pass@{k}" for k in (*ks[:1], *ks[1:][-1:])} | EVALUATED
    shown = []
    for name, label in labels.items():
        value, before = last.get(name), first.get(name)
        if value is not None:
            change = "" if before is None or first is last else f" {value - before:+.3f}"
            shown.append((label, f"{value:.3f}{change}"))
    return shown


def _curves(drawn: list[tuple[str, list[float]]]) -> Table:
    table = Table.grid(padding=(0, 1))
    for name, values in drawn:
        low, high = min(values), max(values)
        scale = (len(BARS) - 1) / (high - low) if high > low else 0.0
        line = "".join(BARS[round((value - low) * scale)] for value in values)
        table.add_row(Text(name, style="dim"), Text(line), Text(f"{low:.3g} to {high:.3g}", style="dim"))
    return table


def _is_evaluation(name: str) -> bool:
    return name.startswith("evaluation.")


def _share(value: float) -> str:
    return f"{value:.1%}"


def _number(value: float) -> str:
    whole = 1000 <= abs(value) < 1e7 or value in range(1000)
    return f"{value:,.0f}" if whole else f"{value:.3g}"
