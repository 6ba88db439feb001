"""Log-probs of the same tokens by one model in several number formats, flat over all trajectories.

Shape letters: N completion tokens, one trajectory after another; V vocabulary.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.checkpoints.head import Head
from entropy_lab.diagnostics.ratio_bias import FORMATS, round_logits
from entropy_lab.progress import Progress
from entropy_lab.scoring.batches import plan
from entropy_lab.scoring.kernel import token_statistics
from entropy_lab.scoring.teacher_forced import completion_states, prepare, score

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Floats = NDArray[np.float64]

LOG_RATIO = 0.1
"""Root mean square (nats, ours) of the log-ratios between a checkpoint and its perturbed copy."""
_FIRST_NOISE = 0.01
_TOKEN_BUDGET = 16_384
_CELLS = 1 << 22  # logits held at a time


@dataclass(frozen=True)
class Texts:
    """Trajectories to score: problem, prompt and completion ids of each."""

    problem_ids: Sequence[str]
    prompts: Sequence[Sequence[int]]
    completions: Sequence[Sequence[int]]


@dataclass(frozen=True)
class Passes:
    """Log-probs (N,) in nats of one policy.

    `exact_N` is float64 from the float32 pass's hidden states on; `single_N` float32 throughout. `logits` maps a
    format to log-probs of finished logits cast to it, `logit_bias` to the bias of r that theory expects there; `passes`
    to log-probs of a pass under autocast, head and softmax in float32, as in training.
    """

    exact_N: Floats
    single_N: Floats
    logits: Mapping[str, Floats]
    logit_bias: Mapping[str, Floats]
    passes: Mapping[str, Floats]


def passes_of(checkpoint: Checkpoint, head: Head, texts: Texts, progress: Progress) -> Passes:
    """Run the checkpoint, held in float32, over `texts` in every format; `head` is its checked head."""
    exact_N, logits, logit_bias = _from_states(checkpoint, head, texts)
    passes = {}
    for form in FORMATS:
        with torch.autocast(checkpoint.device.type, getattr(torch, form)):
            passes[form] = _scored(checkpoint, head, texts, progress)
    return Passes(exact_N, _scored(checkpoint, head, texts, progress), logits, logit_bias, passes)


def perturb(checkpoint: Checkpoint, head: Head, texts: Texts, single_N: Floats, seed: int, progress: Progress) -> None:
    """Make the model, in place, a second policy, as some updates might leave it: every weight times 1 + σ·N(0, 1).

    σ is such that log-ratios over `texts` have a root mean square near `LOG_RATIO`, found from one pass with σ = .01;
    `single_N` are the log-probs before. A model that is certain of every token keeps that σ.
    """
    _add_noise(checkpoint.model, seed, _FIRST_NOISE)
    moved = float(np.sqrt(np.mean((_scored(checkpoint, head, texts, progress) - single_N) ** 2)))
    if moved > 0:
        _add_noise(checkpoint.model, seed, min(_FIRST_NOISE * LOG_RATIO / moved, 1.0), _FIRST_NOISE)


@torch.no_grad()
def _add_noise(model: "PreTrainedModel", seed: int, size: float, present: float = 0.0) -> None:
    """Bring relative noise of `seed` from size `present` to `size`."""
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        noise = torch.randn(weight.shape, generator=generator).to(weight.device)
        weight.mul_((1 + size * noise) / (1 + present * noise))


def _scored(checkpoint: Checkpoint, head: Head, texts: Texts, progress: Progress) -> Floats:
    found = score(
        checkpoint,
        texts.problem_ids,
        texts.prompts,
        texts.completions,
        token_budget=_TOKEN_BUDGET,
        head=head,
        progress=progress,
    )
    return np.concatenate([one.logprob for one in found]).astype(np.float64)


@torch.inference_mode()
def _from_states(
    checkpoint: Checkpoint, head: Head, texts: Texts
) -> tuple[Floats, Mapping[str, Floats], Mapping[str, Floats]]:
    """What one float32 pass's hidden states give: exact log-probs, and those of logits cast to each format."""
    work = prepare(checkpoint, texts.problem_ids, texts.prompts, texts.completions, head=head)
    lengths = [len(ids) for ids in work.completions]
    starts = np.concatenate(([0], np.cumsum(lengths)))
    exact_N = np.empty(starts[-1])
    logprobs = {form: np.empty(starts[-1]) for form in FORMATS}
    biases = {form: np.empty(starts[-1]) for form in FORMATS}
    for shared, batches in plan(work.prompts, lengths, _TOKEN_BUDGET):
        for rows, hidden_NH in completion_states(work, shared, batches):
            place_N = np.concatenate([np.arange(starts[row], starts[row] + lengths[row]) for row in rows])
            targets_N = np.concatenate([work.completions[row] for row in rows])
            exact_N[place_N] = _exact(head, hidden_NH, targets_N)
            step = max(1, _CELLS // head.vocabulary_size)
            for start in range(0, len(place_N), step):
                part = slice(start, start + step)
                logits_NV = head.logits(hidden_NH[part]).cpu().numpy()
                for form in FORMATS:
                    found = round_logits(logits_NV, targets_N[part], form)
                    logprobs[form][place_N[part]] = found.logprob_N
                    biases[form][place_N[part]] = found.expected_bias_N
    return exact_N, logprobs, biases


def _exact(head: Head, hidden_NH: torch.Tensor, targets_N: NDArray[np.int64]) -> Floats:
    found = token_statistics(
        hidden_NH.double(),
        head.weight_VH,
        torch.from_numpy(targets_N).to(hidden_NH.device),
        bias=head.bias,
        soft_cap=head.soft_cap,
        scale=head.scale,
    )
    return np.asarray(found.logprob_N.cpu().numpy(), np.float64)
