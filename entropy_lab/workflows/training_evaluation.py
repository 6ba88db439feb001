"""A small evaluation along a training run: the same problems and streams each time, every metric with its interval."""

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.diagnostics.decision_points import Rule
from entropy_lab.diagnostics.metric import Metric
from entropy_lab.engines.protocol import Engine, Sampling
from entropy_lab.tasks.loading import load_task
from entropy_lab.tasks.protocol import Enumerable
from entropy_lab.training.recipe import Recipe
from entropy_lab.workflows.asked import chosen_problems
from entropy_lab.workflows.diagnosis import Measured, measure
from entropy_lab.workflows.sampling import graded, order_of


class Evaluator:
    """Evaluates a recipe's checkpoints; solution spaces are enumerated once."""

    def __init__(self, recipe: Recipe) -> None:
        self._settings = recipe.evaluation
        self._prompt = recipe.data.prompt
        self._sampling = Sampling(max_new_tokens=recipe.sampling.max_new_tokens, seed=recipe.evaluation.seed)
        self._task = load_task(self._settings.task)
        self._problems = chosen_problems(self._task, self._settings.problems)
        self._spaces = {}
        if isinstance(self._task, Enumerable):
            spaces = ((problem.id, self._task.space(problem)) for problem in self._problems)
            self._spaces = {name: space for name, space in spaces if space is not None}

    def __call__(self, checkpoint: Checkpoint, engine: Engine, name: str) -> tuple[Metric, ...]:
        """The metrics of `measured`."""
        return self.measured(checkpoint, engine, name).summary.metrics

    def measured(self, checkpoint: Checkpoint, engine: Engine, name: str) -> Measured:
        """Sample `checkpoint` through `engine` at temperature 1 and measure it under the name given."""
        order = order_of(checkpoint, self._task, self._problems, self._settings.samples, self._sampling, self._prompt)
        batches = engine.partition(order.requests, self._sampling)
        trajectories = [one for batch in batches for one in engine.sample(batch, self._sampling)]
        return measure(
            name,
            graded(order, trajectories),
            ks=None,
            rule=Rule(),
            seed=0,
            temperature=self._sampling.temperature,
            spaces=self._spaces,
        )
