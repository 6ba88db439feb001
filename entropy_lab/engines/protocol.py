"""What an engine is asked and what it gives back. Token ids only: no text is ever re-tokenised.

Randomness belongs to the trajectory. The draw at position t of a trajectory is the t-th number of a stream keyed
by (run seed, problem, stream, sample index), so batch size, order and number of workers change nothing but rounding.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from entropy_lab.errors import InputError

FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True)
class Sampling:
    """How tokens are drawn. The defaults are neutral: the policy's own distribution, nothing cut off.

    `mask_unused` drops head rows that the tokenizer does not have from the distribution, drawing and statistics alike.
    `certainty` and `twins` ask for the trajectory columns `certainty` and `twin_ids`; neither changes what is drawn.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 512
    seed: int = 0
    mask_unused: bool = False
    certainty: bool = False
    twins: bool = False

    def __post_init__(self) -> None:
        """Raise InputError for a setting that cannot be sampled with."""
        if self.temperature != 0 and not 1e-3 <= self.temperature <= 1e3:  # beyond, float32 logits over- or underflow
            raise InputError(f"temperature = {self.temperature} must be 0 (greedy) or lie between 0.001 and 1000.")
        if not 0 < self.top_p <= 1:
            raise InputError(f"top_p = {self.top_p} must lie in (0, 1]; 1 keeps every token.")
        if self.top_k < 0:
            raise InputError(f"top_k = {self.top_k} must be 0 or more; 0 keeps every token.")
        if self.max_new_tokens < 1:
            raise InputError(f"max_new_tokens = {self.max_new_tokens} must be 1 or more.")


@dataclass(frozen=True)
class Request:
    """`count` trajectories of one problem, sample indices `first_sample` onwards.

    `prefix_ids` are completion tokens already written, which every trajectory continues (branches, forced
    entrances); `stream` names the seed stream, so that branches of one problem never share draws.
    """

    problem_id: str
    prompt_ids: tuple[int, ...]
    count: int
    first_sample: int = 0
    prefix_ids: tuple[int, ...] = ()
    stream: str = ""


@dataclass(frozen=True)
class Trajectory:
    """One sampled completion; arrays align with `token_ids` (the sampled end token is its last element).

    `logprobs` are the sampler's, of the distribution the token was drawn from. `logprob`, `entropy` and
    `varentropy` (nats) are exact over the full vocabulary at `temperature`, float32, and None where the engine
    cannot give them; a teacher-forced pass then fills them in. `certainty` is KL(U‖p) in nats, U uniform over the
    vocabulary; `twin_ids` holds a second token drawn at each position, from the same distribution and independently,
    which nothing continues. Both only where they were asked for.
    """

    problem_id: str
    sample_index: int
    stream: str
    seed: int
    prompt_ids: tuple[int, ...]
    token_ids: NDArray[np.int32]
    finish_reason: FinishReason
    temperature: float
    logprobs: NDArray[np.float32] | None = None
    logprob: NDArray[np.float32] | None = field(default=None, repr=False)
    entropy: NDArray[np.float32] | None = field(default=None, repr=False)
    varentropy: NDArray[np.float32] | None = field(default=None, repr=False)
    certainty: NDArray[np.float32] | None = field(default=None, repr=False)
    twin_ids: NDArray[np.int32] | None = field(default=None, repr=False)


class Engine(Protocol):
    """Something that samples."""

    def rows(self, requests: Sequence[Request], sampling: Sampling) -> int:
        """How many trajectories run together; given back to a new engine, it makes the same batches."""

    def partition(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Request]]:
        """Split `requests` into batches that run together; the same call always gives the same batches."""

    def sample(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Trajectory]:
        """Sample one batch, yielding trajectories in order of completion."""

    def close(self) -> None:
        """Give back memory and processes."""


def trajectory_seed(run_seed: int, problem_id: str, stream: str, sample_index: int) -> int:
    """The 63-bit seed of one trajectory: a hash, so that no two (run, problem, stream, sample) share a stream.

    Counting up from a base seed would make sample 1 of run 7 equal sample 0 of run 8.
    """
    key = "\x1f".join((str(run_seed), problem_id, stream, str(sample_index))).encode()
    return int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") >> 1


def uniforms(seed: int, start: int, count: int) -> NDArray[np.float64]:
    """Numbers `start` … `start + count` of the stream `seed`, uniform on [0, 1), shape (count,)."""
    generator = np.random.Philox(key=seed)
    generator.advance(start // 4)  # one Philox counter step yields four 64-bit words, one word a double
    return np.random.Generator(generator).random(start % 4 + count)[start % 4 :]
