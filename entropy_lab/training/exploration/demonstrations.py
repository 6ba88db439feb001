"""Demonstrations: solutions of Countdown by the solver, drawn anew in every iteration; the policy is never asked."""

from typing import Annotated, ClassVar

from pydantic import Field

from entropy_lab.tasks.countdown.task import LADDER_RULES, Countdown, countdown_problem
from entropy_lab.training.countdown_corpus import Corpus, build_corpus
from entropy_lab.training.exploration import Exploration, Explored, World
from entropy_lab.training.written import written_rollout


class Demonstrations(Corpus, Exploration):
    """Demonstrations: `count` Countdown solutions in steps, drawn uniformly from all solutions of a corpus (SFT).

    Problem and canonical solution are drawn uniformly by (seed, iteration), then one way of playing it; the rules are
    the ladder's. The corpus' held-out problems never come.
    """

    piece: ClassVar[str] = "demonstrations"
    asks_policy: ClassVar[bool] = False

    count: Annotated[int, Field(gt=0)] = 256

    def __call__(self, world: World, position: int) -> Explored:
        """Trajectories of one iteration; `position` stays, since the draws depend on the iteration alone."""
        corpus = build_corpus(Corpus(**self.model_dump(include=set(Corpus.model_fields))))
        task = Countdown((), "steps", LADDER_RULES)
        rollouts = []
        for index, (nums, target, answer) in enumerate(corpus.examples(world.seed, world.iteration, self.count)):
            problem = countdown_problem(nums, target)
            rollouts.append(
                written_rollout(
                    world.checkpoint,
                    task.messages(problem),
                    answer,
                    problem.id,
                    index,
                    str(index),
                    "demonstration",
                    world.prompt,
                )
            )
        return Explored(tuple(rollouts), position)
