"""Rows of Countdown problems as they are published: `nums` and `target`, or a trainer's `reward_model.ground_truth`.

A trainer's ground truth holds `target` and `numbers` (or `nums`); the other fields of such rows, its own prompt among
them, are not read, since the prompt must state the rules that the grader applies.
"""

from collections.abc import Mapping
from numbers import Integral
from typing import Any

from entropy_lab.errors import InputError

MOST_NUMBERS = 8
LARGEST = 10**18 - 1
"""No number is larger (ours): the readers of answers know numbers of up to 18 digits."""

ACCEPTED = "`nums` and `target`, or `reward_model.ground_truth` with `numbers` and `target`"


def is_countdown(row: Mapping[str, Any]) -> bool:
    """Whether a row has the fields of a Countdown problem."""
    return _plain(row) or _ground_truth(row) is not None


def read_numbers(row: Mapping[str, Any], place: str) -> tuple[tuple[int, ...], int]:
    """The numbers and the target of a row; `place` names it in errors.

    Raises:
        InputError: a field is missing or holds something else than whole numbers from 0 up.
    """
    truth = None if _plain(row) else _ground_truth(row)
    if truth is None:
        field, prefix, source = "nums", "", row
    else:
        field, prefix, source = "numbers" if "numbers" in truth else "nums", "reward_model.ground_truth.", truth
    nums: Any = source.get(field)
    target = source.get("target")
    if nums is None and target is None:
        found = ", ".join(map(str, row)) or "none"
        raise InputError(f"{place}: holds no Countdown problem; fields found: {found}; accepted: {ACCEPTED}.")
    if isinstance(nums, str | bytes | Mapping) or not hasattr(nums, "__len__") or not 1 <= len(nums) <= MOST_NUMBERS:
        raise InputError(
            f"{place}: `{prefix}{field}` is {_shown(nums)}; it must be a list of 1 to {MOST_NUMBERS} whole numbers."
        )
    whole = tuple(_whole(prefix + field, number, place) for number in nums)
    return whole, _whole(f"{prefix}target", target, place)


def _plain(row: Mapping[str, Any]) -> bool:
    return row.get("nums") is not None and row.get("target") is not None


def _ground_truth(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A trainer's ground truth if it is a Countdown problem's."""
    rewards = row.get("reward_model")
    truth = rewards.get("ground_truth") if isinstance(rewards, Mapping) else None
    if isinstance(truth, Mapping) and "target" in truth and ("numbers" in truth or "nums" in truth):
        return truth
    return None


def _whole(name: str, value: object, place: str) -> int:
    if type(value) is int and 0 <= value <= LARGEST:
        return value
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= int(value) <= LARGEST:
        raise InputError(
            f"{place}: `{name}` holds {_shown(value)}; only whole numbers from 0 to 10^18 - 1 are accepted."
        )
    return int(value)


def _shown(value: object) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:
        return "a number of more than 18 digits"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
