"""Solver witnesses: for each entrance family of a problem, one correct solution that begins with it, drawn by seed."""

from dataclasses import dataclass

import numpy as np

from entropy_lab.tasks.countdown.answers import grade_answer
from entropy_lab.tasks.countdown.enumeration import steps_menu, written_menu
from entropy_lab.tasks.countdown.expressions import Tree, canonical, intermediate_values, parse
from entropy_lab.tasks.countdown.rules import Rules
from entropy_lab.tasks.countdown.steps import random_steps
from entropy_lab.tasks.countdown.task import Countdown
from entropy_lab.tasks.protocol import Problem

SCAFFOLDS = {"steps": ("", ""), "expression": ("<answer>", "</answer>")}
"""What stands around an answer, by format (ours): expressions stand in the tags that the prompt asks for."""
MAX_DRAWS = 500
"""Ways of writing one solution that are tried for one that begins with the family (ours)."""


@dataclass(frozen=True)
class Witness:
    """A correct answer as the policy would write it, scaffold included, and the family that it begins with.

    `text` is None where no text of the answer format was found for the family.
    """

    family: str
    text: str | None


def witnesses(task: Countdown, problem: Problem, generator: np.random.Generator) -> tuple[Witness, ...] | None:
    """One witness for each family of the problem's menu, in the order of their labels; None where there is no menu.

    The canonical solution is uniform over those with the family. In steps, so is its order of play as `random_steps`
    draws it, given the first step; an expression has its operands in random order, compound ones in brackets.
    Every text grades as correct and of its family. A family has none where, say, all its steps pass through results
    that are no whole numbers from 0 up.
    """
    space = task.space(problem)
    if space is None:
        return None
    forms = [canonical(parse(text)) for text in sorted(space.solutions)]
    if task.form == "steps":
        forms = [form for form in forms if _whole(form)]
        families = [steps_menu((form,), task.rules) for form in forms]
    else:
        families = [written_menu((form,)) for form in forms]
    found = []
    for family in sorted(space.menu):
        text = None
        candidates = [form for form, offered in zip(forms, families, strict=True) if family in offered]
        for index in generator.permutation(len(candidates)):
            text = _written(task, problem, candidates[index], family, generator)
            if text is not None:
                break
        found.append(Witness(family, text))
    return tuple(found)


def _written(task: Countdown, problem: Problem, form: Tree, family: str, generator: np.random.Generator) -> str | None:
    """One way of writing `form` that begins with `family` and is graded as correct."""
    before, after = SCAFFOLDS[task.form]
    for _ in range(MAX_DRAWS):
        if task.form == "steps":
            body = _played(form, task.rules, generator)
            if not body.startswith(family):
                continue
        else:
            body = _expression(form, family, generator)
        text = f"{before}{body}{after}"
        verdict = grade_answer(problem.data["nums"], problem.data["target"], text, task.form, task.rules)
        if verdict.correct and verdict.family == family:
            return text
    return None


def _whole(form: Tree) -> bool:
    """Whether every result can stand in a step, which has no sign and no fraction."""
    return all(isinstance(value, int) and value >= 0 for value in intermediate_values(form) or ())


def _played(form: Tree, rules: Rules, generator: np.random.Generator) -> str:
    try:
        return random_steps(form, generator, rules)
    except ValueError:  # no order of play within the rules turned up
        return ""


def _expression(form: Tree, family: str | None, generator: np.random.Generator) -> str:
    """`form` with the operands of + and × in random order; with a family, one that it can begin with stands first."""
    if isinstance(form, int):
        return str(form)
    operator, children = form
    order = [int(index) for index in generator.permutation(len(children))] if operator in "+*" else [0, 1]
    if family is not None:
        movable = order if operator in "+*" else order[:1]
        leading = next(index for index in movable if _begins(children[index], operator, family))
        order = [leading, *(index for index in order if index != leading)]
    parts = [
        _expression(children[index], family if place == 0 else None, generator) for place, index in enumerate(order)
    ]
    return operator.join(
        part if isinstance(children[index], int) else f"({part})" for part, index in zip(parts, order, strict=True)
    )


def _begins(child: Tree, operator: str, family: str) -> bool:
    return f"{child}{operator}" == family if isinstance(child, int) else family in written_menu((child,))
