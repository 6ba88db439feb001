"""From a recipe to what a run works with: model, optimizer, engine, problems; nothing here changes while it runs."""

import copy
from dataclasses import dataclass

import torch
from torch import nn

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.checkpoints.placement import choose_device
from entropy_lab.engines.protocol import Request, Sampling
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress
from entropy_lab.runs import Run
from entropy_lab.tasks.protocol import Problem, Task
from entropy_lab.training.adapters import add_adapters, trainable
from entropy_lab.training.fresh import fresh_checkpoint
from entropy_lab.training.lagged import Lagged
from entropy_lab.training.policy import TrainedPolicy
from entropy_lab.training.recipe import Recipe
from entropy_lab.training.teacher import load_teacher
from entropy_lab.training.update import Method, Updater
from entropy_lab.training.world import TrainingWorld

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Assembly:
    """The parts of a run; `parameters` are all that the optimizer trains, by name."""

    checkpoint: Checkpoint
    parameters: dict[str, nn.Parameter]
    optimizer: torch.optim.Optimizer
    updater: Updater
    engine: TransformersEngine
    world: TrainingWorld
    lagged: Lagged | None


def starting_checkpoint(recipe: Recipe) -> Checkpoint:
    """What training begins from, in float32."""
    start = recipe.start
    if start.fresh is not None:
        return fresh_checkpoint(start.fresh, recipe.seed, choose_device(start.device))
    return load_checkpoint(
        start.checkpoint, device=start.device, dtype="float32", trust_remote_code=start.trust_remote_code
    )


def method_of(recipe: Recipe) -> Method:
    """The pieces that an update uses."""
    return Method(recipe.advantage, recipe.objective, recipe.penalties)


def assemble(
    recipe: Recipe, checkpoint: Checkpoint, task: Task, problems: list[Problem], run: Run, progress: Progress
) -> Assembly:
    """Put a run together around `checkpoint`, whose weights it trains in place."""
    method = method_of(recipe)
    reference = copy.deepcopy(checkpoint.model) if method.needs_reference else None
    if recipe.lora is not None:
        add_adapters(checkpoint.model, recipe.lora, recipe.seed)
    parameters = dict(trainable(checkpoint.model))
    value_head = None
    if method.needs_value:
        value_head = nn.Linear(checkpoint.model.get_output_embeddings().weight.shape[1], 1).to(checkpoint.device)
        nn.init.zeros_(value_head.weight)
        nn.init.zeros_(value_head.bias)
        parameters |= {f"value_head.{name}": parameter for name, parameter in value_head.named_parameters()}
    settings = recipe.optimizer
    optimizer = torch.optim.AdamW(
        list(parameters.values()), settings.learning_rate, betas=settings.betas, weight_decay=settings.weight_decay
    )
    lagged = Lagged(checkpoint, recipe.sampling.staleness) if recipe.sampling.staleness else None

    def policy(model: nn.Module, head: nn.Linear | None = None) -> TrainedPolicy:
        return TrainedPolicy(
            model,  # type: ignore[arg-type]
            temperature=recipe.sampling.temperature,
            dtype=DTYPES[recipe.numerics.dtype],
            softmax_fix=recipe.numerics.softmax_fix,
            value_head=head,
            uniform=recipe.objective.needs_uniform,
            twins=any(one.needs_twins for one in recipe.penalties),
        )

    trained = policy(checkpoint.model, value_head)
    if not trained.packs:
        progress.note(f"{checkpoint.name} trains on padded rows: its attention is not plain, prompts are not shared.")
    updater = Updater(
        trained,
        optimizer,
        recipe,
        reference=None if reference is None else policy(reference),
        teacher=policy(load_teacher(recipe.teacher, checkpoint).model) if recipe.teacher is not None else None,
        sampled=None if lagged is None else policy(lagged.checkpoint.model, value_head),
    )
    sampled = checkpoint if lagged is None else lagged.checkpoint
    engine, sampling_engine = _engines(run, checkpoint, sampled, problems, recipe, progress)
    world = TrainingWorld(
        sampled,
        sampling_engine,
        task,
        problems,
        sampling_of(recipe),
        recipe.rewards,
        recipe.data.prompt,
        recipe.seed,
        run.folder,
    )
    return Assembly(checkpoint, parameters, optimizer, updater, engine, world, lagged)


def sampling_of(recipe: Recipe) -> Sampling:
    """How rollouts are drawn."""
    drawing = recipe.sampling
    return Sampling(
        temperature=drawing.temperature,
        top_p=drawing.top_p,
        top_k=drawing.top_k,
        max_new_tokens=drawing.max_new_tokens,
        seed=recipe.seed,
        certainty=any(reward.needs_certainty for reward in recipe.rewards),
        twins=any(penalty.needs_twins for penalty in recipe.penalties),
    )


def _engines(
    run: Run, trained: Checkpoint, sampled: Checkpoint, problems: list[Problem], recipe: Recipe, progress: Progress
) -> tuple[TransformersEngine, TransformersEngine]:
    """Engines over the trained and the sampled weights, with as many rows as an earlier start of the run had."""
    before = run.record.get("engine_rows")
    if before is not None and (type(before) is not int or before < 1):
        place = run.folder / "run.json"
        raise InputError(f"{place}: engine_rows is {before!r}, not a whole number from 1 up; restore it.")
    engine = TransformersEngine(trained, before, progress)
    longest = max((len(problem.question) for problem in problems), default=0)  # characters: an upper bound of tokens
    nominal = Request("", (0,) * (longest + 2 * recipe.sampling.max_new_tokens), 1)
    rows = engine.rows([nominal], sampling_of(recipe))
    run.note(engine_rows=rows)
    engine = TransformersEngine(trained, rows, progress)
    return engine, engine if sampled is trained else TransformersEngine(sampled, rows, progress)
