"""Countdown problems with all their solutions, parted into train and test; examples drawn by seed and step."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from entropy_lab.errors import InputError
from entropy_lab.tasks.countdown.enumeration import everything
from entropy_lab.tasks.countdown.expressions import Tree
from entropy_lab.tasks.countdown.rules import Rules, problem_key
from entropy_lab.tasks.countdown.steps import random_steps
from entropy_lab.training.recipe import Corpus


@dataclass(frozen=True)
class SolvedProblem:
    """A problem and every canonical solution it has under the rules."""

    nums: tuple[int, ...]
    target: int
    solutions: tuple[Tree, ...]

    @property
    def key(self) -> str:
        """The problem's name."""
        return problem_key(self.nums, self.target)


@dataclass(frozen=True)
class SolvedCorpus:
    """Train and test problems; no key stands in both."""

    train: tuple[SolvedProblem, ...]
    test: tuple[SolvedProblem, ...]
    rules: Rules

    def examples(self, seed: int, step: int, count: int) -> list[tuple[tuple[int, ...], int, str]]:
        """`count` training examples (numbers in random order, target, answer) of one step.

        Problem and canonical solution are drawn uniformly, then one way of playing it. Depends on (seed, step) alone,
        so a resumed run sees the same examples.
        """
        generator = np.random.default_rng([seed, step])
        drawn = []
        for index in generator.integers(len(self.train), size=count):
            problem = self.train[index]
            solution = problem.solutions[generator.integers(len(problem.solutions))]
            nums = tuple(int(number) for number in generator.permutation(problem.nums))
            drawn.append((nums, problem.target, random_steps(solution, generator, self.rules)))
        return drawn


def build_corpus(corpus: Corpus, rules: Rules, seed: int) -> SolvedCorpus:
    """Enumerate all problems of a corpus with their solutions and hold the test problems out.

    Raises:
        InputError: fewer problems than `test_problems` asks for.
    """
    problems = [
        SolvedProblem(nums, target, tuple(forms))
        for size in corpus.numbers
        for nums in combinations_with_replacement(range(1, corpus.largest_number + 1), size)
        for target, forms in sorted(_reachable(nums, rules, corpus.largest_target).items())
        if len(forms) >= corpus.fewest_solutions
    ]
    if len(problems) <= corpus.test_problems:
        raise InputError(
            f"The corpus holds {len(problems)} problems but `corpus.test_problems` is {corpus.test_problems}; "
            "widen the corpus or ask for fewer."
        )
    order = np.random.default_rng(seed).permutation(len(problems))
    test = [problems[index] for index in order[: corpus.test_problems]]
    train = [problems[index] for index in sorted(order[corpus.test_problems :])]
    return SolvedCorpus(tuple(train), tuple(test), rules)


def _reachable(nums: Sequence[int], rules: Rules, largest_target: int) -> dict[int, list[Tree]]:
    return {
        value: sorted(forms, key=repr)
        for value, forms in everything(nums, rules).items()
        if isinstance(value, int) and 1 <= value <= largest_target
    }
