"""Explorations: which trajectories an iteration trains on."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.engines.protocol import Request, Sampling
from entropy_lab.tasks.protocol import Problem, Task
from entropy_lab.training.outer_solutions import Solution
from entropy_lab.training.piece import Piece
from entropy_lab.training.rollout import Rollout


class World(Protocol):
    """What an exploration may use. Everything random depends on (`seed`, `iteration`) and the names of streams."""

    @property
    def checkpoint(self) -> Checkpoint:
        """The policy as it is now."""

    @property
    def task(self) -> Task:
        """What is asked."""

    @property
    def sampling(self) -> Sampling:
        """How tokens are drawn."""

    @property
    def prompt(self) -> str:
        """How messages become token ids: auto, chat or raw."""

    @property
    def seed(self) -> int:
        """The run's seed."""

    @property
    def iteration(self) -> int:
        """Counts from 0."""

    def problems_at(self, position: int, count: int) -> list[Problem]:
        """`count` problems from `position` on in the run's endless shuffled order (each epoch in an order of its own).

        No problem comes twice unless `count` exceeds the number of problems.
        """

    def request(self, problem: Problem, count: int, **fields: object) -> Request:
        """A request for `count` trajectories of `problem`, its prompt encoded once a run; `fields` are Request's.

        The stream is made this iteration's own: `stream="base"` asks for `f"{iteration} base"`.
        """

    def sample(self, requests: Sequence[Request], groups: Sequence[str]) -> list[Rollout]:
        """Sample, decode, grade and reward; in the order of requests and sample indices.

        `groups[i]` names the group of the rollouts of `requests[i]`. Raises GraderFailure past the limit of failures.
        Rollouts whose grade is unknown (`grade.correct` None) are left out and counted in the iteration's metrics.
        """

    def solutions(self, source: str, problems: Sequence[Problem]) -> dict[str, Solution]:
        """A full solution by problem id, of another checkpoint or from stored rollouts; the same throughout a run.

        Stored rollouts may lack some problems. Raises InputError for a source that is neither.
        """


@dataclass(frozen=True)
class Explored:
    """What one iteration found.

    `rollouts` train, in groups of adjacent rows; `others` were sampled beside them (first returns, dropped groups) and
    are kept in the table only. `position` is where the next iteration's problems begin. `metrics` go to the log under
    their names (`exploration.…`), `notes` to a person.
    """

    rollouts: tuple[Rollout, ...]
    position: int
    others: tuple[Rollout, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Exploration(Piece):
    """One way to explore. `asks_policy` is False for one that never asks the policy (demonstrations)."""

    asks_policy: ClassVar[bool] = True

    @abstractmethod
    def __call__(self, world: World, position: int) -> Explored:
        """Trajectories of one iteration, from problem `position` on."""
