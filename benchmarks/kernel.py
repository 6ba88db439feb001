"""Exact token statistics against a plain matrix product and against the usual way (all logits, then TRL's functions).

Prints one table and writes nothing. TRL lives in an environment of its own, whose interpreter is --peer-python
(torch==2.13.0 trl==1.16.0 accelerate); without it the peer's line is missing. Contestants take turns, so that a busy
machine slows all of them; ratios are medians over the turns. Run with nothing else on the machine.
"""

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

CHECKED_TOKENS = 16
MASKED_IDS = 1000
PEER_PYTHON = Path(__file__).resolve().parents[1] / ".venv-peers" / "bin" / "python"
MIB = 2**20


def inputs(arguments: argparse.Namespace) -> tuple[Tensor, Tensor, Tensor]:
    """Hidden states, a head that gives logits of σ = 3, targets: the same in every process."""
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(arguments.tokens, arguments.hidden, generator=generator)
    weight = torch.randn(arguments.vocabulary, arguments.hidden, generator=generator).mul_(3 / arguments.hidden**0.5)
    return hidden, weight, torch.randint(0, arguments.vocabulary, (arguments.tokens,), generator=generator)


def seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def status_kib(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1])
    raise KeyError(field)


def extra_mib(run: Callable[[], object]) -> float | None:
    """How far the process's memory rises above what it held before, in MiB; None where /proc does not tell."""
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from what is held now
        before = status_kib("VmRSS")
    except OSError:
        return None
    run()
    return (status_kib("VmHWM") - before) * 1024 / MIB


def warm_memory(run: Callable[[], object]) -> float | None:
    """`extra_mib` of a second run: the first one also loads code and starts threads."""
    run()
    return extra_mib(run)


def measure_ours(arguments: argparse.Namespace) -> dict[str, Any]:
    """Our side of the table, with the peer taking its turns in between."""
    from entropy_lab.scoring import token_statistics

    hidden, weight, targets = inputs(arguments)
    peer = Peer(arguments) if arguments.peer_python else None

    def ours() -> Tensor:
        return token_statistics(hidden, weight, targets).entropy_N

    def plain() -> Tensor:
        return hidden @ weight.T

    memory = {"plain": warm_memory(plain), "ours": warm_memory(ours), "usual": peer.ask("memory") if peer else None}
    times: dict[str, list[float]] = {"plain": [], "ours": [], "usual": []}
    for _ in range(arguments.repeats):
        times["plain"].append(seconds(plain))
        times["ours"].append(seconds(ours))
        if peer:
            times["usual"].append(peer.ask("time"))

    bias = torch.zeros(arguments.vocabulary)
    bias[:MASKED_IDS] = -torch.inf
    masked = token_statistics(hidden[:CHECKED_TOKENS], weight, targets[:CHECKED_TOKENS], bias=bias).entropy_N
    exact = exact_entropy(hidden[:CHECKED_TOKENS], weight)
    table = {
        "plain": line("hidden @ weight.T", times["plain"], times, None, None, memory["plain"]),
        "ours": line(
            "token_statistics",
            times["ours"],
            times,
            float((ours()[:CHECKED_TOKENS].double() - exact).abs().max()),
            bool(masked.isfinite().all()),
            memory["ours"],
        ),
    }
    if peer:
        entropy = torch.tensor(peer.ask("entropy"), dtype=torch.float64)
        error = float((entropy - exact).abs().max())
        table["usual"] = line(
            f"all logits, TRL {peer.ask('version')}",
            times["usual"],
            times,
            error,
            peer.ask("masked"),
            peer.ask("memory"),
        )
        peer.close()
    return table


def line(
    name: str,
    own: list[float],
    times: dict[str, list[float]],
    error: float | None,
    finite: bool | None,
    memory: float | None,
) -> dict[str, Any]:
    """One contestant; `to_plain` is the median over turns of its time divided by the plain product's."""
    ratios = [mine / plain for mine, plain in zip(own, times["plain"], strict=True)]
    speedup = [mine / ours for mine, ours in zip(own, times["ours"], strict=True)]
    return {
        "name": name,
        "median_s": statistics.median(own),
        "to_plain": statistics.median(ratios),
        "to_ours": statistics.median(speedup),
        "max_entropy_error": error,
        "finite_when_masked": finite,
        "extra_mib": memory,
    }


def exact_entropy(hidden: Tensor, weight: Tensor) -> Tensor:
    """Entropy in float64, a token at a time."""
    rows = []
    for token in hidden:
        logits = torch.cat([part.double() @ token.double() for part in weight.split(8192)])
        logp = logits.log_softmax(0)
        rows.append(-(logp.exp() * logp).sum())
    return torch.stack(rows)


class Peer:
    """TRL in a process of its own that answers one line a question."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        shape = [f"--{name}={getattr(arguments, name)}" for name in ("tokens", "hidden", "vocabulary", "threads")]
        self._process = subprocess.Popen(
            [str(arguments.peer_python), __file__, "--serve", *shape],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, question: str) -> Any:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the peer has no pipes")
        print(question, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"The peer failed on {question!r}; its error is above.")
        return json.loads(answer)

    def close(self) -> None:
        self._process.communicate()


def serve(arguments: argparse.Namespace) -> None:
    """The peer's side: the usual way to log-prob and entropy, through all logits at once."""
    import trl  # type: ignore[import-not-found]
    from trl.trainer.utils import entropy_from_logits, selective_log_softmax  # type: ignore[import-not-found]

    hidden, weight, targets = inputs(arguments)

    def usual() -> Tensor:
        logits = hidden @ weight.T
        selective_log_softmax(logits, targets)
        return entropy_from_logits(logits)

    def masked() -> bool:
        logits = hidden[:CHECKED_TOKENS] @ weight.T
        logits[:, :MASKED_IDS] = -torch.inf
        return bool(entropy_from_logits(logits).isfinite().all())

    answers: dict[str, Callable[[], object]] = {
        "time": lambda: seconds(usual),
        "entropy": lambda: usual()[:CHECKED_TOKENS].tolist(),
        "masked": masked,
        "memory": lambda: warm_memory(usual),
        "version": lambda: trl.__version__,
    }
    for question in sys.stdin:
        print(json.dumps(answers[question.strip()]()), flush=True)


def show(table: dict[str, Any], arguments: argparse.Namespace) -> None:
    from rich.console import Console
    from rich.table import Table

    title = (
        f"N={arguments.tokens} H={arguments.hidden} V={arguments.vocabulary} float32, {arguments.threads} threads, "
        f"{arguments.repeats} turns, torch {torch.__version__}"
    )
    view = Table(title=title)
    for name in ("", "median s", "× plain", "× ours", "max |ΔH|", "−inf ok", "+MiB"):
        view.add_column(name, no_wrap=True)
    for row in table.values():
        error, finite, memory = row["max_entropy_error"], row["finite_when_masked"], row["extra_mib"]
        view.add_row(
            row["name"],
            f"{row['median_s']:.2f}",
            f"{row['to_plain']:.2f}",
            f"{row['to_ours']:.2f}",
            "" if error is None else f"{error:.1e}",
            "" if finite is None else ("yes" if finite else "no"),
            "" if memory is None else str(math.ceil(memory)),
        )
    Console(width=100).print(view)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--vocabulary", type=int, default=151_936)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--peer-python", type=Path, default=PEER_PYTHON if PEER_PYTHON.exists() else None)
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of the table")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.serve:
        serve(arguments)
        return
    table = measure_ours(arguments)
    if arguments.json:
        print(json.dumps({"shape": {k: vars(arguments)[k] for k in ("tokens", "hidden", "vocabulary")}, **table}))
    else:
        show(table, arguments)


if __name__ == "__main__":
    main()
