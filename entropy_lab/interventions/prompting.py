"""Surface prompting: a sentence added to what a task asks, to widen its answers without touching the weights."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from entropy_lab.engines.protocol import Request
from entropy_lab.errors import InputError
from entropy_lab.prompts import encode_prompt
from entropy_lab.tasks.protocol import Problem, Task

if TYPE_CHECKING:
    from entropy_lab.checkpoints import Checkpoint

VARIANTS = {
    "another-way": "Do not take the first way that comes to mind: find another way, one that begins differently.",
    "begin-with": "Begin the calculation with the number {number}.",
    "many-ways": "Think of several different first steps before you answer, then take any one of them at random.",
}
"""Sentences by name (ours)."""

_NUMBER = "{number}"


def variant_sentence(variant: str) -> str:
    """The sentence of a named variant; text that holds a space is a sentence already.

    Raises:
        InputError: a name that is not in `VARIANTS`.
    """
    if variant in VARIANTS:
        return VARIANTS[variant]
    if " " in variant.strip():
        return variant.strip()
    close = difflib.get_close_matches(variant.lower(), VARIANTS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise InputError(
        f"--prompt-variant is {variant!r}: {hint}Choose one of {', '.join(VARIANTS)}, or write a whole sentence "
        f"({_NUMBER} in it becomes one of the problem's numbers)."
    )


def with_sentence(messages: Sequence[Mapping[str, str]], sentence: str) -> list[dict[str, str]]:
    """The messages with `sentence` at the end of the last user message's request.

    The request is all but the last paragraph, which is the problem; without one, the sentence goes before the problem
    as a paragraph of its own.

    Raises:
        InputError: no message is the user's.
    """
    varied = [dict(message) for message in messages]
    asked = next((message for message in reversed(varied) if message.get("role") == "user"), None)
    if asked is None:
        raise InputError("A prompt variant needs a user message to add its sentence to; the task writes none.")
    request, _, problem = asked["content"].rpartition("\n\n")
    asked["content"] = "\n\n".join((f"{request} {sentence}".lstrip(), problem))
    return varied


def varied_requests(
    checkpoint: "Checkpoint", task: Task, problem: Problem, samples: int, sentence: str, prompt: str = "auto"
) -> list[Request]:
    """Requests for `samples` trajectories of `problem`, asked with `sentence` too; sample indices count from 0.

    Where the sentence names a number, the samples are shared out evenly over the problem's different numbers, in
    their order. Requests whose prompts come out equal are one.

    Raises:
        InputError: the sentence names a number and the problem has none, or the prompt cannot be built.
    """
    sentences = [sentence]
    if _NUMBER in sentence:
        numbers = problem.data.get("nums")
        if not numbers:
            raise InputError(f"Problem {problem.id!r} has no `nums`, so {sentence!r} names none of its numbers.")
        sentences = [sentence.replace(_NUMBER, str(number)) for number in dict.fromkeys(numbers)]
    messages = task.messages(problem)
    requests: list[Request] = []
    for text, share in zip(sentences, shared_out(samples, len(sentences)), strict=True):
        ids = encode_prompt(checkpoint, with_sentence(messages, text), prompt)
        if requests and requests[-1].prompt_ids == ids:
            requests[-1] = replace(requests[-1], count=requests[-1].count + len(share))
        elif share:
            requests.append(Request(problem.id, ids, len(share), share.start))
    return requests


def shared_out(samples: int, parts: int) -> list[range]:
    """Sample indices 0 … `samples` − 1 in `parts` consecutive ranges whose sizes differ by one at most."""
    edges = [samples * part // parts for part in range(parts + 1)]
    return [range(first, last) for first, last in pairwise(edges)]
