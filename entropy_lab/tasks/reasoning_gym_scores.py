"""Scores of reasoning-gym's own scorers, in the grading process: the problem is made again from its seed and place."""

from functools import cache
from typing import Any

RIGHT = 1 - 1e-9
"""Scores from here on are right; partial scores count as wrong (ours)."""


def judge(request: dict[str, Any]) -> dict[str, Any]:
    """Score `answer` of problem `index`; another question there than the one asked is a fault of the grader's."""
    dataset = _dataset(request["name"], tuple(sorted(request["settings"].items())))
    entry = dataset[request["index"]]
    if entry["question"] != request["question"]:
        return {"code": "grader-error", "detail": "problem-changed"}
    score = float(dataset.score_answer(request["answer"], entry))
    return {"code": "correct" if score >= RIGHT else "wrong-value"}


@cache
def _dataset(name: str, settings: tuple[tuple[str, Any], ...]) -> Any:
    import reasoning_gym

    return reasoning_gym.create_dataset(name, **{key: _frozen(value) for key, value in settings})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
