"""The texts that two checkpoints are asked about, as token ids, each with its split into entrance and execution."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.diagnostics.shift import Split, split_at
from entropy_lab.engines.protocol import trajectory_seed
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress
from entropy_lab.rollouts import Rollouts
from entropy_lab.tasks.countdown.first_operator import first_operator
from entropy_lab.tasks.countdown.task import Countdown
from entropy_lab.tasks.countdown.witnesses import SCAFFOLDS, witnesses
from entropy_lab.tasks.protocol import Problem
from entropy_lab.texts import token_texts
from entropy_lab.workflows.sampling import Order

_SCAFFOLD = re.compile(r"\s*<answer>")
_OPERATOR = re.compile(r"[-+*/]")


@dataclass(frozen=True)
class Text:
    """One completion to score: which one of its problem, the family that it begins with, its ids and their split."""

    problem_id: str
    index: int
    family: str
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    split: Split


@dataclass(frozen=True)
class TextSet:
    """The texts, and what a reader must know of those that are not among them."""

    texts: tuple[Text, ...]
    notes: tuple[str, ...] = ()


def witness_texts(order: Order, task: Countdown, seed: int, progress: Progress) -> TextSet:
    """One solver solution for each family of each problem's menu, followed by the checkpoint's end token.

    A problem's draws depend on the seed and its id alone. Problems without a menu and families without a witness are
    left out and counted.

    Raises:
        InputError: a task whose format has no menu, or a witness that the tokenizer cannot write.
    """
    if task.form not in SCAFFOLDS:
        raise InputError(
            f"Task {task.name} takes answers in any format, which has no menu of families; set `format` to steps or "
            "expression in its file, or use --texts early or late."
        )
    checkpoint = order.checkpoint
    end = end_token(checkpoint)
    texts: list[Text] = []
    without_menu = missing = 0
    with progress.stage("solving", len(order.problems), "problem") as stage:
        for problem, request in zip(order.problems, order.requests, strict=True):
            generator = np.random.default_rng(trajectory_seed(seed, problem.id, "witness", 0))
            menu = witnesses(task, problem, generator)
            stage.advance()
            if not menu:
                without_menu += 1
                continue
            missing += sum(witness.text is None for witness in menu)
            for index, witness in enumerate(menu):
                if witness.text is None:
                    continue
                ids = (*checkpoint.tokenizer.encode(witness.text, add_special_tokens=False), *end)
                split = _split_witness(checkpoint, witness.text, ids)
                texts.append(Text(problem.id, index, witness.family, request.prompt_ids, ids, split))
    notes = _left_out(without_menu, len(order.problems), "problems", "no solution, or too many numbers to list all")
    notes += _left_out(missing, missing + len(texts), "families", "no text of the answer format begins with them")
    if not end:
        notes += (f"{checkpoint.name} has no end token, so the texts end without one.",)
    return TextSet(tuple(texts), notes)


def end_token(checkpoint: Checkpoint) -> tuple[int, ...]:
    """The token that ends a completion: the tokenizer's own where it counts as one, else the first that does."""
    own = checkpoint.tokenizer.eos_token_id
    return (own,) if own in checkpoint.end_ids else checkpoint.end_ids[:1]


def _split_witness(checkpoint: Checkpoint, text: str, ids: Sequence[int]) -> Split:
    """By the decoded text, which must be the witness but for spaces that a tokenizer adds."""
    pieces = token_texts(checkpoint.tokenizer, ids)
    decoded = "".join(pieces)
    if not "".join(decoded.split()).startswith(text):
        raise InputError(
            f"{checkpoint.name} cannot write the solution {text!r}: its tokenizer reads it back as {decoded!r}. Give "
            "problems whose numbers and answer format it knows, or use --texts early or late."
        )
    start = _solution_start(decoded)
    operator = _OPERATOR.search(decoded, start)
    assert operator is not None, decoded  # a witness holds at least one
    return split_at(pieces, start, operator.start())


def sampled_texts(checkpoint: Checkpoint, problems: Sequence[Problem], rollouts: Rollouts) -> TextSet:
    """Sampled traces that hold a calculation, split at its operator; the others are left out and counted."""
    nums = {problem.id: problem.data["nums"] for problem in problems}
    columns = ("problem_id", "sample_index", "prompt_ids", "token_ids")
    texts: list[Text] = []
    for problem_id, index, prompt_ids, token_ids in zip(
        *(rollouts.table[name].to_pylist() for name in columns), strict=True
    ):
        pieces = token_texts(checkpoint.tokenizer, token_ids)
        ended = len(token_ids) and token_ids[-1] in checkpoint.end_ids
        decoded = "".join(pieces[:-1] if ended else pieces)
        found = first_operator(nums[problem_id], decoded)
        if found is not None:
            split = split_at(pieces, _solution_start(decoded), found[1])
            texts.append(Text(problem_id, index, found[0], tuple(prompt_ids), tuple(token_ids), split))
    notes = _left_out(len(rollouts) - len(texts), len(rollouts), "texts", "no calculation in them")
    return TextSet(tuple(texts), notes)


def _solution_start(text: str) -> int:
    """Where the solution text begins: after an opening tag that the text starts with (ours), else at 0."""
    scaffold = _SCAFFOLD.match(text)
    return scaffold.end() if scaffold else 0


def _left_out(count: int, total: int, what: str, why: str) -> tuple[str, ...]:
    return (f"{count:,} of {total:,} {what} left out: {why}.",) if count else ()
