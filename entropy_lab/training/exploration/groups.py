"""Groups: several completions of every prompt, all of which train; optionally only groups whose rewards differ."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from entropy_lab.tasks.protocol import Problem
from entropy_lab.training.exploration import Exploration, Explored, World
from entropy_lab.training.grouping import RESIDUE
from entropy_lab.training.rollout import Rollout

Positive = Annotated[int, Field(gt=0)]


class Groups(Exploration):
    """Groups: `samples` completions of each of `prompts` problems (GRPO); `drop_degenerate` refills (DAPO).

    With `drop_degenerate`, groups whose rewards are all equal do not train (they stay in the table of rollouts),
    and new problems are sampled, `prompts` at a time, until `prompts` groups differ; after `max_tries` batches in
    all the iteration trains on what there is and says so. Groups beyond `prompts` do not train. Sizes are ours.
    """

    piece: ClassVar[str] = "groups"

    prompts: Positive = 24
    samples: Positive = 8
    drop_degenerate: bool = False
    max_tries: Positive = 3

    @model_validator(mode="after")
    def _groups_can_differ(self) -> Self:
        if self.drop_degenerate and self.samples < 2:
            raise ValueError("drop_degenerate needs samples ≥ 2: the rewards of a group of one never differ")
        return self

    def __call__(self, world: World, position: int) -> Explored:
        """Trajectories of one iteration, from problem `position` on."""
        seen: Counter[str] = Counter()
        kept: list[list[Rollout]] = []
        others: list[Rollout] = []
        tries = dropped = 0
        while tries == 0 or (self.drop_degenerate and len(kept) < self.prompts and tries < self.max_tries):
            problems = world.problems_at(position, self.prompts)
            for group in sample_groups(world, problems, self.samples, f"g{tries}", seen):
                degenerate = self.drop_degenerate and is_degenerate(group)
                dropped += degenerate
                if degenerate or len(kept) == self.prompts:
                    others += group
                else:
                    kept.append(group)
            position += self.prompts
            tries += 1
        notes: tuple[str, ...] = ()
        if self.drop_degenerate and len(kept) < self.prompts:
            notes = (
                f"Only {len(kept)} of {self.prompts} groups have differing rewards after {tries} tries "
                f"({dropped} groups dropped), and only they train; raise exploration.max_tries or "
                "exploration.samples, or give problems that the policy solves now and then.",
            )
        return Explored(
            rollouts=tuple(rollout for group in kept for rollout in group),
            position=position,
            others=tuple(others),
            metrics={"exploration.tries": tries, "exploration.dropped": dropped},
            notes=notes,
        )


def sample_groups(
    world: World, problems: Sequence[Problem], samples: int, stream: str, seen: Counter[str]
) -> list[list[Rollout]]:
    """`samples` completions of each problem, a list for each group that has any.

    `seen` counts how often a problem was asked in this iteration and is counted up; it keeps group names and sample
    indices apart where the problems are so few that one comes again.
    """
    requests, names = [], []
    for problem in problems:
        requests.append(world.request(problem, samples, first_sample=seen[problem.id] * samples, stream=stream))
        names.append(f"{problem.id} {seen[problem.id]}")
        seen[problem.id] += 1
    groups: dict[str, list[Rollout]] = {}
    for rollout in world.sample(requests, names):
        groups.setdefault(rollout.group, []).append(rollout)
    return list(groups.values())


def is_degenerate(group: Sequence[Rollout]) -> bool:
    """Whether the rewards of a group are all equal but for residue, so that their centred advantages are 0."""
    rewards = [rollout.reward for rollout in group]
    mean = sum(rewards) / len(rewards)
    return max(abs(reward - mean) for reward in rewards) <= RESIDUE * max(1.0, *map(abs, rewards))
