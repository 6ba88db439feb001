"""The loop of the grading process: one JSON request a line on stdin, one JSON reply a line on stdout.

It bounds its own memory, and its own life in case the parent dies while it computes; the parent bounds each answer.
"""

import contextlib
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

MEMORY_BYTES = 2 << 30
READY = {"ready": True}


def main(life_seconds: float, grader: str) -> None:
    """Answer requests by the module `grader` until stdin ends.

    Die if one takes `life_seconds`, when nobody can be waiting any more.
    """
    replies = _claim_stdout()
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which closes this process
    _bound_memory()
    judge: Callable[[dict[str, Any]], dict[str, Any]] = importlib.import_module(grader).judge

    _send(replies, READY)
    for line in sys.stdin:
        _watchdog(life_seconds)
        try:
            reply: dict[str, Any] = judge(json.loads(line))
        except Exception as error:  # the model's text may break any layer of sympy; the parent counts it apart
            reply = {"code": "grader-error", "detail": type(error).__name__}
        _watchdog(0)
        _send(replies, reply)


def _claim_stdout() -> int:
    """Keep stdout for replies: whatever a library prints goes to stderr."""
    replies = os.dup(1)
    os.dup2(2, 1)
    return replies


def _send(replies: int, reply: dict[str, Any]) -> None:
    data = json.dumps(reply).encode() + b"\n"
    while data:
        data = data[os.write(replies, data) :]


def _bound_memory() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    soft = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
    with contextlib.suppress(ValueError, OSError):  # some systems refuse; the time limit still holds
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _watchdog(seconds: float) -> None:
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)  # SIGALRM's default action ends the process, even inside C
