"""Forced beginnings of a Countdown answer: what they say, that they give nothing away, and their token ids.

A `Prefix` that states the target or holds a whole solution cannot be made.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from entropy_lab.errors import InputError
from entropy_lab.interventions.openings import entrance_text, openings
from entropy_lab.tasks.countdown.answers import grade_answer
from entropy_lab.tasks.countdown.enumeration import solutions
from entropy_lab.tasks.countdown.expressions import normalise
from entropy_lab.tasks.countdown.task import Countdown
from entropy_lab.tasks.protocol import Problem, Task
from entropy_lab.texts import decode

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from entropy_lab.checkpoints import Checkpoint

Level = Literal["empty", "entrance", "value", "infeasible", "corrupted"]

SCAFFOLDS = {"steps": "", "expression": "<answer>"}
"""What stands before every entrance, by answer format (ours)."""

_FAMILY = re.compile(r"([0-9]+)[-+*/]")
_STATED = re.compile(r"=\s*([0-9]+)")
_ANCHOR = "\n"


class Leak(InputError):
    """A beginning that would tell the policy the answer."""


@dataclass(frozen=True)
class Prefix:
    """The text a completion is forced to begin with: the scaffold, then `body`, the beginning of the answer itself.

    `continued` is the problem that a corrupted body leaves behind it, where that can be solved. Making a prefix raises
    `Leak` where its text states the target as a result, uses all numbers, or is a solution already.
    """

    task: Countdown
    problem: Problem
    level: Level
    family: str
    scaffold: str
    body: str
    continued: Problem | None = None

    def __post_init__(self) -> None:
        """Refuse a prefix that gives the answer away."""
        if reason := self._leak():
            raise Leak(f"Problem {self.problem.id}: the beginning {self.text!r} {reason}; it cannot be forced.")

    @property
    def text(self) -> str:
        """Scaffold and body."""
        return self.scaffold + self.body

    @property
    def stream(self) -> str:
        """The name of its seed stream: one for each level and body, none where nothing but the scaffold is written."""
        return f"{self.level} {self.body}" if self.body else ""

    def _leak(self) -> str | None:
        nums, target = self.problem.data["nums"], self.problem.data["target"]
        text, body = normalise(self.text), normalise(self.body)
        if any(int(stated) == target for stated in _STATED.findall(text)):
            return "states the target as a result"
        used = Counter(int(number) for number in re.findall(r"[0-9]+", _STATED.sub("", body)))
        if used >= Counter(nums):
            return "uses all numbers"
        for answer in (self.text, f"<answer>{self.body}</answer>"):
            if grade_answer(nums, target, answer, self.task.form, self.task.rules).correct:
                return "is a solution already"
        return None


def countdown_task(task: Task) -> Countdown:
    """The task as one whose answers can be begun. Raises `InputError` for any other task or a free answer format."""
    if not isinstance(task, Countdown):
        raise InputError(f"Task {task.name} is no Countdown task, so no entrances can be forced; use one of those.")
    if task.form not in SCAFFOLDS:
        raise InputError(
            f"Task {task.name} leaves the answer format open; give its rows `format` steps or expression, so that "
            "the text of an entrance is known."
        )
    return task


def entrance_prefix(
    checkpoint: "Checkpoint", task: Task, problem: Problem, family: str, scaffold: str | None = None
) -> tuple[int, ...]:
    """Token ids of the scaffold and the entrance of `family`, to be joined to the prompt ids as ids.

    The entrance is spelled as in the task's own examples: `3*`, or in the expression format with the opening brackets
    that a solution needs (`(7-`), as few as possible; a family outside the menu has none. `scaffold` None is the
    format's own, `SCAFFOLDS`. Scaffold and entrance are encoded apart (ours): the entrance is what the policy could
    write next after the scaffold.

    Raises:
        InputError: no Countdown task with one answer format, a family that is not `number operator` of this problem,
            or text that the tokenizer cannot spell.
    """
    asked = countdown_task(task)
    match = _FAMILY.fullmatch(family)
    if match is None or int(match.group(1)) not in problem.data["nums"]:
        raise InputError(
            f"Problem {problem.id}: {family!r} is no entrance; write one of its numbers and an operator, as "
            f"{problem.data['nums'][0]}+."
        )
    body = family
    if asked.form == "expression":
        forms = solutions(problem.data["nums"], problem.data["target"], asked.rules)
        body = entrance_text(family, openings(forms, asked.rules))
    prefix = Prefix(asked, problem, "entrance", family, scaffold_of(asked, scaffold), body)
    return prefix_ids(checkpoint, prefix)


def scaffold_of(task: Countdown, scaffold: str | None) -> str:
    """The scaffold asked for, or that of the task's answer format."""
    return SCAFFOLDS[task.form] if scaffold is None else scaffold


def prefix_ids(checkpoint: "Checkpoint", prefix: Prefix) -> tuple[int, ...]:
    """Token ids of a prefix, scaffold and body encoded apart. Raises `InputError` as `encode_text`."""
    return (*encode_text(checkpoint, prefix.scaffold), *encode_text(checkpoint, prefix.body))


def encode_text(checkpoint: "Checkpoint", text: str) -> tuple[int, ...]:
    """Ids that add exactly `text` to what stands before it, without special tokens.

    Tokenizers that put a space before every text are asked for the text after a line break instead.

    Raises:
        InputError: the tokenizer cannot spell the text.
    """
    if not text:
        return ()
    tokenizer = checkpoint.tokenizer
    anchor = _encode(tokenizer, _ANCHOR)
    after = _encode(tokenizer, _ANCHOR + text)
    candidates = [_encode(tokenizer, text)]
    if after[: len(anchor)] == anchor:
        candidates.append(after[len(anchor) :])
    before = decode(tokenizer, anchor)
    for ids in candidates:
        if ids and decode(tokenizer, (*anchor, *ids)) == before + text:
            return ids
    raise InputError(
        f"The tokenizer of {checkpoint.name} cannot spell {text!r} (it reads back as "
        f"{decode(tokenizer, candidates[0])!r}); give another --scaffold, or a task in an answer format it knows."
    )


def _encode(tokenizer: "PreTrainedTokenizerBase", text: str) -> tuple[int, ...]:
    ids: Sequence[int] = tokenizer.encode(text, add_special_tokens=False, verbose=False)
    return tuple(ids)
