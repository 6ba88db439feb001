"""Useful tokens a second: the transformers engine against `model.generate` on the same requests, float32, T = 1.

    python benchmarks/sampling.py SmolLM2-135M-Instruct.Q4_1.gguf

Useful tokens end with a completion's end token. The peer gets all prompts in one left-padded batch, repeated for
their samples, no truncation of the distribution and the same end tokens. Whether both draw from one distribution is
shown below the speed: quantities that a trajectory has, compared within problems (95 % intervals of the
difference), with log-probs from the teacher-forced pass. Run with nothing else on the machine.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.engines.protocol import Request, Sampling
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.prompts import encode_prompt
from entropy_lab.scoring.teacher_forced import score

PROBLEMS = Path(__file__).resolve().parents[1] / "tests" / "data" / "math" / "gsm8k.jsonl"
SCORED = 32  # first tokens of each completion whose log-probs are compared


class Sampled(NamedTuple):
    """Completions by problem, their useful tokens and the seconds they took."""

    completions: list[list[NDArray[np.integer]]]
    seconds: float

    @property
    def tokens(self) -> int:
        return sum(len(completion) for completions in self.completions for completion in completions)


def requests_of(checkpoint: Checkpoint, file: Path, problems: int, samples: int) -> list[Request]:
    questions = [json.loads(line)["question"] for line in file.read_text().splitlines()[:problems]]
    prompts = [encode_prompt(checkpoint, [{"role": "user", "content": question}]) for question in questions]
    return [Request(str(index), prompt, samples) for index, prompt in enumerate(prompts)]


def engine_samples(checkpoint: Checkpoint, requests: list[Request], length: int) -> Sampled:
    engine = TransformersEngine(checkpoint, rows=sum(request.count for request in requests))
    began = time.perf_counter()
    found = list(engine.sample(requests, Sampling(max_new_tokens=length)))
    seconds = time.perf_counter() - began
    return Sampled([[t.token_ids for t in found if t.problem_id == r.problem_id] for r in requests], seconds)


def generate_samples(checkpoint: Checkpoint, requests: list[Request], length: int) -> Sampled:
    width = max(len(request.prompt_ids) for request in requests)
    ids = torch.full((len(requests), width), checkpoint.end_ids[0])
    mask = torch.zeros_like(ids)
    for row, request in enumerate(requests):
        ids[row, width - len(request.prompt_ids) :] = torch.tensor(request.prompt_ids)
        mask[row, width - len(request.prompt_ids) :] = 1
    neutral = GenerationConfig(
        do_sample=True,
        top_k=0,
        top_p=1.0,
        temperature=1.0,
        num_return_sequences=requests[0].count,
        max_new_tokens=length,
        eos_token_id=list(checkpoint.end_ids),
        pad_token_id=checkpoint.end_ids[0],
    )
    generate: Any = checkpoint.model.generate
    torch.manual_seed(0)
    began = time.perf_counter()
    with torch.inference_mode():
        output = generate(input_ids=ids, attention_mask=mask, generation_config=neutral)
    seconds = time.perf_counter() - began
    rows = [useful(row, checkpoint.end_ids) for row in output[:, width:].numpy()]
    count = requests[0].count
    return Sampled([rows[first : first + count] for first in range(0, len(rows), count)], seconds)


def useful(completion: NDArray[np.integer], end_ids: tuple[int, ...]) -> NDArray[np.integer]:
    """Up to and including the first end token."""
    ends = np.flatnonzero(np.isin(completion, end_ids))
    return completion[: ends[0] + 1] if len(ends) else completion


def scored(checkpoint: Checkpoint, requests: list[Request], sampled: Sampled) -> list[NDArray[np.float64]]:
    """Mean log-prob, entropy and their sum over each completion's first tokens, by problem, each shape (samples, 3).

    The sum is 0 on average whatever the completions, if their tokens were drawn from the distributions scored.
    """
    flat = [
        (request, ids[:SCORED]) for request, rows in zip(requests, sampled.completions, strict=True) for ids in rows
    ]
    scores = score(
        checkpoint,
        [request.problem_id for request, _ in flat],
        [request.prompt_ids for request, _ in flat],
        [ids for _, ids in flat],
    )
    means = np.array([[s.logprob.mean(), s.entropy.mean(), (s.logprob + s.entropy).mean()] for s in scores])
    return np.split(means, np.cumsum([len(rows) for rows in sampled.completions])[:-1])


def difference(ours: list[NDArray[np.float64]], peer: list[NDArray[np.float64]]) -> tuple[float, float, float, float]:
    """Both means over problems, their difference and the half width of its 95 % interval."""
    means = [np.mean([np.mean(rows) for rows in side]) for side in (ours, peer)]
    variance = sum(np.var(rows, ddof=1) / len(rows) for side in (ours, peer) for rows in side) / len(ours) ** 2
    return float(means[0]), float(means[1]), float(means[0] - means[1]), 1.96 * float(np.sqrt(variance))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--file", type=Path, default=PROBLEMS, help="JSONL with a `question` a line")
    parser.add_argument("--problems", type=int, default=8)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--max-new-tokens", type=int, default=256)
    arguments = parser.parse_args()

    checkpoint = load_checkpoint(arguments.checkpoint, device="cpu", dtype="float32")
    requests = requests_of(checkpoint, arguments.file, arguments.problems, arguments.samples)
    for warm_up in (engine_samples, generate_samples):
        warm_up(checkpoint, [replace(requests[0], count=2)], 2)
    ours = engine_samples(checkpoint, requests, arguments.max_new_tokens)
    peer = generate_samples(checkpoint, requests, arguments.max_new_tokens)

    print(f"{len(requests)} problems x {arguments.samples} samples, at most {arguments.max_new_tokens} new tokens,")
    print(f"{checkpoint.describe()}, {torch.get_num_threads()} threads\n")
    print(f"{'':28}{'seconds':>10}{'useful tokens':>15}{'tokens/s':>10}{'ratio':>8}")
    for name, side in (("entropy_lab", ours), ("model.generate", peer)):
        speed = side.tokens / side.seconds
        ratio = speed / (peer.tokens / peer.seconds)
        print(f"{name:28}{side.seconds:>10.1f}{side.tokens:>15}{speed:>10.1f}{ratio:>8.2f}")

    first = [np.bincount([ids[0] for ids in rows]).argmax() for rows in peer.completions]
    limit, end_ids = arguments.max_new_tokens, checkpoint.end_ids
    statistics = {id(side): scored(checkpoint, requests, side) for side in (ours, peer)}
    measures: dict[str, Callable[[Sampled], list[NDArray[np.float64]]]] = {
        "mean log-prob": lambda side: [rows[:, 0] for rows in statistics[id(side)]],
        "mean entropy": lambda side: [rows[:, 1] for rows in statistics[id(side)]],
        "log-prob + entropy, 0 if fair": lambda side: [rows[:, 2] for rows in statistics[id(side)]],
        "likeliest first token": lambda side: [
            np.array([float(ids[0] == token) for ids in rows])
            for token, rows in zip(first, side.completions, strict=True)
        ],
        "tokens": lambda side: [np.array([float(len(ids)) for ids in rows]) for rows in side.completions],
        "cut at the limit": lambda side: [
            np.array([float(len(ids) == limit and ids[-1] not in end_ids) for ids in rows]) for rows in side.completions
        ],
    }
    print(f"\nlog-probs and entropies over the first {SCORED} tokens")
    print(f"{'':30}{'entropy_lab':>13}{'generate':>11}{'difference':>12}{'95 %':>11}")
    for name, measure in measures.items():
        left, right, gap, width = difference(measure(ours), measure(peer))
        print(f"{name:30}{left:>13.4f}{right:>11.4f}{gap:>12.4f}   ±{width:>8.4f}")


if __name__ == "__main__":
    main()
