"""Seconds and peak memory of every diagnostic on 3,125 problems × 64 trajectories × about 50 tokens (10 M tokens).

    python benchmarks/diagnostics.py [problems] [samples]

Claim: summary and decision points of such a run take ≤ 20 s and ≤ 2 GiB on two cores.
"""

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from entropy_lab.diagnostics import answers, columns, diversity, intervals, token_entropy
from entropy_lab.diagnostics.comparison import compare
from entropy_lab.diagnostics.decision_points import Rule, decision_blocks, opening_tokens
from entropy_lab.diagnostics.entropy_curves import entropy_by_decile, entropy_by_position
from entropy_lab.diagnostics.entropy_distribution import entropy_distribution
from entropy_lab.diagnostics.summary import summarise
from entropy_lab.diagnostics.trajectories import sorted_rows
from entropy_lab.ragged import Ragged

WORDS = "so we add the numbers then 3 + 5 = 8 and wait let me check this again however it gives 22 times two"


def trajectories(problems: int, samples: int, seed: int) -> dict[str, Any]:
    """A seeded run: lengths 30 to 70, two thirds of the entropies near 0, a few answers a problem, short texts."""
    rng = np.random.default_rng(seed)
    size = problems * samples
    lengths = rng.integers(30, 71, size)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    tokens = int(offsets[-1])
    values = rng.gamma(0.3, 0.5, tokens).astype(np.float32)
    skill = rng.beta(0.5, 1.0, problems)
    label = rng.geometric(0.3, size)
    correct = (rng.random(size) < np.repeat(skill, samples)).astype(np.float64)
    words = WORDS.split()
    pieces = rng.integers(0, len(words), (size, 50))
    return {
        "problem_N": np.repeat(np.arange(problems), samples),
        "entropies": Ragged(values, offsets),
        "varentropies": Ragged(values * values, offsets),
        "logprobs": Ragged(-values, offsets),
        "token_ids": Ragged(rng.integers(0, 50_000, tokens, dtype=np.int32), offsets),
        "correct_N": correct,
        "answers": [f"right {c:.0f}" if c else f"wrong {n}" for c, n in zip(correct, label, strict=True)],
        "texts": [" ".join([words[word] for word in row]) for row in pieces],
        "finish_reasons": ["length" if cut else "stop" for cut in rng.random(size) < 0.05],
        "unused_mass_N": rng.random(size) * 1e-4,
    }


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(problems: int = 3125, samples: int = 64) -> None:
    run = trajectories(problems, samples, seed=0)
    at_start = peak_mib()
    entropies, problem_N = run["entropies"], run["problem_N"]
    seconds: dict[str, tuple[float, float]] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        start, start_cpu = time.perf_counter(), time.process_time()
        result = call()
        seconds[name] = (time.perf_counter() - start, time.process_time() - start_cpu)
        return result

    def summary(name: str) -> Any:
        inputs = {key: run[key] for key in run if key not in ("problem_N", "entropies", "logprobs", "token_ids")}
        return summarise(name, problem_N, entropies, **inputs)

    first = timed("everything: summarise", lambda: summary("first"))
    blocks = timed("everything: decision blocks", lambda: decision_blocks(entropies))
    timed("everything: opening tokens", lambda: opening_tokens(blocks, run["token_ids"], entropies))
    total, total_cpu = (sum(part) for part in zip(*seconds.values(), strict=True))
    total_peak = peak_mib()

    correct_P, graded_P = columns.graded_counts(run["correct_N"], problem_N, problems)
    ks = columns.usable_ks(graded_P, None)
    counts = answers.count_answers(problem_N, run["answers"], problems)
    table = np.stack([column.values_P for column in first.columns], axis=1)
    timed("token mean", lambda: token_entropy.token_mean(entropies, problem_N, problems))
    timed("trajectory means", lambda: token_entropy.trajectory_entropy(entropies))
    timed("lowest tenth", lambda: token_entropy.lowest_share_entropy(entropies))
    timed("sorted rows", lambda: sorted_rows(entropies))
    timed("quantiles and histogram", lambda: entropy_distribution(entropies, problem_N, problems))
    timed("by position", lambda: entropy_by_position(entropies, problem_N, problems))
    timed("by decile", lambda: entropy_by_decile(entropies, problem_N, problems))
    timed("pass@k, G-Pass@k, cover", lambda: columns.accuracy_columns(correct_P, graded_P, ks, ""))
    timed(
        "maj@k", lambda: columns.majority_columns(run["answers"], run["correct_N"], problem_N, problems, ks, "", seed=0)
    )
    timed("answer counts", lambda: answers.count_answers(problem_N, run["answers"], problems))
    timed("answer entropy", lambda: answers.miller_madow(counts))
    timed("distinct-2", lambda: diversity.distinct_n_by_problem(run["texts"], problem_N, problems))
    timed("reflection markers", lambda: diversity.marker_counts(run["texts"]))
    timed(f"BCa of {table.shape[1]} metrics", lambda: intervals.bootstrap_means(table))
    for rule in (Rule("top-k", 4), Rule("threshold", 0.7), Rule("low-logprob", 4)):
        timed(
            f"decision blocks, {rule.kind}",
            lambda rule=rule: decision_blocks(entropies, rule, logprobs=run["logprobs"]),
        )
    timed("compare (paired, crossing)", lambda: compare(first, first))

    print(f"{problems} problems x {samples} trajectories, {len(entropies.values):,} tokens")
    print(f"{'diagnostic':<32}{'seconds':>9}{'CPU':>9}")
    for name, (wall, cpu) in seconds.items():
        print(f"{name:<32}{wall:>9.2f}{cpu:>9.2f}")
    print(f"{'summary + decision points':<32}{total:>9.2f}{total_cpu:>9.2f}   (target 20)")
    print(f"peak memory {total_peak:,.0f} MiB, of which data {at_start:,.0f} MiB (target 2,048)")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
