"""Diagnoses made up for layout: the numbers look like a real run's and mean nothing."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from entropy_lab.diagnostics.metric import Metric
from entropy_lab.reports.contents import (
    Alternative,
    BlockView,
    CheckpointDiagnosis,
    Curve,
    DecisionToken,
    Diagnosis,
    TokenView,
    TrajectoryView,
)

PROBLEMS, SAMPLES, LENGTH = 100, 16, 64
HOSTILE = (
    "$x_1^{2}$ \\frac{a}{b} $",
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script><!--",
    "<img src=x onerror=alert(3)>",
    "\x00\x07\x1b[31m\x7f\x85",
    "\ud800 lone \udfff",
    "\u202egnp.exe\u202c \u2066iso\u2069 \u200b",
    "a" * 10_000,
    "🙂👩‍🔬 中文字 العربية עברית",
    "[bold red]not markup[/] :smile: [/nope]",
    "line\nbreak\r\n\ttab  two",
    "{{ 7 * 7 }} {% raw %} &amp; &#60; ' \" `",
    "_hidden_ ^ % # ~ & --> ]]> <!--",
    "\ufffe\uffff\u2028\u2029",
    'https://example.invalid/x.png url(https://example.invalid) id="a"',
    "",
)


def curve(
    x: Sequence[float] | np.ndarray, value: Sequence[float] | np.ndarray, half: float, n: int = PROBLEMS
) -> Curve:
    x, value = np.asarray(x, np.float64), np.asarray(value, np.float64)
    return Curve(x, value, np.maximum(value - half, 0), value + half, np.full(len(x), n, np.int64))


def empty_curve() -> Curve:
    nothing = np.zeros(0)
    return Curve(nothing, nothing, nothing, nothing, np.zeros(0, np.int64))


def _trajectory(name: str, index: int, rng: np.random.Generator, heat: float) -> TrajectoryView:
    numbers, target = [(3, 5, 7), (2, 9, 4), (8, 6, 1)][index % 3], (22, 14, 47)[index % 3]
    a, b, c = numbers
    correct = index % 4 != 1
    finish = "length" if index % 5 == 3 else "stop"
    last = f"{a * b}+{c}={a * b + c}" if correct else f"{a * b}-{c}={a * b - c}"
    plan = (
        f"Let| me| see| what| {a}|,| {b}| and| {c}| can| make|.|\n|{target}| is| a| little| more| than| {a}| ×| {b}|,"
        f"| so| I| try| {a}|*|{b}|=|{a * b}| first|.|\n|Wait|,| {c}| is| still| free|;| then| {last}|.|\n|<|answer|>"
        f"|{a}|*|{b}|=|{a * b}|,|{last}|</|answer|>"
    )
    pieces = plan.split("|")
    entropies = rng.gamma(0.35, heat, len(pieces)) * np.where(np.arange(len(pieces)) < 30, 1.0, 0.25)
    for place in (0, 1, 24, 25, 34, 41):
        entropies[place] += rng.uniform(0.7, 1.6) * heat
    others = [" one", " try", "\n", " {", " (", " so", " first", " the"]
    tokens = []
    for piece, entropy in zip(pieces, entropies, strict=True):
        top = float(np.exp(-entropy * 0.8))
        rest = (1 - top) * np.array([0.5, 0.25, 0.12])
        choices = rng.permutation(others)[:3]
        listed = (Alternative(piece, top), *(Alternative(str(t), float(p)) for t, p in zip(choices, rest, strict=True)))
        tokens.append(TokenView(piece, float(entropy), float(np.log(top)), listed))
    hot = [index for index, entropy in enumerate(entropies) if entropy > 0.7]
    blocks: list[BlockView] = []
    for place in hot:
        start = blocks.pop().start if blocks and place - blocks[-1].stop < 3 else place
        part = entropies[start : place + 1]
        share = float(part.sum() / entropies.sum())
        blocks.append(BlockView(start, place + 1, float(part.max()), float(part.mean()), share))
    return TrajectoryView(
        name, f"{target}:{a},{b},{c}", f"Use {a}, {b} and {c} exactly once each with + − × ÷ to make {target}.", index,
        None if index == 9 else correct, "correct" if correct else "wrong-value", last if correct else None, finish,
        tuple(tokens), tuple(blocks),
    )  # fmt: skip


def checkpoint(name: str, heat: float, rate: float, slope: float, seed: int, shown: int = 12) -> CheckpointDiagnosis:
    rng = np.random.default_rng(seed)
    ks = np.array([1, 2, 4, 8, 16])
    passes = rate + slope * np.log2(ks)
    positions = np.arange(LENGTH)
    by_position = heat * (0.35 + 1.5 * np.exp(-positions / 7) + 0.08 * rng.standard_normal(LENGTH).cumsum() / 8)
    deciles = heat * np.array([1.4, 0.9, 0.6, 0.52, 0.5, 0.46, 0.42, 0.36, 0.22, 0.12])
    drawn = rng.gamma(0.3, heat, 60_000)
    counts, edges = np.histogram(drawn, bins=40, range=(0, 6))
    half = 0.04
    metrics = [
        Metric(f"pass@{k}", float(p), float(p - half), float(p + half), "share", PROBLEMS, name)
        for k, p in zip(ks, passes, strict=True)
    ]
    metrics += [
        Metric("entropy.problem_mean", 0.48 * heat, 0.44 * heat, 0.52 * heat, "nats", PROBLEMS, name),
        Metric("entropy.token_mean", 0.46 * heat, 0.43 * heat, 0.5 * heat, "nats", PROBLEMS, name),
        Metric("entropy.early", 1.21 * heat, 1.12 * heat, 1.29 * heat, "nats", PROBLEMS, name),
        Metric("entropy.first_calculation", 1.6 * heat, 1.5 * heat, 1.7 * heat, "nats", 96, name, "Miller–Madow"),
        Metric("entropy.branching", 1.62, None, None, "", PROBLEMS, name, "no interval: the value is e^H"),
        Metric("coverage.family", 0.42 * heat, 0.37 * heat, 0.47 * heat, "share", 98, name, "2 unsolvable problems"),
        Metric("coverage.solution", 0.21 * heat, 0.18 * heat, 0.25 * heat, "share", 98, name),
        Metric("sampling.truncation_rate", 0.031, 0.0234, 0.0411, "share", PROBLEMS, name),
        Metric("sampling.length", 58.3, 55.1, 61.7, "tokens", PROBLEMS, name),
        Metric("answers.self_consistency", None, None, None, "share", 0, name, "fewer than 2 graded samples"),
    ]
    texts = [" ", "Let", " try", "\n", " I", "Wait", "(", " first", " so", " {", "*", " can", "+", "3"]
    weights = rng.dirichlet(np.linspace(3, 0.3, len(texts)))
    tokens = tuple(
        DecisionToken(t, int(w * 4000), float(w), float(rng.uniform(0.8, 2)))
        for t, w in zip(texts, weights, strict=True)
    )
    return CheckpointDiagnosis(
        name, tuple(metrics), curve(positions, by_position, 0.05), curve(np.arange(1, 11), deciles, 0.05),
        (edges, counts), curve(ks, passes, half), tokens,
        tuple(_trajectory(name, index, rng, heat) for index in range(shown)), PROBLEMS, SAMPLES, PROBLEMS * SAMPLES,
    )  # fmt: skip


SETTINGS = {
    "seed": 0,
    "command": "analyze checkpoint builtin:countdown-rl --against builtin:countdown-sft",
    "sampling": {"temperature": 1.0, "top_p": 1.0, "top_k": None, "samples": SAMPLES, "max_new_tokens": 128},
    "decision_points": {"rule": "quantile", "quantile": 0.8, "gap": 3},
    "checkpoints": {"builtin:countdown-rl": {"sha256": "9f2c" * 16}, "builtin:countdown-sft": {"sha256": "41ab" * 16}},
    "versions": {"entropy_lab": "0.1.0", "torch": "2.13.0", "transformers": "5.24.0"},
}


def single() -> Diagnosis:
    return Diagnosis(
        "Where the policy hesitates", "countdown", (checkpoint("builtin:countdown-sft", 1.0, 0.31, 0.1, 1),),
        settings=SETTINGS, notes=("3.1% of trajectories reached the length limit and were graded as they stood.",),
    )  # fmt: skip


def compared(shown: int = 12) -> Diagnosis:
    late = checkpoint("builtin:countdown-rl", 0.55, 0.47, 0.055, 2, shown)
    early = checkpoint("builtin:countdown-sft", 1.0, 0.31, 0.1, 1, shown)
    differences = (
        Metric("pass@1", 0.16, 0.113, 0.208, "share", PROBLEMS),
        Metric("pass@16", -0.02, -0.0514, 0.0127, "share", PROBLEMS),
        Metric("entropy.problem_mean", -0.216, -0.244, -0.189, "nats", PROBLEMS),
        Metric("entropy.early", -0.545, -0.603, -0.488, "nats", PROBLEMS),
        Metric("coverage.family", -0.189, -0.231, -0.146, "share", 98),
        Metric("sampling.truncation_rate", 0.0, 0.0, 0.0, "share", PROBLEMS, "", "percentile bootstrap: constant data"),
    )
    return Diagnosis(
        "Did reinforcement learning cost breadth?", "countdown", (late, early), differences, SETTINGS,
        ("3.1% of trajectories reached the length limit and were graded as they stood.",
         "The grader failed on no sample."),
    )  # fmt: skip


def hostile() -> Diagnosis:
    """Every string that may come from a model or a file is hostile, and every number that may be missing is."""
    every = "".join(text[:200] for text in HOSTILE)
    nan = float("nan")
    tokens = tuple(
        TokenView(text, nan if index % 4 == 3 else 0.3 * index, nan if index % 5 == 4 else -0.2 * index,
                  tuple(Alternative(other, nan if index == 2 else 0.05) for other in HOSTILE[:5]))
        for index, text in enumerate(HOSTILE)
    )  # fmt: skip
    shown = [
        TrajectoryView(text, text, text, index, (True, False, None)[index % 3], text, text, text, tokens,
                       (BlockView(1, 3, 1.2, nan, 0.4), BlockView(5, 9, 2.0, 1.0, 0.3)))
        for index, text in enumerate(HOSTILE)
    ]  # fmt: skip
    trajectories = (*shown, TrajectoryView(every, "empty", "", 0, None, "", None, "abort", (), ()))
    metrics = (
        *(Metric(text, 0.5, 0.4, 0.6, text, 3, text, text) for text in HOSTILE),
        Metric("pass@1", 0.5, 0.4, 0.6, "share", 3),
        Metric("entropy.problem_mean", nan, nan, float("inf"), "nats", 3),
        Metric("coverage.family", None, None, None, "share", 0, "", every),
    )
    gaps = Curve(np.arange(4.0), np.array([0.1, nan, 0.3, nan]), np.full(4, nan), np.full(4, nan), np.ones(4, np.int64))
    parts = tuple(
        CheckpointDiagnosis(
            f"{index}{every}", metrics, gaps, gaps, (np.arange(3.0), np.array([5, 0])), empty_curve(),
            tuple(DecisionToken(text, 3, 0.1, nan) for text in HOSTILE), trajectories,
        )
        for index in range(2)
    )  # fmt: skip
    settings = {
        every: every,
        "deep": {"missing": nan, "list": [nan, every, None, {"endless": float("inf")}], "none": None},
    }
    return Diagnosis(every, every, parts, metrics, settings, HOSTILE)


def empty() -> Diagnosis:
    nothing = CheckpointDiagnosis(
        "nothing", (), empty_curve(), empty_curve(), (np.zeros(1), np.zeros(0, np.int64)), empty_curve(), (), ()
    )
    return Diagnosis("Empty", "countdown", (nothing,))


def arms(count: int = 3) -> Diagnosis:
    """Several arms of which only numbers are known, and all their paired differences."""
    rng = np.random.default_rng(count)
    ladder = ("builtin:sft-early", "builtin:sft-middle", "builtin:sft")
    names = [*ladder[:count], *(f"layers 2:4, α = 0.{index}" for index in range(1, count - 2))]
    units = {
        "pass@1": "share", "pass@64": "share", "entropy.early": "nats", "coverage.family": "share",
        "coverage.solution": "share", "access.support_mass": "share", "access.top1": "share",
        "access.entropy": "nats", "access.gini": "index", "cohort.coverage.family": "share",
        "sampling.truncation_rate": "share",
    }  # fmt: skip
    level = rng.uniform(0.1, 0.6, (count, len(units)))

    def metric(name: str, value: float, owner: str) -> Metric:
        n = 40 if name.startswith("cohort.") else PROBLEMS
        return Metric(
            name, value, value - 0.041, value + 0.0387, units[name], n, owner, "sign flips" * (" - " in owner)
        )

    parts = [
        CheckpointDiagnosis.of_metrics(
            names[arm], [metric(*pair, names[arm]) for pair in zip(units, level[arm], strict=True)], PROBLEMS, 64
        )
        for arm in range(count)
    ]
    differences = [
        metric(name, level[first, place] - level[second, place], f"{names[first]} - {names[second]}")
        for place, name in enumerate(units)
        for first in range(count)
        for second in range(first)
    ]
    notes = ("2 of 100 problems have no solution.",)
    return Diagnosis("Coverage along the ladder", "countdown", tuple(parts), tuple(differences), SETTINGS, notes)


def measured(title: str, name: str, problems: int, numbers: dict[str, tuple[float, float, float]]) -> Diagnosis:
    """One checkpoint of which only these numbers are known."""
    rows = [
        Metric(metric, *ends, "nats" if metric.startswith(("shift", "kl")) else "share", problems, name)
        for metric, ends in numbers.items()
    ]
    return Diagnosis(title, "countdown", (CheckpointDiagnosis.of_metrics(name, rows, problems, 64),))


def forced() -> Diagnosis:
    numbers = {
        "force.solve_rate": (0.3, 0.26, 0.34), "force.free": (0.11, 0.09, 0.13), "force.execution": (0.41, 0.36, 0.46),
        "force.execution_value": (0.52, 0.47, 0.57), "force.infeasible": (0.01, 0.002, 0.02),
        "force.low_access.free": (0.02, 0.01, 0.03), "force.low_access.forced": (0.33, 0.28, 0.39),
        "force.factor.gap": (0.01, -0.01, 0.02),
    }  # fmt: skip
    return measured("What a forced entrance shows", "builtin:sft", 50, numbers)


def shifted() -> Diagnosis:
    numbers = {
        "shift.entrance.abs": (1.55, 1.4, 1.7), "shift.execution.abs": (0.36, 0.3, 0.41),
        "kl.entrance": (0.8, 0.7, 0.9), "kl.execution": (0.1, 0.09, 0.12),
    }  # fmt: skip
    name = "builtin:sft - builtin:sft-early"
    whole = measured("Where training moved the policy", name, 50, numbers)
    (part,) = whole.checkpoints
    ratio = Metric("shift.ratio", 4.3, 3.8, 4.9, "ratio", 50, name)
    return replace(whole, checkpoints=(replace(part, metrics=(*part.metrics, ratio)),))
