"""Pairs: of each problem's completions one right and one wrong, for losses that compare the two (DPO)."""

from collections import Counter
from typing import Annotated, ClassVar

from pydantic import Field

from entropy_lab.training.exploration import Exploration, Explored, World
from entropy_lab.training.exploration.groups import sample_groups
from entropy_lab.training.rollout import Rollout


class Pairs(Exploration):
    """Pairs from the policy: of `samples` completions of a problem the first right and the first wrong (DPO; ours).

    Two rows a group, the right one first. Problems that were answered in one way only give no pair, nor do pairs
    whose rewards do not put the right row above the wrong one; their rows stay in the table of rollouts. Sizes are
    ours.
    """

    piece: ClassVar[str] = "pairs"

    prompts: Annotated[int, Field(gt=0)] = 24
    samples: Annotated[int, Field(ge=2)] = 8

    def __call__(self, world: World, position: int) -> Explored:
        """Trajectories of one iteration, from problem `position` on."""
        paired: list[Rollout] = []
        others: list[Rollout] = []
        problems = world.problems_at(position, self.prompts)
        for group in sample_groups(world, problems, self.samples, "pairs", Counter()):
            right = next((rollout for rollout in group if rollout.grade.correct is True), None)
            wrong = next((rollout for rollout in group if rollout.grade.correct is False), None)
            if right is not None and wrong is not None and right.reward > wrong.reward:
                paired += [right, wrong]
                others += [rollout for rollout in group if rollout is not right and rollout is not wrong]
            else:
                others += group
        unpaired = self.prompts - len(paired) // 2
        notes: tuple[str, ...] = ()
        if not paired:
            notes = (
                f"None of {self.prompts} problems was answered both rightly and wrongly, so no pair trains; raise "
                "exploration.samples, or give problems that the policy solves now and then.",
            )
        return Explored(
            rollouts=tuple(paired),
            position=position + self.prompts,
            others=tuple(others),
            metrics={"exploration.unpaired": unpaired},
            notes=notes,
        )
