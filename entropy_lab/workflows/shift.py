"""`shift`: which tokens of a solution a later checkpoint moved, entrance or execution, on texts scored at both."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.diagnostics.intervals import Band
from entropy_lab.diagnostics.shift import Shifts, shift_columns, shift_metrics, size
from entropy_lab.engines import open_engine
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress, Silent
from entropy_lab.ragged import Ragged
from entropy_lab.reports.contents import CheckpointDiagnosis, Curve, Diagnosis
from entropy_lab.reports.drawings import curves
from entropy_lab.reports.style import Drawing
from entropy_lab.runs import Run, open_run
from entropy_lab.scoring.teacher_forced_pair import PairScores, score_pair
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
from entropy_lab.workflows.outcome import Analysis, publish
from entropy_lab.workflows.sampling import Order, order_of, sample_into
from entropy_lab.workflows.shift_table import write_table
from entropy_lab.workflows.shift_texts import TextSet, sampled_texts, witness_texts

_TEXTS = {
    "witnesses": "solver witnesses, one a family",
    "early": "traces sampled from the early checkpoint",
    "late": "traces sampled from the late checkpoint",
}


@dataclass(frozen=True)
class ShiftPlan:
    """What `shift` is asked. `texts` are solver witnesses, or `samples` traces a problem of the early or late side.

    `problems` None means all. The temperature divides the logits, in sampling and in both scorings.
    """

    early: str = "builtin:sft-early"
    late: str = "builtin:sft"
    task: str = "countdown"
    problems: int | None = 100
    texts: str = "witnesses"
    samples: int = 8
    sampling: Sampling = field(default_factory=Sampling)
    engine: str = "auto"
    prompt: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    trust_remote_code: bool = False


def shift(plan: ShiftPlan, out: Path | None = None, progress: Progress | None = None) -> Analysis:
    """Score the same solution texts at both checkpoints and split the shift at the end of their first operator.

    The same plan finds its run again and continues it; `shift.parquet` in its directory holds every token.

    Raises:
        InputError: anything wrong with the plan, the checkpoints or the task; checkpoints of different tokenizers or
            prompts; texts that cannot be scored.
    """
    progress = progress or Silent()
    _check(plan)
    task = load_task(plan.task)
    if not isinstance(task, Countdown):
        raise InputError(f"--task {plan.task} is no Countdown set; a split at the first operator needs one.")
    problems = chosen_problems(task, plan.problems)
    early, late = _load(plan)
    announce([early] if early is late else [early, late], progress)
    orders = [order_of(one, task, problems, plan.samples, plan.sampling, plan.prompt) for one in (early, late)]
    _check_alike(orders[0], orders[1])
    with open_run("shift", _settings(plan, orders, task), out) as run:
        run.note(asked=asdict(plan))
        texts = _texts(plan, run, orders, task, problems, progress)
        scores = score_pair(
            early,
            late,
            [text.problem_id for text in texts.texts],
            [text.prompt_ids for text in texts.texts],
            [text.token_ids for text in texts.texts],
            temperature=plan.sampling.temperature,
            mask_unused=plan.sampling.mask_unused,
            progress=progress,
        )
        write_table(run.folder, texts.texts, scores)
        return _conclude(plan, run, task, problems, texts, scores, progress)


def _check(plan: ShiftPlan) -> None:
    check_counts(plan.problems, plan.samples, None, plan.sampling, plan.engine)
    if plan.texts not in _TEXTS:
        raise InputError(f"--texts is {plan.texts!r}; choose one of {', '.join(_TEXTS)}.")
    if plan.sampling.temperature == 0:
        raise InputError("--temperature 0 leaves no distributions to compare; use a temperature above 0.")


def _load(plan: ShiftPlan) -> tuple[Checkpoint, Checkpoint]:
    def load(name: str) -> Checkpoint:
        return load_checkpoint(name, device=plan.device, dtype=plan.dtype, trust_remote_code=plan.trust_remote_code)

    early = load(plan.early)
    return early, early if plan.late == plan.early else load(plan.late)


def _check_alike(early: Order, late: Order) -> None:
    """Both must read the same ids as the same text, and be asked in the same ids."""
    names = f"{early.checkpoint.name} and {late.checkpoint.name}"
    ours, theirs = (order.checkpoint.tokenizer.get_vocab() for order in (early, late))
    if ours != theirs:
        token = min(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name))
        raise InputError(
            f"{names} have different vocabularies (token {token!r} is {ours.get(token)} and {theirs.get(token)}), so "
            "the same ids are different texts; give two checkpoints of one tokenizer."
        )
    for one, other in zip(early.requests, late.requests, strict=True):
        if one.prompt_ids != other.prompt_ids:
            raise InputError(
                f"{names} read problem {one.problem_id} as different prompts ({len(one.prompt_ids)} and "
                f"{len(other.prompt_ids)} tokens), so their texts do not continue the same beginning; use --prompt raw."
            )


def _settings(plan: ShiftPlan, orders: Sequence[Order], task: Countdown) -> dict[str, Any]:
    """What decides texts and scores, and therefore names the run."""
    sampling = asdict(plan.sampling)
    if plan.texts == "witnesses":
        drawn: dict[str, Any] = {name: sampling[name] for name in ("temperature", "seed", "mask_unused")}
    else:
        drawn = {"samples": plan.samples, "sampling": sampling, "engine": plan.engine}
    return {
        "checkpoints": [checkpoint_settings(order.checkpoint, plan.prompt, order.requests) for order in orders],
        "task": task_settings(task, plan.task, len(orders[0].problems)),
        "texts": plan.texts,
        **drawn,
        "versions": deciding_versions(),
    }


def _texts(
    plan: ShiftPlan, run: Run, orders: Sequence[Order], task: Countdown, problems: Sequence[Problem], progress: Progress
) -> TextSet:
    """The texts to score: written by the solver, or sampled into the run."""
    if plan.texts == "witnesses":
        found = witness_texts(orders[0], task, plan.sampling.seed, progress)
    else:
        order = orders[plan.texts == "late"]
        with closing(open_engine(plan.engine, order.checkpoint, rows_of(run, order.name), progress)) as engine:
            parts = sample_into(run, 0, order, engine, progress)
        found = sampled_texts(order.checkpoint, problems, run.rollouts(parts))
    if not found.texts:
        raise InputError(f"No text can be split at a first operator: {'; '.join(found.notes)}. Give other --texts.")
    return found


def _conclude(
    plan: ShiftPlan,
    run: Run,
    task: Countdown,
    problems: Sequence[Problem],
    texts: TextSet,
    scores: Sequence[PairScores],
    progress: Progress,
) -> Analysis:
    """Metrics, per-problem values, curves and the page."""
    name = f"{plan.early} → {plan.late}"
    place = {problem.id: row for row, problem in enumerate(problems)}
    shifts = Shifts(
        np.array([place[text.problem_id] for text in texts.texts]),
        len(problems),
        Ragged.of([pair.second.logprob.astype(np.float64) - pair.first.logprob for pair in scores]),
        Ragged.of([pair.kl for pair in scores], np.float64),
        np.array([text.split.start for text in texts.texts]),
        np.array([text.split.stop for text in texts.texts]),
    )
    columns = shift_columns(shifts, f"{len(texts.texts):,} {_TEXTS[plan.texts]}")
    metrics = shift_metrics(columns, name, seed=plan.sampling.seed)
    diagnosis = Diagnosis(
        title=name,
        task=task.name,
        checkpoints=(CheckpointDiagnosis.of_metrics(name, metrics, len(problems), trajectory_count=len(texts.texts)),),
        drawings=_drawings(shifts, plan.sampling.seed),
        settings=run.record,
        notes=texts.notes,
    )
    per_problem = {name: {column.name: column.values_P for column in columns}}
    return publish(run, diagnosis, list(place), per_problem, progress)


def _drawings(shifts: Shifts, seed: int) -> tuple[Drawing, ...]:
    drawn = (
        curves(
            "shift_by_position",
            "Likelihood shift by position",
            "Mean |Δ log p| of the t-th token of the solution text, from its start, over problems.",
            {"|Δ log p|": _curve(shifts.by_position(size(shifts.delta), seed))},
            ylabel="|Δ log p| (nats)",
            xlabel="token of the solution text",
        ),
        curves(
            "kl_by_position",
            "KL by position",
            "Mean KL(early‖late) of the distribution that produced the t-th token of the solution text, over problems.",
            {"KL(early‖late)": _curve(shifts.by_position(shifts.kl, seed))},
            ylabel="KL (nats)",
            xlabel="token of the solution text",
        ),
    )
    return tuple(one for one in drawn if one is not None)


def _curve(band: Band) -> Curve:
    return Curve(band.x, band.value, band.low, band.high, band.n)
