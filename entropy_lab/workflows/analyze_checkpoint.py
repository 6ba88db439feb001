"""`analyze checkpoint`: a checkpoint in; a diagnosis with its run directory out."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.diagnostics.decision_points import Rule
from entropy_lab.engines import open_engine
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress, Silent
from entropy_lab.runs import open_run
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Task
from entropy_lab.workflows.asked import (
    announce,
    check_counts,
    checkpoint_settings,
    chosen_problems,
    deciding_versions,
    rows_of,
    task_settings,
)
from entropy_lab.workflows.outcome import Analysis, Reading, conclude
from entropy_lab.workflows.sampling import Order, order_of, sample_into

DEFAULT_CHECKPOINT = "builtin:sft"


@dataclass(frozen=True)
class Plan:
    """What `analyze checkpoint` is asked. `problems` None means all; `ks` None means the powers of two ≤ samples."""

    checkpoint: str = DEFAULT_CHECKPOINT
    against: str | None = None
    task: str = "countdown"
    problems: int | None = 100
    samples: int = 16
    ks: tuple[int, ...] | None = None
    sampling: Sampling = field(default_factory=Sampling)
    engine: str = "auto"
    prompt: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    trust_remote_code: bool = False
    rule: Rule = field(default_factory=Rule)


def analyze_checkpoint(plan: Plan, out: Path | None = None, progress: Progress | None = None) -> Analysis:
    """Sample, grade, score and diagnose one checkpoint, or two on the same problems.

    The same plan finds its run again and continues it. With `against`, differences are paired by problem, first minus
    second. Raises InputError for anything wrong with the plan, the checkpoints or the task.
    """
    progress = progress or Silent()
    _check(plan)
    task = load_task(plan.task)
    problems = chosen_problems(task, plan.problems)
    checkpoints = [
        load_checkpoint(name, device=plan.device, dtype=plan.dtype, trust_remote_code=plan.trust_remote_code)
        for name in (plan.checkpoint, plan.against)
        if name is not None
    ]
    announce(checkpoints, progress)
    orders = [
        order_of(checkpoint, task, problems, plan.samples, plan.sampling, plan.prompt) for checkpoint in checkpoints
    ]
    with open_run("analyze", _settings(plan, task, orders), out) as run:
        run.note(
            asked=asdict(plan),
            generation_defaults_not_applied={one.name: dict(one.generation_defaults) for one in checkpoints},
        )
        next_part = 0
        for order in orders:
            rows = rows_of(run, order.name)
            with closing(open_engine(plan.engine, order.checkpoint, rows, progress)) as engine:
                next_part = sample_into(run, next_part, order, engine, progress)
        rollouts = run.rollouts(next_part)
        return conclude(
            run,
            task,
            {checkpoint.name: (rollouts.of(checkpoint.name), checkpoint) for checkpoint in checkpoints},
            Reading(plan.ks, plan.rule, plan.sampling.seed, plan.sampling.mask_unused),
            progress,
            plan.sampling.temperature,
            kept="logprob",
        )


def _check(plan: Plan) -> None:
    check_counts(plan.problems, plan.samples, plan.ks, plan.sampling, plan.engine)
    if plan.against == plan.checkpoint:
        raise InputError(f"--against is the checkpoint itself ({plan.checkpoint}); name another one.")


def _settings(plan: Plan, task: Task, orders: Sequence[Order]) -> dict[str, object]:
    """What decides the rollouts, and therefore names the run; how they are read afterwards does not belong here."""
    return {
        "checkpoints": [checkpoint_settings(order.checkpoint, plan.prompt, order.requests) for order in orders],
        "task": task_settings(task, plan.task, len(orders[0].problems)),
        "samples": plan.samples,
        "sampling": asdict(plan.sampling),
        "engine": plan.engine,
        "versions": deciding_versions(),
    }
