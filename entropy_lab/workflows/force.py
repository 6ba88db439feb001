"""`force`: a checkpoint in; how often it opens each entrance by itself, and how well it finishes when made to, out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.diagnostics.forcing import FamilyTable, access_bins, forcing_columns, forcing_metrics
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.tabulate import mean_metrics
from entropy_lab.engines import open_engine
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.interventions.forcing import countdown_task, scaffold_of
from entropy_lab.interventions.prefix_ladder import Ladder, ladder
from entropy_lab.progress import Progress, Silent
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import open_run
from entropy_lab.tasks.countdown.task import Countdown
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Problem
from entropy_lab.workflows.asked import (
    announce,
    check_counts,
    checkpoint_settings,
    chosen_problems,
    deciding_versions,
    rows_of,
    task_settings,
)
from entropy_lab.workflows.forced_table import entrance_masses, family_table, forced_requests, write_families
from entropy_lab.workflows.outcome import Analysis, publish
from entropy_lab.workflows.sampling import Order, order_of, sample_into

if TYPE_CHECKING:
    from entropy_lab.reports.style import Drawing

DEFAULT_CHECKPOINT = "builtin:sft"


@dataclass(frozen=True)
class ForcePlan:
    """What `force` is asked. `problems` None means all.

    `samples` are free ones a problem; each family gets `continuations` at each level. `scaffold` None is the default
    of the task's answer format.
    """

    checkpoint: str = DEFAULT_CHECKPOINT
    task: str = "countdown"
    problems: int | None = 50
    samples: int = 64
    continuations: int = 16
    scaffold: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    engine: str = "auto"
    prompt: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    trust_remote_code: bool = False


def force(plan: ForcePlan, out: Path | None = None, progress: Progress | None = None) -> Analysis:
    """Sample a checkpoint freely and after every prefix of the ladder; measure access, execution and the controls.

    The run directory also gets `families.parquet`, one row a (problem, family). The same plan finds its run again and
    continues it. Raises InputError for anything wrong with the plan, the checkpoint or the task.
    """
    progress = progress or Silent()
    _check(plan)
    task = countdown_task(load_task(plan.task))
    asked = chosen_problems(task, plan.problems)
    ladders = _ladders(task, asked, plan)
    checkpoint = load_checkpoint(
        plan.checkpoint, device=plan.device, dtype=plan.dtype, trust_remote_code=plan.trust_remote_code
    )
    announce([checkpoint], progress)
    problems = [one.problem for one in ladders]
    free = order_of(checkpoint, task, problems, plan.samples, plan.sampling, plan.prompt)
    forced = forced_requests(checkpoint, free.requests, ladders, plan.continuations)
    order = replace(free, requests=forced.requests)
    with open_run("force", _settings(plan, task, order, len(asked)), out) as run:
        run.note(
            asked=asdict(plan),
            generation_defaults_not_applied={checkpoint.name: dict(checkpoint.generation_defaults)},
        )
        masses = entrance_masses(order, free.requests, ladders, progress)
        with closing(open_engine(plan.engine, checkpoint, rows_of(run, order.name), progress)) as engine:
            parts = sample_into(run, 0, order, engine, progress)
        rollouts = run.rollouts(parts)
        table = family_table(rollouts, forced.prefix_of, ladders, masses)
        ids = [problem.id for problem in problems]
        write_families(run, table, ids)
        notes = _metric_notes(task, ladders)
        metrics = forcing_metrics(table, order.name, notes, seed=plan.sampling.seed)
        diagnosis = Diagnosis(
            title=f"{order.name}, forced entrances",
            task=task.name,
            checkpoints=(
                CheckpointDiagnosis.of_metrics(order.name, metrics, len(problems), trajectory_count=len(rollouts)),
            ),
            settings=run.record,
            notes=_notes(asked, ladders, rollouts),
            drawings=_drawings(table, metrics, plan.sampling.seed),
        )
        columns = {column.name: column.values_P for column in forcing_columns(table, notes)}
        return publish(run, diagnosis, ids, {order.name: columns}, progress)


def _check(plan: ForcePlan) -> None:
    check_counts(plan.problems, plan.samples, None, plan.sampling, plan.engine)
    if plan.continuations < 1:
        raise InputError(f"--continuations is {plan.continuations}; at least 1 is needed.")
    if plan.sampling.temperature == 0 and plan.continuations > 1:
        raise InputError(
            f"--temperature 0 gives {plan.continuations} equal continuations; use --continuations 1 or a temperature "
            "above 0."
        )


def _ladders(task: Countdown, problems: Sequence[Problem], plan: ForcePlan) -> list[Ladder]:
    found = [ladder(task, problem, plan.scaffold, plan.sampling.seed) for problem in problems]
    ladders = [one for one in found if one is not None]
    if not ladders:
        raise InputError(
            f"None of the {len(problems)} problems of task {task.name} has an entrance to force: they are unsolvable, "
            "of a single number, or too large to enumerate; give other --problems or another --task."
        )
    return ladders


def _settings(plan: ForcePlan, task: Countdown, order: Order, problems: int) -> dict[str, object]:
    """What decides the rollouts, and therefore names the run."""
    return {
        "checkpoints": [checkpoint_settings(order.checkpoint, plan.prompt, order.requests)],
        "task": task_settings(task, plan.task, problems),
        "samples": plan.samples,
        "continuations": plan.continuations,
        "scaffold": scaffold_of(task, plan.scaffold),
        "sampling": asdict(plan.sampling),
        "engine": plan.engine,
        "versions": deciding_versions(),
    }


def _metric_notes(task: Countdown, ladders: Sequence[Ladder]) -> dict[str, str]:
    """What a level leaves out, beside its number."""
    skipped = Counter[str]()
    for one in ladders:
        skipped.update(one.skipped)
    families = sum(len(one.menu) for one in ladders)
    notes = {
        name: f"{skipped[level]} of {families} families left out: each value gives the answer away or cannot be stated"
        for name, level in (("force.execution_value", "value"), ("force.corrupted", "corrupted"))
        if skipped[level]
    }
    if task.form == "expression":
        second = "second operand without its value, as expressions state none"
        notes["force.execution_value"] = "; ".join(filter(None, (second, notes.get("force.execution_value"))))
    return notes


def _notes(asked: Sequence[Problem], ladders: Sequence[Ladder], rollouts: Rollouts) -> tuple[str, ...]:
    notes = []
    left_out = len(asked) - len(ladders)
    if left_out:
        notes.append(
            f"{left_out} of {len(asked)} problems have no menu (unsolvable, of one number, or too large to enumerate) "
            "and are left out."
        )
    truncated = sum(reason == "length" for reason in rollouts.strings("finish_reason"))
    if truncated:
        notes.append(
            f"{truncated / len(rollouts):.1%} of completions were cut off at the length limit and count as they stand."
        )
    return tuple(notes)


def _drawings(table: FamilyTable, metrics: Sequence[Metric], seed: int) -> "tuple[Drawing, ...]":
    from entropy_lab.reports.drawings import Point, levels, scatter

    of: Mapping[str, Metric] = {metric.metric.removeprefix("force."): metric for metric in metrics}
    steps = levels(
        "forced_levels",
        "What forcing an entrance does",
        "Share of completions that end correct and in the family (controls: correct at all), mean over a problem's "
        "families.",
        ("nothing", "entrance", "entrance + value", "infeasible", "corrupted value"),
        {
            "all families": [of["free"], of["execution"], of["execution_value"], None, None],
            "low-access families": [
                *(of[f"low_access.{name}"] for name in ("free", "forced", "forced_value")),
                None,
                None,
            ],
            "controls": [None, None, None, of["infeasible"], of["corrupted"]],
        },
        ylabel="correct and in the family",
        xlabel="forced beginning",
    )
    points = []
    for label, access, execution in access_bins(table):
        x, y = mean_metrics([access, execution], "", seed=seed)
        points.append(Point(label, x, y, marked=True))
    spread = scatter(
        "access_execution",
        "Access and execution",
        "Families of all menus by how often the free samples start with them; means over problems.",
        points,
        xlabel="access: share of first calculations",
        ylabel="execution when forced",
    )
    return tuple(drawing for drawing in (steps, spread) if drawing is not None)
