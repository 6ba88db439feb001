"""A reward of one's own: a Python function in a file."""

from collections.abc import Callable, Sequence
from functools import cache
from numbers import Real
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from entropy_lab.errors import InputError
from entropy_lab.tasks.user_files import member_of, place_of
from entropy_lab.training.rewards import Reward
from entropy_lab.training.rollout import Rollout


class Function(Reward):
    """What the function `source = "path/to/file.py:name"` returns for the rollouts.

    It is called with the list of one sampling's rollouts and returns one finite number each. Of a rollout it may read
    `text` (the whole completion), `grade` (correct, answer, family, …), `group`, `trajectory` (problem_id, token_ids,
    entropy, …) and `prefix_ids`. The path is relative to the working directory; the file is run.
    """

    piece: ClassVar[str] = "function"

    source: Annotated[str, Field(pattern=r"^.+\.py:[A-Za-z_][A-Za-z0-9_]*$")]
    """path/to/file.py:name"""

    def __call__(self, rollouts: Sequence[Rollout]) -> list[float]:
        """The reward of each rollout."""
        file, _, name = self.source.rpartition(":")
        function = _function(file, name)
        try:
            found = list(function(list(rollouts)))
        except Exception as error:  # the user's own code: any kind
            raise InputError(f"reward {self.source}: {place_of(error, Path(file))}; mend the function.") from error
        if len(found) != len(rollouts):
            raise InputError(f"reward {self.source}: returned {len(found)} numbers for {len(rollouts)} rollouts.")
        odd = [value for value in found if not isinstance(value, Real)]
        if odd:
            raise InputError(f"reward {self.source}: returned {odd[0]!r} for a rollout; return a number.")
        return [float(value) for value in found]


@cache
def _function(file: str, name: str) -> Callable[[list[Rollout]], Any]:
    """Run the file once a process."""
    function = member_of(Path(file), name)
    if not callable(function):
        raise InputError(f"reward {file}:{name} is no function.")
    return function
