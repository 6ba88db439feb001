"""What an exploration asks: problems in the run's order, prompts encoded once, trajectories sampled and rewarded."""

import math
import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.engines.protocol import Engine, Request, Sampling, Trajectory
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.errors import InputError
from entropy_lab.prompts import encode_prompt
from entropy_lab.rollouts import Rollouts
from entropy_lab.tasks.grading import grade_all, require_working_grader
from entropy_lab.tasks.protocol import Grade, Problem, Task
from entropy_lab.texts import completion_text
from entropy_lab.training.outer_solutions import OuterSolutions, Solution
from entropy_lab.training.rewards import Reward
from entropy_lab.training.rollout import Rollout


class TrainingWorld:
    """See `exploration.World`. `iteration` is set by the loop; counters start anew with `begin`.

    `folder` is the run's, where solutions of other models are kept.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        engine: Engine,
        task: Task,
        problems: Sequence[Problem],
        sampling: Sampling,
        rewards: Sequence[Reward],
        prompt: str,
        seed: int,
        folder: Path | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.engine = engine
        self.task = task
        self.sampling = sampling
        self.seed = seed
        self.iteration = 0
        self.sampled_tokens = 0
        self.grades: list[Grade] = []
        self._problems = {problem.id: problem for problem in problems}
        self._order = list(self._problems)
        self._rewards = rewards
        self.prompt = prompt
        self._encoded = cache(self._encode)
        self._folder = folder
        self._outer: dict[str, OuterSolutions] = {}

    def begin(self, iteration: int) -> None:
        """Start an iteration: its streams, its counters."""
        self.iteration = iteration
        self.sampled_tokens = 0
        self.grades = []

    def problems_at(self, position: int, count: int) -> list[Problem]:
        """`count` problems from `position` on in an endless order, shuffled anew each epoch."""
        size = len(self._order)
        chosen: dict[str, Problem] = {}
        while len(chosen) < min(count, size):
            name = self._order[self._shuffled(position // size)[position % size]]
            chosen.setdefault(name, self._problems[name])  # two epochs may meet in one batch
            position += 1
        return list(chosen.values())

    def request(self, problem: Problem, count: int, **fields: object) -> Request:
        """A request of this iteration's own streams."""
        request = Request(problem.id, self._encoded(problem.id), count)
        stream = f"{self.iteration} {fields.pop('stream', '')}".rstrip()
        return replace(request, stream=stream, **fields)  # type: ignore[arg-type]

    def sample(self, requests: Sequence[Request], groups: Sequence[str]) -> list[Rollout]:
        """Sample and grade; ungraded ones are left out, and counted in `grades`."""
        order = {
            (one.problem_id, one.stream, one.first_sample + index): (place, one, group)
            for place, (one, group) in enumerate(zip(requests, groups, strict=True))
            for index in range(one.count)
        }
        found = []
        for batch in self.engine.partition(requests, self.sampling):
            found += list(self.engine.sample(batch, self.sampling))
        found.sort(key=lambda row: (order[row.problem_id, row.stream, row.sample_index][0], row.sample_index))
        self.sampled_tokens += sum(len(row.token_ids) for row in found)
        asked = [order[row.problem_id, row.stream, row.sample_index] for row in found]
        texts = [
            completion_text(
                self.checkpoint.tokenizer, [*one.prefix_ids, *row.token_ids.tolist()], self.checkpoint.end_ids
            )
            for row, (_, one, _) in zip(found, asked, strict=True)
        ]
        grades = grade_all(self.task, [self._problems[row.problem_id] for row in found], texts)
        self.grades += grades
        require_working_grader(self.grades)
        rollouts = [
            Rollout(row, text, grade, group, row.sample_index, one.prefix_ids)
            for row, text, grade, (_, one, group) in zip(found, texts, grades, asked, strict=True)
            if grade.correct is not None
        ]
        return self._rewarded(rollouts)

    def solutions(self, source: str, problems: Sequence[Problem]) -> dict[str, Solution]:
        """Solutions of `source` by problem; the tokens it samples count as sampled."""
        if source not in self._outer:
            self._outer[source] = self._open(source)
        return self._outer[source].of(problems, self.iteration)

    def _open(self, source: str) -> OuterSolutions:
        if self._folder is None:
            raise InputError(f"Solutions of {source} are kept in a run directory, and here is none.")
        folder, path = self._folder / "outer", Path(source)
        if path.suffix in (".parquet", ".jsonl") or (path / "rollouts").is_dir():
            return OuterSolutions(folder, path, None, same_ids=False)
        outer = load_checkpoint(source, device=self.checkpoint.device.type)
        engine = TransformersEngine(outer, self.engine.rows([], self.sampling))
        sampling = replace(self.sampling, temperature=1.0, certainty=False, twins=False)

        def sample(problems: Sequence[Problem]) -> Rollouts:
            prompts = [encode_prompt(outer, self.task.messages(problem), self.prompt) for problem in problems]
            asked = zip(problems, prompts, strict=True)
            requests = [Request(problem.id, prompt, 1, stream="outer") for problem, prompt in asked]
            drawn = [one for batch in engine.partition(requests, sampling) for one in engine.sample(batch, sampling)]
            drawn.sort(key=lambda one: one.problem_id)
            self.sampled_tokens += sum(len(one.token_ids) for one in drawn)
            return Rollouts.from_rows(_outer_row(outer, one) for one in drawn)

        same = outer.tokenizer.get_vocab() == self.checkpoint.tokenizer.get_vocab()
        return OuterSolutions(folder, None, sample, same_ids=same)

    def _rewarded(self, rollouts: list[Rollout]) -> list[Rollout]:
        channels = [reward(rollouts) for reward in self._rewards]
        for reward, values in zip(self._rewards, channels, strict=True):
            broken = next((place for place, value in enumerate(values) if not math.isfinite(value)), None)
            if len(values) != len(rollouts) or broken is not None:
                found = f"{values[broken]} for {rollouts[broken].text!r:.80}" if broken is not None else len(values)
                raise InputError(f"Reward {reward.piece!r} gave {found}; it must give one finite number a rollout.")
        weights = tuple(reward.weight for reward in self._rewards)
        return [
            replace(one, rewards=row, reward_weights=weights, reward=sum(map(operator.mul, weights, row)))
            for one, row in zip(rollouts, zip(*channels, strict=True), strict=True)
        ]

    def _encode(self, problem_id: str) -> tuple[int, ...]:
        return encode_prompt(self.checkpoint, self.task.messages(self._problems[problem_id]), self.prompt)

    def _shuffled(self, epoch: int) -> list[int]:
        return _permutation(self.seed, epoch, len(self._order))


@cache
def _permutation(seed: int, epoch: int, size: int) -> list[int]:
    return [int(place) for place in np.random.default_rng([seed, epoch]).permutation(size)]


def _outer_row(outer: Checkpoint, drawn: Trajectory) -> dict[str, Any]:
    """A solution as a row of rollouts, its ids without the end token, so that they are those of its text."""
    ids = drawn.token_ids.tolist()
    kept = ids[:-1] if drawn.finish_reason == "stop" else ids
    return {
        "checkpoint": outer.name,
        "problem_id": drawn.problem_id,
        "sample_index": 0,
        "prompt_ids": drawn.prompt_ids,
        "token_ids": kept,
        "text": completion_text(outer.tokenizer, ids, outer.end_ids),
        "finish_reason": drawn.finish_reason,
        "seed": drawn.seed,
        "temperature": drawn.temperature,
    }
