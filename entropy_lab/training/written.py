"""Rows that the policy did not write: answers of a solver or a file, as rollouts with an end token and no log-probs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from entropy_lab.checkpoints.end_tokens import turn_end
from entropy_lab.engines.protocol import Trajectory
from entropy_lab.errors import InputError
from entropy_lab.prompts import encode_prompt
from entropy_lab.tasks.problem_files import read_rows
from entropy_lab.tasks.protocol import Grade
from entropy_lab.training.rollout import Rollout

if TYPE_CHECKING:
    from entropy_lab.checkpoints import Checkpoint

Messages = Sequence[Mapping[str, str]]


@dataclass(frozen=True)
class WrittenRow:
    """A row of a file: where it stands (`data.jsonl:3`), its prompt, its answers in the order of the fields asked."""

    name: str
    messages: tuple[dict[str, str], ...]
    answers: tuple[str, ...]


def written_rollout(
    checkpoint: "Checkpoint",
    messages: Messages,
    answer: str,
    problem_id: str,
    sample_index: int,
    group: str,
    code: str,
    prompt: str,
    reward: float = 0.0,
) -> Rollout:
    """`answer` to `messages`, token ids of `checkpoint`'s tokenizer: the prompt it is asked with, then answer and end.

    The end token is the chat template's own, else the tokenizer's. Nothing is graded: `grade.correct` is None.

    Raises:
        InputError: the tokenizer has no end token, or the prompt cannot be encoded.
    """
    ids = checkpoint.tokenizer.encode(answer, add_special_tokens=False, verbose=False)
    trajectory = Trajectory(
        problem_id=problem_id,
        sample_index=sample_index,
        stream="",
        seed=0,
        prompt_ids=encode_prompt(checkpoint, messages, prompt),
        token_ids=np.array([*ids, _end_id(checkpoint)], np.int32),
        finish_reason="stop",
        temperature=1.0,
    )
    return Rollout(trajectory, answer, Grade(None, code), group, sample_index, reward=reward)


@cache
def read_written(file: str, fields: tuple[str, ...]) -> tuple[WrittenRow, ...]:
    """All rows of a file: `prompt` (a text, or {role, content} messages) or `messages`, and the texts `fields`.

    A file is read once a process.

    Raises:
        InputError: no rows, or a field that is missing or holds something else, named with its line.
    """
    rows = []
    for place, row in read_rows(file):
        messages = _messages(row, place)
        rows.append(WrittenRow(Path(place).name, messages, tuple(_text(row, field, place) for field in fields)))
    if not rows:
        raise InputError(f"{file} holds no rows; each needs `prompt`, {', '.join(f'`{field}`' for field in fields)}.")
    return tuple(rows)


def shuffled(rows: int, seed: int, position: int) -> Iterator[int]:
    """Endless row indices from `position` on; each epoch takes all `rows` in an order of its own, by (seed, epoch)."""
    while True:
        epoch, start = divmod(position, rows)
        yield from np.random.default_rng([seed, epoch]).permutation(rows)[start:].tolist()
        position = (epoch + 1) * rows


def _end_id(checkpoint: "Checkpoint") -> int:
    tokenizer = checkpoint.tokenizer
    end = turn_end(tokenizer)
    end = tokenizer.eos_token_id if end is None else end
    if end is None:
        raise InputError(f"{checkpoint.name} has no end token to teach; set eos_token in its tokenizer_config.json.")
    return int(end)


def _messages(row: Mapping[str, Any], place: str) -> tuple[dict[str, str], ...]:
    field = "prompt" if row.get("prompt") is not None else "messages"
    value = row.get(field)
    if value is None:
        found = ", ".join(map(str, row)) or "none"
        raise InputError(f"{place}: has no `prompt` (or `messages`); fields found: {found}.")
    if isinstance(value, str) and field == "prompt":
        return ({"role": "user", "content": _text(row, field, place)},)
    if not isinstance(value, list) or not value or not all(isinstance(turn, dict) for turn in value):
        raise InputError(f"{place}: `{field}` holds {_shown(value)}; write a list of {{role, content}} messages.")
    return tuple(
        {"role": _text(turn, "role", place, f"{field}."), "content": _text(turn, "content", place, f"{field}.")}
        for turn in value
    )


def _text(row: Mapping[str, Any], field: str, place: str, prefix: str = "") -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"{place}: `{prefix}{field}` holds {_shown(value)}; give a text that is not blank.")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InputError(f"{place}: `{prefix}{field}` holds half of a surrogate pair, which is not text; repair it.")
    return value


def _shown(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
