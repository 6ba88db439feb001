"""`coverage`: checkpoints, each asked in one or several manners, in; which solutions and entrances they reach, out.

An arm is one checkpoint asked in one manner: plainly, with a prompt variant, or forced to begin with each entrance.
All arms have the same problems, samples and random draws, so that they stand in one table.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from itertools import combinations
from pathlib import Path

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.diagnostics.cohort import solved_by_all, with_cohort
from entropy_lab.diagnostics.comparison import compare
from entropy_lab.diagnostics.decision_points import Rule
from entropy_lab.diagnostics.families import FamilyRow
from entropy_lab.engines import open_engine
from entropy_lab.engines.protocol import Sampling
from entropy_lab.errors import InputError
from entropy_lab.interventions.prompting import variant_sentence
from entropy_lab.progress import Progress, Silent
from entropy_lab.reports.contents import Diagnosis
from entropy_lab.rollouts import Rollouts
from entropy_lab.runs import Run, open_run
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Enumerable, Problem, Space, Task
from entropy_lab.workflows.arms import FORCED, FORCED_NOTE, PLAIN, forced_arm, prompted_arm
from entropy_lab.workflows.asked import (
    announce,
    check_counts,
    checkpoint_settings,
    chosen_problems,
    deciding_versions,
    rows_of,
    task_settings,
)
from entropy_lab.workflows.coverage_figures import coverage_figures
from entropy_lab.workflows.coverage_table import counted_families, write_families
from entropy_lab.workflows.diagnosis import Measured, decision_metrics, diagnosis_of, measure
from entropy_lab.workflows.outcome import Analysis, publish
from entropy_lab.workflows.sampling import Order, order_of, sample_into

LADDER = ("builtin:sft-early", "builtin:sft-middle", "builtin:sft")


@dataclass(frozen=True)
class CoveragePlan:
    """What `coverage` is asked. `problems` None means all; `ks` None means the powers of two ≤ samples.

    Each of `prompt_variants` (a name of `interventions.prompting.VARIANTS`, or a sentence) and `forced` add an arm to
    every checkpoint.
    """

    checkpoints: tuple[str, ...] = LADDER
    task: str = "countdown"
    problems: int | None = 100
    samples: int = 64
    ks: tuple[int, ...] | None = None
    prompt_variants: tuple[str, ...] = ()
    forced: bool = False
    sampling: Sampling = field(default_factory=Sampling)
    engine: str = "auto"
    prompt: str = "auto"
    device: str = "auto"
    dtype: str = "auto"
    trust_remote_code: bool = False

    @property
    def manners(self) -> tuple[str, ...]:
        """In which ways each checkpoint is asked, plainly first."""
        return (PLAIN, *self.prompt_variants, *((FORCED,) if self.forced else ()))


def coverage(plan: CoveragePlan, out: Path | None = None, progress: Progress | None = None) -> Analysis:
    """Sample every arm and measure coverage, access and pass@k, over all problems and over those solved by all.

    The run directory also gets `families.parquet`, one row a (problem, arm, family). Differences are paired by
    problem, for all pairs of arms, first minus second. The same plan finds its run again and continues it. Raises
    InputError for anything wrong with the plan, the checkpoints or the task.
    """
    progress = progress or Silent()
    _check(plan)
    task = load_task(plan.task)
    problems = chosen_problems(task, plan.problems)
    spaces = _spaces(task, problems)
    arms, notes = _arms(plan, task, problems, spaces, progress)
    for note in notes:
        progress.note(note)
    names = [arm.name for arm in arms]
    with open_run("coverage", _settings(plan, task, arms), out) as run:
        run.note(
            asked=asdict(plan),
            generation_defaults_not_applied={
                arm.checkpoint.name: dict(arm.checkpoint.generation_defaults) for arm in arms
            },
        )
        next_part = 0
        while arms:  # a checkpoint is let go of once its arms are sampled
            next_part = _sample(run, next_part, arms.pop(0), plan, progress)
        rollouts = run.rollouts(next_part)
        parts = {name: rollouts.of(name) for name in names}
        measured = _measured(parts, spaces, plan)
        counted = {name: counted_families(rows, spaces) for name, rows in parts.items()}
        write_families(run, counted)
        return _conclude(run, plan, task, problems, measured, counted, (*notes, *_notes(spaces, measured)), progress)


def _check(plan: CoveragePlan) -> None:
    check_counts(plan.problems, plan.samples, plan.ks, plan.sampling, plan.engine)
    for kind, names in (("checkpoint", plan.checkpoints), ("--prompt-variant", plan.prompt_variants)):
        repeated = [name for place, name in enumerate(names) if name in names[:place]]
        if repeated:
            raise InputError(f"{kind} {repeated[0]!r} is named twice; name each once.")
    if not plan.checkpoints:
        raise InputError("coverage has no checkpoint to sample; name one.")
    for variant in plan.prompt_variants:
        variant_sentence(variant)


def _spaces(task: Task, problems: Sequence[Problem]) -> dict[str, Space | None]:
    """The solution space of every problem, None where it is too large."""
    if not isinstance(task, Enumerable):
        raise InputError(
            f"Task {task.name} cannot write its solutions down, so nothing is known of what is covered; use Countdown "
            "problems."
        )
    spaces = {problem.id: task.space(problem) for problem in problems}
    if not any(space is not None and space.solutions for space in spaces.values()):
        raise InputError(
            f"None of the {len(problems)} problems of task {task.name} has an enumerated solution: they are "
            "unsolvable, too large, or leave the answer format open; give other --problems or another --task."
        )
    return spaces


def _arms(
    plan: CoveragePlan,
    task: Task,
    problems: Sequence[Problem],
    spaces: Mapping[str, Space | None],
    progress: Progress,
) -> tuple[list[Order], list[str]]:
    """All arms, those of one checkpoint together, and what a reader must know of them."""
    checkpoints = [
        load_checkpoint(name, device=plan.device, dtype=plan.dtype, trust_remote_code=plan.trust_remote_code)
        for name in plan.checkpoints
    ]
    announce(checkpoints, progress)
    arms, notes = [], [FORCED_NOTE] if plan.forced else []
    for checkpoint in checkpoints:
        plain = order_of(checkpoint, task, problems, plan.samples, plan.sampling, plan.prompt)
        arms.append(plain)
        for variant in plan.prompt_variants:
            arms.append(prompted_arm(plain, variant, plan.prompt))
            if arms[-1].requests == plain.requests:
                notes.append(
                    f"{arms[-1].name}: the chat template of {checkpoint.name} leaves the sentence out, so prompts and "
                    "samples are those of the plain arm."
                )
        if plan.forced:
            arms.append(forced_arm(plain, spaces))
    return arms, notes


def _settings(plan: CoveragePlan, task: Task, arms: Sequence[Order]) -> dict[str, object]:
    """What decides the rollouts, and therefore names the run; how they are read afterwards does not belong here."""
    return {
        "arms": [{"arm": arm.name, **checkpoint_settings(arm.checkpoint, plan.prompt, arm.requests)} for arm in arms],
        "task": task_settings(task, plan.task, len(arms[0].problems)),
        "samples": plan.samples,
        "sampling": asdict(plan.sampling),
        "engine": plan.engine,
        "versions": deciding_versions(),
    }


def _sample(run: Run, first: int, arm: Order, plan: CoveragePlan, progress: Progress) -> int:
    """Sample one arm into parts `first` …; gives the next free part."""
    with closing(open_engine(plan.engine, arm.checkpoint, rows_of(run, arm.name), progress)) as engine:
        return sample_into(run, first, arm, engine, progress)


def _measured(parts: Mapping[str, Rollouts], spaces: Mapping[str, Space | None], plan: CoveragePlan) -> list[Measured]:
    """Everything measured of every arm, then of the cohort that all of them solved."""
    known = {problem: space for problem, space in spaces.items() if space is not None}
    seed, temperature = plan.sampling.seed, plan.sampling.temperature
    measured = [
        measure(name, rows, ks=plan.ks, rule=Rule(), seed=seed, temperature=temperature, spaces=known)
        for name, rows in parts.items()
    ]
    solvable = {problem for problem, space in known.items() if space.solutions}
    cohort = solved_by_all([one.summary for one in measured], solvable)
    return [replace(one, summary=with_cohort(one.summary, cohort, seed=seed)) for one in measured]


def _notes(spaces: Mapping[str, Space | None], measured: Sequence[Measured]) -> list[str]:
    """Problems without coverage, truncation and failed gradings."""
    large = sum(space is None for space in spaces.values())
    unsolvable = sum(space is not None and not space.solutions for space in spaces.values())
    notes = []
    if large or unsolvable:
        notes.append(
            f"{unsolvable} of {len(spaces)} problems have no solution and {large} are too large to enumerate: left out "
            "of coverage, access and the cohort, counted by pass@k."
        )
    for metric, said in (
        ("sampling.truncation_rate", "Cut off at the length limit, counted as they stand"),
        ("grading.failure_rate", "Left out because the grader failed"),
    ):
        means = {one.name: float(one.summary.per_problem[metric].mean()) for one in measured}
        told = ", ".join(f"{share:.1%} of {name}" for name, share in means.items() if share)
        if told:
            notes.append(f"{said}: {told}.")
    return notes


def _conclude(
    run: Run,
    plan: CoveragePlan,
    task: Task,
    problems: Sequence[Problem],
    measured: Sequence[Measured],
    counted: Mapping[str, Sequence[FamilyRow]],
    notes: Sequence[str],
    progress: Progress,
) -> Analysis:
    """Compare all pairs of arms, draw, and write all files."""
    seed = plan.sampling.seed
    run.note(analysis={"ks": plan.ks, "rule": asdict(Rule()), "seed": seed})
    differences = [
        replace(row, metric=row.metric.removeprefix("difference."))
        for first, second in combinations(measured, 2)
        for row in compare(first.summary, second.summary, seed=seed)
    ]
    shown = [diagnosis_of(one, (*one.summary.metrics, *decision_metrics(one, seed)), (), ()) for one in measured]
    numbers = {problem.id: problem.data["nums"] for problem in problems if "nums" in problem.data}
    diagnosis = Diagnosis(
        title=f"Coverage of {', '.join(plan.checkpoints)}",
        task=task.name,
        checkpoints=tuple(shown),
        differences=tuple(differences),
        settings=run.record,
        notes=tuple(notes),
        drawings=coverage_figures([one.summary for one in measured], plan.checkpoints, plan.manners, counted, numbers),
    )
    problem_ids = [str(problem) for problem in measured[0].summary.problems]
    return publish(run, diagnosis, problem_ids, {one.name: one.summary.per_problem for one in measured}, progress)
