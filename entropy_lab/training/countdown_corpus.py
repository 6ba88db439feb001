"""Countdown problems with all their solutions, parted into train and test; examples drawn by seed and step.

The ladder's own corpus is the default; `embedded_problems` makes the two files of problems that ship with the package.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import combinations_with_replacement
from typing import Annotated

import numpy as np
from pydantic import Field

from entropy_lab.errors import InputError
from entropy_lab.tasks.countdown.enumeration import everything
from entropy_lab.tasks.countdown.expressions import Tree
from entropy_lab.tasks.countdown.rules import Rules, problem_key
from entropy_lab.tasks.countdown.steps import random_steps
from entropy_lab.tasks.countdown.task import LADDER_RULES, LARGEST_ENUMERATED
from entropy_lab.training.piece import Section

TRAIN_PROBLEMS = 3_000
"""Training problems that ship with the package (ours)."""

Size = Annotated[int, Field(ge=1, le=LARGEST_ENUMERATED)]
Positive = Annotated[int, Field(gt=0)]


class Corpus(Section):
    """Which problems there are and which are held out; the defaults are those the embedded ladder was taught (ours)."""

    numbers: tuple[Size, ...] = (3, 4)
    """How many numbers a problem has."""
    largest_number: Positive = 15
    largest_target: Positive = 60
    fewest_solutions: Positive = 2
    """Problems with fewer canonical solutions are left out."""
    test_problems: Positive = 1_000
    corpus_seed: Annotated[int, Field(ge=0)] = 20
    """Decides which problems are held out."""


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


@cache
def build_corpus(corpus: Corpus, rules: Rules = LADDER_RULES) -> SolvedCorpus:
    """Enumerate all problems of a corpus with their solutions and hold the test problems out; once a process.

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
            f"The corpus holds {len(problems)} problems but `test_problems` is {corpus.test_problems}; "
            "widen the corpus or ask for fewer."
        )
    order = np.random.default_rng(corpus.corpus_seed).permutation(len(problems))
    test = [problems[index] for index in order[: corpus.test_problems]]
    train = [problems[index] for index in sorted(order[corpus.test_problems :])]
    return SolvedCorpus(tuple(train), tuple(test), rules)


def embedded_problems() -> dict[str, str]:
    """File name in `entropy_lab/builtin` → JSONL text: all test problems of the ladder, and training problems.

    The training problems are TRAIN_PROBLEMS of the corpus, drawn uniformly without replacement. Takes some ten seconds.
    """
    corpus = Corpus()
    solved = build_corpus(corpus)
    generator = np.random.default_rng([corpus.corpus_seed, TRAIN_PROBLEMS])
    chosen = generator.permutation(len(solved.train))[:TRAIN_PROBLEMS]
    return {
        "countdown_test.jsonl": _rows(solved.test, solved.rules, np.random.default_rng(corpus.corpus_seed)),
        "countdown_train.jsonl": _rows([solved.train[index] for index in chosen], solved.rules, generator),
    }


def _rows(problems: Sequence[SolvedProblem], rules: Rules, generator: np.random.Generator) -> str:
    """One row a problem, its numbers in random order."""
    stated = {name: value for name, value in asdict(rules).items() if value != getattr(Rules, name)}
    rows = (
        {
            "nums": generator.permutation(problem.nums).tolist(),
            "target": problem.target,
            "format": "steps",
            "rules": stated,
        }
        for problem in problems
    )
    return "".join(json.dumps(row) + "\n" for row in rows)


def _reachable(nums: Sequence[int], rules: Rules, largest_target: int) -> dict[int, list[Tree]]:
    return {
        value: sorted(forms, key=repr)
        for value, forms in everything(nums, rules).items()
        if isinstance(value, int) and 1 <= value <= largest_target
    }
