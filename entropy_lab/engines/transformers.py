"""The engine for any Hugging Face causal LM, on CPU and CUDA: our own decode loop over transformers' modules.

Prompts are computed once and shared by their samples where the model's attention is plain; other architectures run
one request at a time through transformers' own cache. Which of the two holds is checked against a plain forward pass
when the engine starts.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise

from transformers import PreTrainedModel

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.engines.capacity import free_bytes, is_out_of_memory, release, rows_that_fit
from entropy_lab.engines.decoding import DecodeCache, Decoding, contexts_of
from entropy_lab.engines.policy import Policy
from entropy_lab.engines.protocol import Request, Sampling, Trajectory
from entropy_lab.engines.self_check import deviation
from entropy_lab.engines.shared_prompt_cache import ATTENTION, GROWTH, NotPlainAttention, SharedPromptCache
from entropy_lab.engines.whole_cache import WholeCache
from entropy_lab.errors import InputError
from entropy_lab.progress import Progress, Silent


class TransformersEngine:
    """Samples from `checkpoint` with `rows` trajectories at a time, or as many as memory holds.

    `token_ids` of a trajectory are the tokens sampled here, without the request's `prefix_ids`; `max_new_tokens`
    counts them, and the model's context length cuts them. Temperature 0 takes the likeliest token: log-probs under
    the sampler are then 0, and the statistics (and the trajectory's `temperature`) those of temperature 1.

    Raises:
        InputError: the model cannot be decoded step by step with the logits of its plain forward pass.
    """

    def __init__(self, checkpoint: Checkpoint, rows: int | None = None, progress: Progress | None = None) -> None:
        if rows is not None and rows < 1:
            raise InputError(f"An engine runs at least one row at a time, not rows = {rows}.")
        self._name = checkpoint.name
        self._end_ids = checkpoint.end_ids
        self._checkpoint = checkpoint
        self._rows = rows
        self._progress = progress or Silent()
        self._survivable: int | None = None  # rows with which memory did not run out, once it has
        self._policy, self._shares_prompts = self._policy_of(checkpoint.model)
        self._memory = free_bytes(self._policy.device)
        self._forward_tokens = 0

    @property
    def forward_tokens(self) -> int:
        """Tokens sent through the model so far, padding included, by batches that have ended and share prompts."""
        return self._forward_tokens

    def rows(self, requests: Sequence[Request], sampling: Sampling) -> int:
        """How many rows run together for such requests; the same throughout the engine's life."""
        if self._rows is not None:
            return self._rows
        longest = max((len(request.prompt_ids) + len(request.prefix_ids) for request in requests), default=0)
        return rows_that_fit(self._policy, self._memory, longest + sampling.max_new_tokens + GROWTH)

    def partition(self, requests: Sequence[Request], sampling: Sampling) -> list[list[Request]]:
        """Cut `requests`, in order, into batches of at most `rows` trajectories.

        A request of more samples is cut into ranges of samples of nearly equal size.
        """
        return self._cut(requests, self.rows(requests, sampling))

    def sample(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Trajectory]:
        """Sample `requests` as one batch (several if they exceed `rows`), yielding trajectories as they end.

        When memory runs out the trajectories still open are sampled again in halves, with the same draws.

        Raises:
            InputError: a prompt that cannot be sampled, NaN or infinite logits, or a single trajectory
                that does not fit into memory.
        """
        policy = self._policy
        limit = getattr(policy.config, "max_position_embeddings", None)
        contexts_of(requests, sampling, limit)  # a prompt that is too long is said before any work
        rows = self.rows(requests, sampling)
        waiting = deque(self._cut(requests, rows))
        while waiting:
            batch, *others = self._cut(waiting.popleft(), min(rows, self._survivable or rows))
            waiting.extendleft(reversed(others))
            contexts = contexts_of(batch, sampling, limit)
            vocabulary = self._checkpoint.tokenizer_size if sampling.mask_unused else None
            cache = self._new_cache(policy)
            decoding = Decoding(policy, cache, contexts, sampling, self._end_ids, self._name, vocabulary)
            rest: list[Request] = []
            try:
                for trajectory in decoding.trajectories():
                    yield trajectory
                    if self._policy is not policy:
                        raise RuntimeError("The weights were updated while a batch was being sampled.")
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                rest = decoding.unfinished()
                open_rows = sum(request.count for request in rest)
                if open_rows == 1:
                    raise InputError(
                        f"{self._name} has not enough memory for one trajectory of problem {rest[0].problem_id!r} with "
                        f"{sampling.max_new_tokens} new tokens; lower max_new_tokens or use a smaller model or dtype."
                    ) from error
                self._survivable = -(-open_rows // 2)
                self._progress.note(
                    f"Out of memory with {open_rows} trajectories at once: going on with {self._survivable}."
                )
            finally:
                if isinstance(cache, SharedPromptCache):
                    self._forward_tokens += cache.forward_tokens
            del decoding, cache
            if rest:
                release()
                waiting.appendleft(rest)

    def update_weights(self, model: PreTrainedModel) -> None:
        """Sample from `model` from now on; nothing computed with earlier weights is used again."""
        if type(model) is type(self._policy.twin):
            self._policy = Policy(model, ATTENTION if self._shares_prompts else None)
        else:
            self._policy, self._shares_prompts = self._policy_of(model)

    def close(self) -> None:
        """Give back the workspace; the checkpoint's model stays with its owner."""
        del self._policy
        release()

    def _policy_of(self, model: PreTrainedModel) -> tuple[Policy, bool]:
        """The policy to decode with, and whether its prompts can be shared."""
        plain = Policy(model)
        try:
            sharing = Policy(model, ATTENTION)
            if deviation(sharing, plain, partial(SharedPromptCache, sharing), together=True) <= 1:
                return sharing, True
            reason = "its logits differ from those of a plain forward pass"
        except NotPlainAttention as error:
            reason = str(error)
        self._progress.note(f"{self._name} runs one request at a time, prompts are not shared: {reason}.")
        difference = deviation(plain, plain, partial(WholeCache, plain), together=False)
        if not difference <= 1:
            raise InputError(
                f"{self._name}: decoding step by step gives other logits than a plain forward pass ({difference:.1f} "
                "times the tolerance); sample it with another engine and read the rollouts."
            )
        return plain, False

    def _new_cache(self, policy: Policy) -> DecodeCache:
        return SharedPromptCache(policy) if self._shares_prompts else WholeCache(policy)

    def _cut(self, requests: Sequence[Request], rows: int) -> list[list[Request]]:
        """Batches of at most `rows` trajectories; without shared prompts a batch is one request."""
        batches: list[list[Request]] = []
        room = 0
        for request in requests:
            for part in _ranges(request, rows):
                if part.count > room or not self._shares_prompts:
                    batches.append([])
                    room = rows
                batches[-1].append(part)
                room -= part.count
        return batches


def _ranges(request: Request, rows: int) -> list[Request]:
    """Cut one request into ranges of at most `rows` samples, of nearly equal size."""
    parts = -(-request.count // rows)
    edges = [request.first_sample + request.count * part // parts for part in range(parts + 1)] if parts else []
    return [replace(request, first_sample=first, count=last - first) for first, last in pairwise(edges)]
