"""Controllers: between iterations they turn what was measured into new values of other pieces' fields."""

from abc import abstractmethod
from collections.abc import Mapping

from entropy_lab.training.piece import Piece


class Controller(Piece):
    """One controller. Its memory is a flat dictionary of numbers, which the run's state keeps.

    Keys with a dot are fields of the recipe as `--set` names them (`penalties.entropy-bonus.coefficient`), and set
    there before each iteration; other keys are the controller's own.
    """

    @abstractmethod
    def start(self) -> dict[str, float]:
        """The memory before the first iteration."""

    @abstractmethod
    def __call__(self, memory: Mapping[str, float], metrics: Mapping[str, float]) -> dict[str, float]:
        """The memory after an iteration with these metrics (names as in `metrics.jsonl`)."""
