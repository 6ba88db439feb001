"""Outer prefixes: now and then the policy goes on from where a weaker model began."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, ClassVar

import numpy as np
from pydantic import Field

from entropy_lab.engines.protocol import Request, trajectory_seed, uniforms
from entropy_lab.scoring.teacher_forced import score
from entropy_lab.tasks.protocol import Problem
from entropy_lab.texts import decode, token_texts
from entropy_lab.training.entropy_drop import entropy_drop, step_of_tokens
from entropy_lab.training.exploration import Exploration, Explored, World
from entropy_lab.training.exploration.groups import sample_groups
from entropy_lab.training.outer_solutions import Solution
from entropy_lab.training.rollout import Rollout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Positive = Annotated[int, Field(gt=0)]


@dataclass(frozen=True)
class Prefix:
    """Tokens to go on from, their mean surprise −log p under the policy (nats a token), and the drop behind them."""

    ids: tuple[int, ...]
    surprise: float
    drop: float


class OuterPrefix(Exploration):
    """Groups of which some continue a prefix of a weaker model's solution, cut where the policy grows sure.

    Each of `prompts` problems gets `samples` completions; with `probability` all of its group continue one prefix of
    the full solution that `source` has for it. The policy scores that solution once, and keeps the steps up to the
    largest drop of mean step entropy (see `entropy_drop`). Prefix tokens carry no loss (ours). A problem without a
    solution, of one step only, or whose solution the policy's tokenizer cannot write exactly, is asked plainly.
    """

    piece: ClassVar[str] = "outer-prefix"

    prompts: Positive = 24
    samples: Positive = 8
    source: str = "builtin:sft-middle"
    """A weaker checkpoint, whose solutions the run keeps in `outer/`, or rollouts (file or run) that hold solutions."""
    probability: Annotated[float, Field(ge=0, le=1)] = 0.2
    separator: Annotated[str, Field(min_length=1)] | None = None
    """What ends a step of a solution; without one blank lines do, or lines where none is blank."""

    def __call__(self, world: World, position: int) -> Explored:
        """Trajectories of one iteration, from problem `position` on."""
        problems = world.problems_at(position, self.prompts)
        chosen = [problem for problem in problems if self._continues(world, problem)]
        prefixes = self._prefixes(world, chosen, world.solutions(self.source, chosen))
        plain = sample_groups(
            world, [one for one in problems if one.id not in prefixes], self.samples, "plain", Counter()
        )
        prefixed = self._continued(world, problems, prefixes)
        groups = {group[0].trajectory.problem_id: group for group in (*plain, *prefixed)}
        metrics = {"exploration.prefixed": len(prefixes) / len(problems)}
        if prefixes:
            found = prefixes.values()
            metrics |= {
                "exploration.prefix_tokens": fmean(len(one.ids) for one in found),
                "exploration.prefix_surprise": fmean(one.surprise for one in found),
                "exploration.prefix_entropy_drop": fmean(one.drop for one in found),
            }
        return Explored(
            rollouts=tuple(one for problem in problems for one in groups.get(problem.id, ())),
            position=position + self.prompts,
            metrics=metrics,
        )

    def _continues(self, world: World, problem: Problem) -> bool:
        seed = trajectory_seed(world.seed, problem.id, f"{world.iteration} outer prefix", 0)
        return bool(uniforms(seed, 0, 1)[0] < self.probability)

    def _prefixes(self, world: World, problems: Sequence[Problem], solutions: dict[str, Solution]) -> dict[str, Prefix]:
        """The prefix of each problem that has one."""
        tokenizer = world.checkpoint.tokenizer
        ids = {problem.id: _ids(tokenizer, solutions[problem.id]) for problem in problems if problem.id in solutions}
        asked = [problem for problem in problems if len(ids.get(problem.id, ())) > 1]
        scores = score(
            world.checkpoint,
            [problem.id for problem in asked],
            [world.request(problem, 1).prompt_ids for problem in asked],
            [ids[problem.id] for problem in asked],
            temperature=world.sampling.temperature,
        )
        found = {}
        for problem, scored in zip(asked, scores, strict=True):
            own = ids[problem.id]
            cut = entropy_drop(step_of_tokens(token_texts(tokenizer, own), self.separator), scored.entropy)
            if cut is not None:
                kept, drop = cut
                found[problem.id] = Prefix(own[:kept], -float(np.mean(scored.logprob[:kept], dtype=float)), drop)
        return found

    def _continued(self, world: World, problems: Sequence[Problem], prefixes: dict[str, Prefix]) -> list[list[Rollout]]:
        requests: list[Request] = [
            world.request(problem, self.samples, prefix_ids=prefixes[problem.id].ids, stream="outer")
            for problem in problems
            if problem.id in prefixes
        ]
        groups: dict[str, list[Rollout]] = {}
        for one in world.sample(requests, [f"{request.problem_id} outer" for request in requests]):
            surprise = prefixes[one.trajectory.problem_id].surprise
            groups.setdefault(one.group, []).append(replace(one, prefix_surprise=surprise))
        return list(groups.values())


def _ids(tokenizer: "PreTrainedTokenizerBase", solution: Solution) -> tuple[int, ...]:
    """The solution in the policy's ids; nothing where they would not give its text back."""
    if solution.token_ids is not None:
        return solution.token_ids
    ids = tuple(tokenizer(solution.text, add_special_tokens=False)["input_ids"])
    return ids if decode(tokenizer, ids) == solution.text else ()
