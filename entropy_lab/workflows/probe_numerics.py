"""`probe numerics`: what 16-bit log-probs, logits and passes do to a checkpoint's importance ratios, measured."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.checkpoints.head import check_head
from entropy_lab.diagnostics.columns import Column
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.diagnostics.numerics import (
    Tokens,
    column_metrics,
    gap_columns,
    logprob_columns,
    plain_metrics,
    policy_columns,
    softmax_columns,
)
from entropy_lab.diagnostics.ratio_bias import FORMATS, rounded
from entropy_lab.diagnostics.tabulate import mean_metrics
from entropy_lab.engines import open_engine
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress, Silent
from entropy_lab.rollouts import Rollouts
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
from entropy_lab.workflows.probe_passes import LOG_RATIO, Passes, Texts, passes_of, perturb
from entropy_lab.workflows.sampling import Order, order_of, sample_into

DEFAULT_CHECKPOINT = "builtin:sft"
_SECTIONS = ("ratio", "clip", "softmax", "gap")
"""First parts of the metrics' names, in reading order."""


@dataclass(frozen=True)
class ProbePlan:
    """What `probe numerics` is asked. `problems` None means all. The checkpoint is held in float32 throughout."""

    checkpoint: str = DEFAULT_CHECKPOINT
    task: str = "countdown"
    problems: int | None = 16
    samples: int = 8
    sampling: Sampling = field(default_factory=Sampling)
    prompt: str = "auto"
    device: str = "auto"
    trust_remote_code: bool = False


@dataclass(frozen=True)
class Probe:
    """A finished probe: where it lies, and what it found, in reading order."""

    folder: Path
    metrics: tuple[Metric, ...]
    trajectories: int
    tokens: int


def probe_numerics(plan: ProbePlan, out: Path | None = None, progress: Progress | None = None) -> Probe:
    """Sample trajectories, score them in every format at the checkpoint (twice) and at a perturbed copy, and compare.

    The same plan finds its run again; finished samples are kept, passes are made anew.

    Raises:
        InputError: anything wrong with the plan, the checkpoint or the task.
    """
    progress = progress or Silent()
    check_counts(plan.problems, plan.samples, None, plan.sampling, "auto")
    if plan.sampling.temperature != 1:
        raise InputError(f"The probe samples and scores at temperature 1, not {plan.sampling.temperature}.")
    task = load_task(plan.task)
    problems = chosen_problems(task, plan.problems)
    checkpoint = load_checkpoint(
        plan.checkpoint, device=plan.device, dtype="float32", trust_remote_code=plan.trust_remote_code
    )
    announce([checkpoint], progress)
    order = order_of(checkpoint, task, problems, plan.samples, plan.sampling, plan.prompt)
    with open_run("probe numerics", _settings(plan, task, order), out) as run:
        run.note(asked=asdict(plan))
        with closing(open_engine("auto", checkpoint, rows_of(run, order.name), progress)) as engine:
            parts = sample_into(run, 0, order, engine, progress)
        rollouts = run.rollouts(parts)
        columns, softmax, plain, tokens = _measure(checkpoint, rollouts, plan.sampling.seed, progress)
        metrics: tuple[Metric, ...] = (
            *column_metrics(columns, tokens, order.name, plan.sampling.seed),
            *mean_metrics(softmax, order.name, seed=plan.sampling.seed),
            *plain_metrics(plain, tokens, order.name),
        )
        metrics = tuple(sorted(metrics, key=lambda one: _SECTIONS.index(one.metric.split(".")[0])))
        run.write_metrics(metrics)
        values = {column.name: column.values_P for column in (*columns, *softmax)}
        run.write_problems(sorted({str(one) for one in rollouts.strings("problem_id")}), {order.name: values})
        return Probe(run.folder, metrics, len(rollouts), len(tokens.problem_N))


def _settings(plan: ProbePlan, task: Task, order: Order) -> dict[str, object]:
    """What decides the rollouts, and therefore names the run."""
    return {
        "checkpoints": [checkpoint_settings(order.checkpoint, plan.prompt, order.requests)],
        "task": task_settings(task, plan.task, len(order.problems)),
        "samples": plan.samples,
        "sampling": asdict(plan.sampling),
        "versions": deciding_versions(),
    }


def _measure(
    checkpoint: Checkpoint, rollouts: Rollouts, seed: int, progress: Progress
) -> tuple[list[Column], list[Column], dict[str, tuple[float, str, str]], Tokens]:
    """Columns of roundings, columns of certain tokens, largest values and counts. Leaves the checkpoint perturbed."""
    table = rollouts.table
    texts = Texts(*(table[name].to_pylist() for name in ("problem_id", "prompt_ids", "token_ids")))
    ids, problem_R = np.unique(np.array(texts.problem_ids), return_inverse=True)
    tokens = Tokens(np.repeat(problem_R, [len(row) for row in texts.completions]), len(ids))
    sampler_N = np.concatenate([np.asarray(row, np.float64) for row in table["logprob"].to_pylist()])

    head = check_head(checkpoint.model)
    old = passes_of(checkpoint, head, texts, progress)
    again = passes_of(checkpoint, head, texts, progress)
    perturb(checkpoint, head, texts, old.single_N, seed, progress)
    new = passes_of(checkpoint, head, texts, progress)

    columns = logprob_columns(tokens, old.single_N, seed)
    columns += _between(tokens, old, new)
    softmax, counts = softmax_columns(tokens, old.exact_N, old.single_N)
    plain = _identical(old, again)
    plain |= {f"{name}.count": (float(count), "tokens", "counted") for name, count in counts.items()}
    for form, scorer_N in {"float32": old.single_N, **old.passes}.items():
        columns += gap_columns(tokens, form, sampler_N, scorer_N)
        plain[f"gap.{form}.max"] = (float(np.abs(scorer_N - sampler_N).max()), "nats", "largest |scorer − sampler|")
    return columns, softmax, plain, tokens


def _between(tokens: Tokens, old: Passes, new: Passes) -> list[Column]:
    """Ratios between the checkpoint and its perturbed copy, from cast logits and from passes in each format."""
    exact_N = new.single_N - old.single_N
    noise = f"weights perturbed to log-ratios of about {LOG_RATIO:g} nats"
    columns = [Column("ratio.perturbed", "nats", tokens.means(np.abs(exact_N)), note=f"mean |log r|, {noise}")]
    for form in FORMATS:
        cast_N = new.logits[form] - old.logits[form]
        columns += policy_columns(
            tokens, f"logits.{form}", new.exact_N - old.exact_N, cast_N, old.logit_bias[form], noise
        )
    for form in FORMATS:
        pass_N = new.passes[form] - old.passes[form]
        columns += policy_columns(tokens, f"pass.{form}", exact_N, pass_N, None, f"autocast, head in float32; {noise}")
    return columns


def _identical(old: Passes, again: Passes) -> dict[str, tuple[float, str, str]]:
    """Largest |r − 1| between two evaluations of one policy: 0, or training is off-policy before its first step."""
    pairs: dict[str, Sequence[np.ndarray]] = {"pass.float32": (old.single_N, again.single_N)}
    kinds: Mapping[str, tuple[Mapping[str, np.ndarray], Mapping[str, np.ndarray]]] = {
        "logprobs": (
            {form: rounded(old.single_N, form) for form in FORMATS},
            {form: rounded(again.single_N, form) for form in FORMATS},
        ),
        "logits": (old.logits, again.logits),
        "pass": (old.passes, again.passes),
    }
    for kind, (first, second) in kinds.items():
        pairs |= {f"{kind}.{form}": (first[form], second[form]) for form in FORMATS}
    return {
        f"ratio.identical.{name}": (
            float(np.abs(np.expm1(second - first)).max()),
            "ratio",
            "largest |r − 1| of two evaluations of the same weights,",
        )
        for name, (first, second) in pairs.items()
    }
