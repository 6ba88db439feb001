"""Grading in a process of its own, so that no text can hang or crash the caller (pitfall T6).

One GradingProcess is one Python process that holds a grader, such as math-verify; an answer that outlasts the limit or
kills the process is reported as `grader-timeout` or `grader-error`, and the process is started again for the next one.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

START_SECONDS = 120.0
PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
# -P and the short stay on sys.path: the child runs this very package, and no file beside it or in the working
# directory can take the place of a standard module.
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
import entropy_lab
del sys.path[0]
from entropy_lab.tasks.grading_child import main
main(float(sys.argv[2]), sys.argv[3])
"""

MATHEMATICS = "entropy_lab.tasks.equivalence"
Reply = dict[str, Any]


class GradingProcess:
    """A grader behind a pipe: `ask` a request, get a reply within `time_limit` seconds.

    `grader` is the module whose `judge` answers in the process.
    """

    def __init__(self, time_limit: float, grader: str = MATHEMATICS) -> None:
        self.time_limit = time_limit
        self._grader = grader
        self._lock = threading.Lock()
        self._child: _Child | None = None

    def ask(self, request: Mapping[str, Any]) -> Reply:
        """Return the child's reply, or {"code": "grader-timeout"} or {"code": "grader-error", "detail": why}.

        A request is sent a second time if the process dies: the machine may have ended it for reasons of its own.
        Raises RuntimeError if the process cannot be started at all.
        """
        with self._lock:
            try:
                reply = self._exchange(request) or self._exchange(request)
            except BaseException:
                self._stop()  # interrupted: the late reply must not answer the next request
                raise
        return reply or {"code": "grader-error", "detail": "process died"}

    def close(self) -> None:
        """End the process; a later `ask` starts another."""
        with self._lock:
            self._stop()

    def _exchange(self, request: Mapping[str, Any]) -> Reply | None:
        """Return the reply, or None if the process died, be it of this request or before it."""
        child = self._running()
        reply = child.receive(self.time_limit) if child.send(request) else None
        if reply is None or reply["code"] == "grader-timeout":
            self._stop()
        return reply

    def _running(self) -> "_Child":
        # After a fork the pipes belong to the parent; a child that shared them would mix up the replies.
        if self._child is None or self._child.owner != os.getpid() or not self._child.alive():
            self._stop()
            self._child = _Child(self.time_limit + 2, self._grader)
        return self._child

    def _stop(self) -> None:
        if self._child is not None and self._child.owner == os.getpid():
            self._child.end()
        self._child = None


class GradingPool:
    """Several grading processes, each started when first needed."""

    def __init__(self, time_limit: float, processes: int, grader: str = MATHEMATICS) -> None:
        self._processes = [GradingProcess(time_limit, grader) for _ in range(processes)]

    def ask(self, request: Mapping[str, Any]) -> Reply:
        """Ask the first process."""
        return self._processes[0].ask(request)

    def ask_all(self, requests: Sequence[Mapping[str, Any]]) -> list[Reply]:
        """Ask every process at once; the replies come in the order of the requests."""
        threads = min(len(self._processes), 1 + len(requests) // 16)  # a process takes as long to start as ~16 answers
        if threads == 1:
            return [self.ask(request) for request in requests]
        idle: queue.SimpleQueue[GradingProcess] = queue.SimpleQueue()
        for process in self._processes[:threads]:
            idle.put(process)

        def ask_idle(request: Mapping[str, Any]) -> Reply:
            process = idle.get()
            try:
                return process.ask(request)
            finally:
                idle.put(process)

        with ThreadPoolExecutor(threads) as executor:
            return list(executor.map(ask_idle, requests))

    def close(self) -> None:
        """End all processes."""
        for process in self._processes:
            process.close()


class _Child:
    """One running process, the thread that reads its replies, and the file that catches its stderr."""

    def __init__(self, life_seconds: float, grader: str) -> None:
        self.owner = os.getpid()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 — closed in _end
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM, PACKAGE_ROOT, str(life_seconds), grader],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        self._replies: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()
        self.end = weakref.finalize(self, _end, self._process, self._errors, os.getpid())
        threading.Thread(target=_read, args=(self._process.stdout, self._replies), daemon=True).start()
        if self.receive(START_SECONDS) != {"ready": True}:
            self._errors.seek(0)
            last = self._errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            self.end()
            raise RuntimeError(f"the grading process does not start: {last or 'no message'}")

    def alive(self) -> bool:
        """Say whether the process still runs."""
        return self._process.poll() is None

    def send(self, request: Mapping[str, Any]) -> bool:
        """Write one request; False if the process is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            return False
        return True

    def receive(self, seconds: float) -> Reply | None:
        """Return the next reply, a grader-timeout after `seconds`, or None if the process died."""
        try:
            return self._replies.get(timeout=seconds)
        except queue.Empty:
            return {"code": "grader-timeout"}


def _read(stdout: IO[bytes], replies: "queue.SimpleQueue[Reply | None]") -> None:
    with stdout:
        for line in stdout:
            replies.put(json.loads(line))
    replies.put(None)


def _end(process: "subprocess.Popen[bytes]", errors: IO[bytes], owner: int) -> None:
    if os.getpid() != owner:
        return
    process.kill()
    process.wait()
    assert process.stdin is not None
    with contextlib.suppress(OSError):  # a request may still be in the buffer
        process.stdin.close()
    errors.close()
