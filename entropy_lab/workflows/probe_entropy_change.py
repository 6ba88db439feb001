"""`probe entropy-change`: what theory says one small step of a recipe does to each token's entropy, and what it does.

Three numbers a token: the tabular law of its own position, the first-order prediction of the whole model,
−η ∇H·g, by forward-mode differentiation, and the change of its exact entropy after a plain gradient step of size η on
the real weights, which is taken back.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from json import dumps
from math import isfinite
from pathlib import Path

import numpy as np

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.diagnostics.entropy_change import Changes, change_columns, change_metrics
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress, Silent
from entropy_lab.reports.contents import CheckpointDiagnosis, Diagnosis
from entropy_lab.runs import open_run
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Problem, Task
from entropy_lab.training.assembly import Assembly, assemble, sampling_of
from entropy_lab.training.batch import batch_of
from entropy_lab.training.exploration import Explored
from entropy_lab.training.recipe import Recipe
from entropy_lab.training.recipe_files import load_recipe, with_field
from entropy_lab.training.rollout import rollouts_table
from entropy_lab.training.world import TrainingWorld
from entropy_lab.workflows.asked import announce, chosen_problems, deciding_versions, task_settings
from entropy_lab.workflows.outcome import Analysis, publish
from entropy_lab.workflows.probe_entropy_figures import change_figures
from entropy_lab.workflows.probe_positions import Floats, PositionPass, Positions
from entropy_lab.workflows.probe_replay import Replay, replay_of, stored_problems
from entropy_lab.workflows.probe_step import Step, plain, stepped
from entropy_lab.workflows.train import recipe_settings

DEFAULT_CHECKPOINT = "builtin:sft"
DEFAULT_RATE = 5e-4
"""η of the plain step (ours). On the embedded ladder changes are then near 3e-5 nats a token: small enough for theory
to be within 2 % in total, large enough for float32 to lose no more than 1 % of the tokens' changes."""


@dataclass(frozen=True)
class EntropyPlan:
    """What `probe entropy-change` is asked.

    `recipe` is the name of a shipped recipe or a .toml file, changed by `overrides` (`KEY=VALUE`); `task`, `problems`
    and `samples` None leave what it says. `rollouts` plays stored trajectories back in place of new ones.
    """

    checkpoint: str = DEFAULT_CHECKPOINT
    recipe: str = "grpo"
    overrides: tuple[str, ...] = ()
    rollouts: Path | None = None
    task: str | None = None
    problems: int | None = None
    samples: int | None = None
    learning_rate: float = DEFAULT_RATE
    seed: int = 0
    device: str = "auto"
    trust_remote_code: bool = False


def probe_entropy_change(plan: EntropyPlan, out: Path | None = None, progress: Progress | None = None) -> Analysis:
    """Take the batch a recipe's first iteration would train on, predict what one plain step does, do it, and compare.

    The run directory also gets the rollouts. The checkpoint on disk is never written to.

    Raises:
        InputError: anything wrong with the plan, the recipe, the checkpoint or the rollouts; nothing to learn from.
    """
    progress = progress or Silent()
    if not (isfinite(plan.learning_rate) and plan.learning_rate > 0):
        raise InputError(f"--learning-rate is {plan.learning_rate}; give a small number above 0, as {DEFAULT_RATE}.")
    recipe = _recipe(plan)
    task = load_task(recipe.data.task)
    checkpoint = load_checkpoint(
        plan.checkpoint, device=plan.device, dtype="float32", trust_remote_code=plan.trust_remote_code
    )
    announce([checkpoint], progress)
    replay = None
    if plan.rollouts is None:
        problems = chosen_problems(task, recipe.data.problems)
    else:
        replay = replay_of(plan.rollouts, checkpoint.name, plan.problems, plan.samples)
        problems = stored_problems(replay, task, plan.rollouts)
        recipe = _sized(recipe, replay)
    with open_run("probe entropy-change", _settings(plan, recipe, checkpoint, task, problems, replay), out) as run:
        run.note(asked={**asdict(plan), "rollouts": None if plan.rollouts is None else str(plan.rollouts)})
        parts = assemble(recipe, checkpoint, task, problems, run, progress)
        explored = _explored(recipe, parts, task, problems, replay, run.folder)
        for note in explored.notes:
            progress.note(note)
        ids, changes = _measure(parts, recipe, explored, plan.learning_rate, progress)
        if recipe.exploration.asks_policy:
            run.write_part(0, rollouts_table([*explored.others, *explored.rollouts], checkpoint.name))
        metrics = change_metrics(changes, checkpoint.name, plan.seed)
        diagnosis = Diagnosis(
            title=f"{checkpoint.name}, entropy change under {recipe.name}",
            task=task.name,
            checkpoints=(
                CheckpointDiagnosis.of_metrics(
                    checkpoint.name, metrics, len(ids), trajectory_count=len(explored.rollouts)
                ),
            ),
            settings=run.record,
            notes=(_told(plan, recipe, changes), *explored.notes),
            drawings=change_figures(changes, metrics),
        )
        columns = {column.name: column.values_P for column in change_columns(changes)}
        return publish(run, diagnosis, ids, {checkpoint.name: columns}, progress)


def _recipe(plan: EntropyPlan) -> Recipe:
    """The recipe as asked, for one plain step."""
    given = {"data.task": plan.task, "seed": plan.seed, "start.checkpoint": plan.checkpoint}
    if plan.rollouts is None:
        given |= {"exploration.prompts": plan.problems, "exploration.samples": plan.samples}
    overrides = [f"{field}={dumps(value)}" for field, value in given.items() if value is not None]
    return plain(load_recipe(plan.recipe, [*plan.overrides, *overrides]))


def _sized(recipe: Recipe, replay: Replay) -> Recipe:
    """The recipe asking for exactly what is stored."""
    if not recipe.exploration.asks_policy:
        raise InputError(f"Recipe {recipe.name} trains on texts of its own; leave --rollouts out.")
    if not {"prompts", "samples"} <= set(type(recipe.exploration).model_fields):
        raise InputError(
            f"Recipe {recipe.name} needs an exploration that branches ({recipe.exploration.piece}), which stored "
            "rollouts cannot; leave --rollouts out."
        )
    recipe = with_field(recipe, "exploration.prompts", len(replay.stored))
    return with_field(recipe, "exploration.samples", replay.samples)


def _settings(
    plan: EntropyPlan,
    recipe: Recipe,
    checkpoint: Checkpoint,
    task: Task,
    problems: Sequence[Problem],
    replay: Replay | None,
) -> dict[str, object]:
    """What decides the numbers, and therefore names the run."""
    return {
        "recipe": recipe_settings(recipe),
        "fingerprint": checkpoint.fingerprint,
        "device": checkpoint.device.type,
        "task": task_settings(task, recipe.data.task, len(problems)),
        "rollouts": None if replay is None else replay.content,
        "learning_rate": plan.learning_rate,
        "versions": deciding_versions(),
    }


def _explored(
    recipe: Recipe, parts: Assembly, task: Task, problems: Sequence[Problem], replay: Replay | None, folder: Path
) -> Explored:
    """The batch of a first iteration, sampled or played back.

    Raises:
        InputError: no trajectory trains.
    """
    world = parts.world
    if replay is not None:
        world = TrainingWorld(
            parts.checkpoint,
            replay,
            task,
            problems,
            sampling_of(recipe),
            recipe.rewards,
            recipe.data.prompt,
            recipe.seed,
            folder,
        )
    world.begin(0)
    explored = recipe.exploration(world, 0)
    if not explored.rollouts:
        raise InputError(" ".join((f"Recipe {recipe.name}: no trajectory can be trained on.", *explored.notes)))
    return explored


def _measure(
    parts: Assembly, recipe: Recipe, explored: Explored, rate: float, progress: Progress
) -> tuple[list[str], Changes]:
    """Problem ids and what happens to every token; the weights are afterwards what they were."""
    batch = batch_of(explored.rollouts, parts.checkpoint.device)
    look = PositionPass(parts.checkpoint.model, batch, recipe.sampling.temperature)
    with progress.stage("predict, step, measure", 4, "pass") as stage:
        before = look.columns()
        stage.advance()
        with stepped(parts, recipe, batch, rate) as step:
            stage.advance()
            after_N = look.columns().entropy_N
            stage.advance()
        slope_N = look.slopes(step.gradient)
        stage.advance()
    return _changes(explored, step, rate, before, after_N, slope_N)


def _changes(
    explored: Explored, step: Step, rate: float, before: Positions, after_N: Floats, slope_N: Floats
) -> tuple[list[str], Changes]:
    predicted_N, measured_N = -rate * slope_N, after_N - before.entropy_N
    if not (np.isfinite(predicted_N).all() and np.isfinite(measured_N).all()):
        raise InputError(f"--learning-rate {rate} leaves entropies that are not finite; give a smaller one.")
    names = [one.trajectory.problem_id for one in explored.rollouts]
    ids, problem_R = np.unique(np.array(names), return_inverse=True)
    return ids.tolist(), Changes(
        problem_N=np.repeat(problem_R, [len(one.trajectory.token_ids) for one in explored.rollouts]),
        problems=len(ids),
        advantage_N=step.advantage_N,
        bonus_N=step.bonus_N,
        weight_N=step.weight_N,
        logprob_N=before.logprob_N,
        entropy_N=before.entropy_N,
        drift_N=before.drift_N,
        steepness_N=before.steepness_N,
        predicted_N=predicted_N,
        measured_N=measured_N,
    )


def _told(plan: EntropyPlan, recipe: Recipe, changes: Changes) -> str:
    """What was done, in a sentence."""
    source = f"played back from {plan.rollouts}" if plan.rollouts is not None else "of its first iteration"
    return (
        f"One plain gradient step of size η = {plan.learning_rate:g} on the loss of {recipe.name}, over "
        f"{len(changes.measured_N):,} tokens {source}; predictions are −η ∇H·g by forward-mode differentiation."
    )
