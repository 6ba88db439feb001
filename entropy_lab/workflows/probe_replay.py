"""Stored trajectories in place of new ones: an engine that plays back what a file holds, asked as any other engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from entropy_lab.engines.protocol import Request, Sampling, Trajectory
from entropy_lab.errors import InputError
from entropy_lab.rollouts import Rollouts
from entropy_lab.tasks.protocol import Problem, Task
from entropy_lab.workflows.asked import digest

_COLUMNS = ("problem_id", "sample_index", "seed", "prompt_ids", "token_ids", "logprobs", "finish_reason", "temperature")


@dataclass(frozen=True)
class Replay:
    """An engine whose n-th sample of a problem is the n-th one stored; where there is none, it gives none."""

    stored: dict[str, list[Trajectory]]

    @property
    def samples(self) -> int:
        """How many every problem has."""
        return min(map(len, self.stored.values()))

    @property
    def content(self) -> str:
        """A hash of what is played back."""
        return digest([(name, [one.token_ids.tolist() for one in rows]) for name, rows in self.stored.items()])

    def rows(self, requests: Sequence[Request], sampling: Sampling) -> int:
        """All at once."""
        return max(1, sum(request.count for request in requests))

    def partition(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Request]]:
        """One batch."""
        return [list(requests)]

    def sample(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Trajectory]:
        """Play back.

        Raises:
            InputError: a request continues a prefix, which stored trajectories cannot.
        """
        for request in requests:
            if request.prefix_ids:
                raise InputError(
                    "--rollouts cannot be branched, as this recipe's exploration asks; leave --rollouts out, or give "
                    "a recipe that samples from prompts alone."
                )
            wanted = slice(request.first_sample, request.first_sample + request.count)
            for index, one in enumerate(self.stored[request.problem_id][wanted], request.first_sample):
                yield replace(one, stream=request.stream, sample_index=index)

    def close(self) -> None:
        """Nothing is held."""


def replay_of(source: Path, checkpoint: str, problems: int | None, samples: int | None) -> Replay:
    """The first `problems` problems of stored rollouts, each with its first `samples` trajectories (None: all).

    Rows are those of `checkpoint`, or of the only checkpoint that is there; branches are left out.

    Raises:
        InputError: nothing that can be used, or rows of several checkpoints none of which is this one.
    """
    rollouts = Rollouts.read(source)
    names = list(dict.fromkeys(str(name) for name in rollouts.strings("checkpoint")))
    if len(names) > 1:
        if checkpoint not in names:
            raise InputError(
                f"{source} holds rollouts of {', '.join(names)}, and none of {checkpoint}; give a file of one of them."
            )
        rollouts = rollouts.of(checkpoint)
    table = rollouts.table.select([*_COLUMNS, "branch_position"]).to_pylist()
    rows = [row for row in table if row["prompt_ids"] and row["token_ids"] and row["branch_position"] is None]
    if not rows:
        raise InputError(f"{source} holds no trajectory with `prompt_ids` and `token_ids` that starts at its prompt.")
    stored: dict[str, list[Trajectory]] = {}
    for row in sorted(rows, key=lambda row: row["sample_index"]):
        stored.setdefault(row["problem_id"], []).append(_trajectory(row))
    order = list(dict.fromkeys(row["problem_id"] for row in rows))[:problems]
    return Replay({name: stored[name][:samples] for name in order})


def stored_problems(replay: Replay, task: Task, source: Path) -> list[Problem]:
    """The problems of the stored trajectories.

    Raises:
        InputError: the task does not have one of them.
    """
    known = {problem.id: problem for problem in task.problems()}
    missing = next((name for name in replay.stored if name not in known), None)
    if missing is not None:
        raise InputError(f"{source}: problem_id {missing!r} is no problem of task {task.name}; give its --task.")
    return [known[name] for name in replay.stored]


def _trajectory(row: dict[str, Any]) -> Trajectory:
    logprobs, ids = row["logprobs"], row["token_ids"]
    return Trajectory(
        problem_id=str(row["problem_id"]),
        sample_index=0,
        stream="",
        seed=row["seed"] or 0,
        prompt_ids=tuple(row["prompt_ids"]),
        token_ids=np.array(ids, np.int32),
        finish_reason=row["finish_reason"] or "stop",
        temperature=row["temperature"] or 1.0,
        logprobs=None if logprobs is None else np.array(logprobs, np.float32),
    )
