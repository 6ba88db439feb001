"""Pairs from a file: prompts with a chosen and a rejected completion, in a new order each epoch."""

from itertools import islice
from typing import Annotated, ClassVar

from pydantic import Field

from entropy_lab.training.exploration import Exploration, Explored, World
from entropy_lab.training.rollout import Rollout
from entropy_lab.training.written import read_written, shuffled, written_rollout


class PreferenceFile(Exploration):
    """Pairs from `file`, `per_iteration` an iteration (DPO).

    The file is JSONL or Parquet (or a hub set) with `prompt` (a text, or messages) or `messages`, and the texts
    `chosen` and `rejected`; an end token is put after each. Two rows a group, with the rewards 1 and 0. Each epoch
    takes all pairs in an order drawn by (seed, epoch).
    """

    piece: ClassVar[str] = "preference-file"
    asks_policy: ClassVar[bool] = False

    file: str
    per_iteration: Annotated[int, Field(gt=0)] = 24

    def __call__(self, world: World, position: int) -> Explored:
        """Trajectories of one iteration, from row `position` of the endless order on."""
        rows = read_written(self.file, ("chosen", "rejected"))
        rollouts: list[Rollout] = []
        for place, index in enumerate(islice(shuffled(len(rows), world.seed, position), self.per_iteration)):
            row = rows[index]
            for side, (answer, code, reward) in enumerate(
                zip(row.answers, ("chosen", "rejected"), (1.0, 0.0), strict=True)
            ):
                rollouts.append(
                    written_rollout(
                        world.checkpoint,
                        row.messages,
                        answer,
                        row.name,
                        2 * place + side,
                        str(place),
                        code,
                        world.prompt,
                        reward,
                    )
                )
        return Explored(tuple(rollouts), position + self.per_iteration)
