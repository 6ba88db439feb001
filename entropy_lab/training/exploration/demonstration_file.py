"""Demonstrations from a file: prompts with the completions to learn, in a new order each epoch."""

from itertools import islice
from typing import Annotated, ClassVar

from pydantic import Field

from entropy_lab.training.exploration import Exploration, Explored, World
from entropy_lab.training.written import read_written, shuffled, written_rollout


class DemonstrationFile(Exploration):
    """Demonstrations from `file`, `count` an iteration (SFT).

    The file is JSONL or Parquet (or a hub set) with `prompt` (a text, or messages) or `messages`, and `completion`, the
    text to learn; an end token is put after it. Each epoch takes all rows in an order drawn by (seed, epoch).
    """

    piece: ClassVar[str] = "demonstration-file"
    asks_policy: ClassVar[bool] = False

    file: str
    count: Annotated[int, Field(gt=0)] = 256

    def __call__(self, world: World, position: int) -> Explored:
        """Trajectories of one iteration, from row `position` of the endless order on."""
        rows = read_written(self.file, ("completion",))
        indices = islice(shuffled(len(rows), world.seed, position), self.count)
        rollouts = tuple(
            written_rollout(
                world.checkpoint,
                row.messages,
                row.answers[0],
                row.name,
                place,
                str(place),
                "demonstration",
                world.prompt,
            )
            for place, row in enumerate(rows[index] for index in indices)
        )
        return Explored(rollouts, position + self.count)
