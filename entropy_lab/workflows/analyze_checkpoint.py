"""`analyze checkpoint`: a checkpoint in; a diagnosis with its run directory out."""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.diagnostics.decision_points import Rule
from entropy_lab.engines import ENGINES, open_engine
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress, Silent
from entropy_lab.prompts import prompt_mode
from entropy_lab.runs import Run, file_digest, open_run, versions
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Problem, Task
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
    problems = _problems(task, plan.problems)
    checkpoints = [
        load_checkpoint(name, device=plan.device, dtype=plan.dtype, trust_remote_code=plan.trust_remote_code)
        for name in (plan.checkpoint, plan.against)
        if name is not None
    ]
    for checkpoint in checkpoints:
        progress.note(checkpoint.describe())
        if checkpoint.generation_defaults:
            progress.note(
                f"{checkpoint.name}: its own sampling defaults are not used: {dict(checkpoint.generation_defaults)}"
            )

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
            rows = _rows(run, order.checkpoint)
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
    if plan.samples < 1:
        raise InputError(f"--samples is {plan.samples}; at least 1 is needed.")
    if plan.problems is not None and plan.problems < 1:
        raise InputError(f"--problems is {plan.problems}; at least 1 is needed.")
    for k in plan.ks or ():
        if not 1 <= k <= plan.samples:
            raise InputError(
                f"--k asks for pass@{k} from {plan.samples} samples a problem: k must be from 1 to the number of "
                "samples (the number of problems does not help); raise --samples or lower --k."
            )
    if plan.sampling.temperature == 0 and plan.samples > 1:
        raise InputError(
            f"--temperature 0 gives {plan.samples} equal samples, so pass@k and variety have no meaning; "
            "use --samples 1 or a temperature above 0."
        )
    if plan.engine not in ENGINES:
        raise InputError(f"There is no engine {plan.engine!r}; choose one of {', '.join(ENGINES)}.")
    if plan.against == plan.checkpoint:
        raise InputError(f"--against is the checkpoint itself ({plan.checkpoint}); name another one.")


def _problems(task: Task, count: int | None) -> list[Problem]:
    """The first `count` problems, each with an id of its own."""
    try:
        problems = list(task.problems())[:count]
    except InputError:
        raise
    except Exception as error:  # a user's task may raise anything
        raise InputError(f"Task {task.name}: problems() fails ({type(error).__name__}: {error}).") from error
    if not problems:
        raise InputError(f"Task {task.name} has no problems.")
    repeated = [name for name, times in Counter(problem.id for problem in problems).items() if times > 1]
    if repeated:
        raise InputError(f"Task {task.name}: several problems have the id {repeated[0]!r}; give each its own.")
    return problems


def _settings(plan: Plan, task: Task, orders: Sequence[Order]) -> dict[str, object]:
    """What decides the rollouts, and therefore names the run; how they are read afterwards does not belong here.

    Prompts and the task's file count by their content, so that an edited task never continues an old run.
    """
    return {
        "checkpoints": [
            {
                "name": order.checkpoint.name,
                "fingerprint": order.checkpoint.fingerprint,
                "prompt": prompt_mode(order.checkpoint, plan.prompt),
                "prompt_ids": _digest([(request.problem_id, request.prompt_ids) for request in order.requests]),
                "end_ids": list(order.checkpoint.end_ids),
                "device": order.checkpoint.device.type,
                "dtype": str(order.checkpoint.dtype).removeprefix("torch."),
            }
            for order in orders
        ],
        "task": {
            "name": task.name,
            "source": Path(plan.task).name,
            "problems": len(orders[0].problems),
            "file": file_digest(plan.task),
        },
        "samples": plan.samples,
        "sampling": asdict(plan.sampling),
        "engine": plan.engine,
        "versions": {
            name: found for name, found in versions().items() if name in ("entropy-lab", "torch", "transformers")
        },
    }


def _digest(content: object) -> str:
    return sha256(repr(content).encode()).hexdigest()[:16]


def _rows(run: Run, checkpoint: Checkpoint) -> int | None:
    """Rows a batch of an earlier start of this run, so that its batches come out the same."""
    rows = run.record.get("rows", {}).get(checkpoint.name)
    return None if rows is None else int(rows)
