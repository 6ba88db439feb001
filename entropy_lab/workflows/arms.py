"""Further manners of asking a checkpoint what it was asked plainly: the same problems, samples and random draws."""

from collections.abc import Mapping
from dataclasses import replace

from entropy_lab.engines.protocol import Request
from entropy_lab.interventions.forcing import countdown_task, entrance_prefix
from entropy_lab.interventions.prompting import shared_out, variant_sentence, varied_requests
from entropy_lab.tasks.protocol import Space
from entropy_lab.workflows.sampling import Order

FORCED_NOTE = (
    "Forced arms: each problem's samples are shared out evenly over the entrances of its menu; problems without one "
    "are asked plainly. Access is set by that; entropy and length are those of what follows the entrance."
)
"""What a reader must know of such an arm."""

PLAIN, FORCED = "plain", "forced"


def arm_name(checkpoint: str, manner: str) -> str:
    """`builtin:sft` asked plainly, else `builtin:sft [manner]`."""
    return checkpoint if manner == PLAIN else f"{checkpoint} [{manner}]"


def prompted_arm(plain: Order, variant: str, prompt: str) -> Order:
    """The order `plain` asked with the sentence of a prompt variant, named by it.

    Raises:
        InputError: there is no such variant, or its prompts cannot be built.
    """
    sentence = variant_sentence(variant)
    requests: list[Request] = []
    for problem, request in zip(plain.problems, plain.requests, strict=True):
        requests += varied_requests(plain.checkpoint, plain.task, problem, request.count, sentence, prompt)
    return replace(plain, requests=requests, arm=arm_name(plain.checkpoint.name, variant))


def forced_arm(plain: Order, spaces: Mapping[str, Space | None]) -> Order:
    """The order `plain` with each problem's samples forced to begin with the families of its menu, in equal shares.

    Problems without a menu are asked plainly (ours), so that the arm's means are over the same problems.

    Raises:
        InputError: no Countdown task with one answer format, or the tokenizer cannot spell an entrance.
    """
    task = countdown_task(plain.task)
    requests: list[Request] = []
    for problem, request in zip(plain.problems, plain.requests, strict=True):
        space = spaces[problem.id]
        menu = sorted(space.menu) if space is not None else []
        if not menu:
            requests.append(request)
            continue
        for family, share in zip(menu, shared_out(request.count, len(menu)), strict=True):
            if share:
                prefix = entrance_prefix(plain.checkpoint, task, problem, family)
                requests.append(replace(request, count=len(share), first_sample=share.start, prefix_ids=prefix))
    return replace(plain, requests=requests, arm=arm_name(plain.checkpoint.name, FORCED))
