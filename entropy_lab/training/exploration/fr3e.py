"""FR3E: first returns, the positions where the policy was least sure, and many continuations from each of them."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Annotated, ClassVar

from pydantic import Field

from entropy_lab.tasks.protocol import Problem
from entropy_lab.training.anchors import Anchor, anchors
from entropy_lab.training.exploration import Exploration, Explored, World
from entropy_lab.training.exploration.groups import is_degenerate
from entropy_lab.training.rollout import Rollout, State

Positive = Annotated[int, Field(gt=0)]


@dataclass(frozen=True)
class Tree:
    """A first return and the continuations of each of its states, root first, in order of sample index."""

    base: Rollout
    states: tuple[tuple[Rollout, ...], ...]


class FR3E(Exploration):
    """FR3E: continuations from a first return's prompt and its most uncertain positions (Zheng et al. 2025).

    First return: `first_n` completions of each of `prompts` problems, of which the first right and the first wrong one
    become bases, at most `bases` of a batch, in the order of problems (ours). Explore: `continuations` of each state
    S_0 = prompt, S_j = prompt + completion[:pos_j], where pos_1 < … < pos_K are the `anchors` positions that `anchor`
    picks; token pos_j is drawn again, and max_new_tokens counts from the state. V_j is the mean reward of state j's
    continuations. Each state is a group; each base has a tree, and a root, of its own (ours). States whose rewards are
    all equal do not train but keep their value. New batches are sampled until `min_share` of `target_groups` states
    differ, `max_tries` at most; states beyond `target_groups` do not train. Sizes are the embedded ladder's (ours).
    """

    piece: ClassVar[str] = "fr3e"

    prompts: Positive = 24
    first_n: Positive = 4
    bases: Positive = 10
    anchor: Anchor = "entropy"
    anchors: Positive = 3
    continuations: Annotated[int, Field(ge=2)] = 5
    target_groups: Positive = 36
    min_share: Annotated[float, Field(gt=0, le=1)] = 0.8
    max_tries: Positive = 3

    def __call__(self, world: World, position: int) -> Explored:
        """Trajectories of one iteration, from problem `position` on."""
        wanted = math.ceil(self.min_share * self.target_groups - 1e-9)
        drawn: Counter[str] = Counter()
        trees: list[Tree] = []
        kept: list[tuple[Rollout, ...]] = []
        others: list[Rollout] = []
        tries = degenerate = 0
        while tries == 0 or (len(kept) < wanted and tries < self.max_tries):
            problems = {problem.id: problem for problem in world.problems_at(position, self.prompts)}
            first = self._first_returns(world, problems, f"try{tries}", drawn)
            found = self._explore(world, problems, self._bases(problems, first), drawn)
            others += first
            for state in (state for tree in found for state in tree.states):
                flat = len(state) < 2 or is_degenerate(state)
                degenerate += flat
                if flat or len(kept) == self.target_groups:
                    others += state
                else:
                    kept.append(state)
            trees += found
            position += self.prompts
            tries += 1
        values = [value for tree in trees for value in _values(tree.states) if not math.isnan(value)]
        states = sum(len(tree.states) for tree in trees)
        metrics: dict[str, float] = {"exploration.tries": tries, "exploration.bases": len(trees)}
        if states:
            metrics["exploration.degenerate_states"] = degenerate / states
        if values:
            metrics["exploration.state_value"] = fmean(values)
        return Explored(
            rollouts=tuple(rollout for group in kept for rollout in group),
            position=position,
            others=tuple(others),
            metrics=metrics,
            notes=() if len(kept) >= wanted else (self._shortage(len(kept), wanted, tries, states, degenerate),),
        )

    def _first_returns(
        self, world: World, problems: dict[str, Problem], batch: str, drawn: Counter[str]
    ) -> list[Rollout]:
        requests = [
            world.request(problem, self.first_n, first_sample=drawn[name], stream="base")
            for name, problem in problems.items()
        ]
        drawn.update(dict.fromkeys(problems, self.first_n))
        return world.sample(requests, [f"{name}/first {batch}" for name in problems])

    def _bases(self, problems: dict[str, Problem], first: Sequence[Rollout]) -> list[Rollout]:
        """The first right and the first wrong return of each problem, as far as `bases` allows."""
        chosen: dict[tuple[str, bool], Rollout] = {}
        for rollout in sorted(first, key=lambda one: one.sample_index):
            chosen.setdefault((rollout.trajectory.problem_id, rollout.grade.correct is True), rollout)
        return [chosen[name, right] for name in problems for right in (True, False) if (name, right) in chosen][
            : self.bases
        ]

    def _explore(
        self, world: World, problems: dict[str, Problem], bases: Sequence[Rollout], drawn: Counter[str]
    ) -> list[Tree]:
        """Continue every state of every base, all in one call, so that their prefixes are computed once."""
        requests, names = [], []
        states: list[list[str]] = []  # of each base, the names of its states' groups
        for base in bases:
            name, ids = base.trajectory.problem_id, base.trajectory.token_ids.tolist()
            columns = base.trajectory.entropy, base.trajectory.logprobs
            states.append([])
            for state, start in enumerate((0, *anchors(self.anchor, self.anchors, *columns))):
                requests.append(
                    world.request(
                        problems[name],
                        self.continuations,
                        first_sample=drawn[name],
                        prefix_ids=tuple(ids[:start]),
                        stream=f"base{base.sample_index} state{state}",
                    )
                )
                drawn[name] += self.continuations
                states[-1].append(f"{_tree_name(base)}/state{state}")
            names += states[-1]
        found: dict[str, list[Rollout]] = defaultdict(list)
        for rollout in world.sample(requests, names):
            found[rollout.group].append(rollout)
        return [_grown(base, [found[name] for name in own]) for base, own in zip(bases, states, strict=True)]

    def _shortage(self, kept: int, wanted: int, tries: int, states: int, degenerate: int) -> str:
        trains = "only they train" if kept else "nothing trains in this iteration"
        return (
            f"Only {kept} of the {wanted} states wanted ({self.min_share:g} of target_groups = {self.target_groups}) "
            f"have continuations of differing rewards after {tries} tries ({degenerate} of {states} states do not), "
            f"and {trains}; raise exploration.max_tries, exploration.bases or exploration.continuations, or give "
            "problems that the policy solves now and then."
        )


def _tree_name(base: Rollout) -> str:
    """Unique within an iteration: sample indices of a problem are."""
    return f"{base.trajectory.problem_id}/base{base.sample_index}"


def _grown(base: Rollout, states: Sequence[Sequence[Rollout]]) -> Tree:
    """The base's tree, its branches told where they stand."""
    values = _values(states)
    return Tree(
        base,
        tuple(
            tuple(
                replace(branch, parent_index=base.sample_index, state=State(_tree_name(base), index, values))
                for branch in sorted(branches, key=lambda one: one.sample_index)
            )
            for index, branches in enumerate(states)
        ),
    )


def _values(states: Sequence[Sequence[Rollout]]) -> tuple[float, ...]:
    """V_j of each state; NaN where no continuation could be graded."""
    return tuple(fmean(one.reward for one in branches) if branches else math.nan for branches in states)
