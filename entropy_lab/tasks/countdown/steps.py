"""Solutions written as steps: `3*5=15,15+7=22`, drawn at random from the ways to play a canonical form."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from entropy_lab.tasks.countdown.expressions import Tree
from entropy_lab.tasks.countdown.rules import Rules, Value, combine

MAX_TRIES = 1_000


@dataclass(eq=False)
class _Node:
    operator: str
    operands: list["_Node | Value"] = field(default_factory=list)


def random_steps(form: Tree, generator: np.random.Generator, rules: Rules | None = None) -> str:
    """One way of playing a canonical form: which operation comes next and, for + and ×, operand order are uniform.

    Uniform over the choices at each step, hence not exactly over whole sequences (ours). Sequences with a result
    outside `rules` are drawn again. Where a result equals a number at hand, the text may read back as another solution.

    Raises:
        ValueError: no order within the rules was found.
    """
    rules = rules or Rules()
    for _ in range(MAX_TRIES):
        steps = _play(form, generator, rules)
        if steps is not None:
            return ",".join(steps)
    raise ValueError(f"no order of steps within the rules found for {form}")


def _play(form: Tree, generator: np.random.Generator, rules: Rules) -> list[str] | None:
    root = _Node("root", [_unfold(form)])
    steps: list[str] = []
    while isinstance(root.operands[0], _Node):
        moves = list(_moves(root.operands[0]))
        node, i, j = moves[generator.integers(len(moves))]
        if node.operator in "+*" and generator.random() < 0.5:
            i, j = j, i
        left, right = node.operands[i], node.operands[j]
        assert not isinstance(left, _Node)
        assert not isinstance(right, _Node)
        result = combine(node.operator, left, right)
        if result is None or not rules.admit(result):
            return None
        steps.append(f"{left}{node.operator}{right}={result}")
        node.operands = [operand for k, operand in enumerate(node.operands) if k not in (i, j)]
        node.operands.append(result)
        root.operands[0] = _folded(root.operands[0])
    return steps


def _unfold(form: Tree) -> _Node | Value:
    return form if isinstance(form, int) else _Node(form[0], [_unfold(child) for child in form[1]])


def _folded(operand: _Node | Value) -> _Node | Value:
    """Replace nodes that came down to one number by that number."""
    if not isinstance(operand, _Node):
        return operand
    operand.operands = [_folded(child) for child in operand.operands]
    return operand.operands[0] if len(operand.operands) == 1 else operand


def _moves(node: _Node) -> Iterator[tuple[_Node, int, int]]:
    """Every operation that could be done now: (node, index of first operand, index of second)."""
    numbers = [index for index, operand in enumerate(node.operands) if not isinstance(operand, _Node)]
    if node.operator in "+*":
        yield from ((node, i, j) for a, i in enumerate(numbers) for j in numbers[a + 1 :])
    elif len(numbers) == 2:
        yield node, 0, 1
    for operand in node.operands:
        if isinstance(operand, _Node):
            yield from _moves(operand)
