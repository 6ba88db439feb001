from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from transformers import AutoModelForCausalLM

from entropy_lab.errors import InputError
from entropy_lab.scoring import teacher_forced
from entropy_lab.scoring.teacher_forced import TokenScores, score
from entropy_lab.scoring.teacher_forced_pair import PairScores, score_pair

if TYPE_CHECKING:
    from entropy_lab.checkpoints import Checkpoint

Ids = NDArray[np.int64]
MIXED = [(6, 9), (6, 17), (6, 1), (6, 4), (11, 8), (11, 0), (3, 12), (1, 5), (6, 30)]


@pytest.fixture(scope="module")
def other(tiny_checkpoint: "Checkpoint") -> "Checkpoint":
    return redrawn(tiny_checkpoint, "other")


def redrawn(checkpoint: "Checkpoint", name: str, **changes: Any) -> "Checkpoint":
    """The same tokenizer on other random weights, of another width if asked."""
    config = type(checkpoint.model.config)(**checkpoint.model.config.to_dict() | changes)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        return replace(checkpoint, name=name, model=AutoModelForCausalLM.from_config(config).eval())


def texts(lengths: Sequence[tuple[int, int]] = MIXED) -> tuple[list[str], list[Ids], list[Ids]]:
    """Trajectories of (prompt length, completion length); neighbours of one prompt length share their prompt."""
    random = np.random.default_rng(0)
    prompts = [random.integers(3, 80, prompt) for prompt, _ in lengths]
    for index in range(1, len(prompts)):
        if len(prompts[index]) == len(prompts[index - 1]):
            prompts[index] = prompts[index - 1]
    return (
        [f"problem-{index}" for index in range(len(lengths))],
        prompts,
        [random.integers(3, 80, completion) for _, completion in lengths],
    )


def same(ours: TokenScores, theirs: TokenScores) -> None:
    for name in ("logprob", "entropy", "varentropy", "unused_mass"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


@pytest.mark.parametrize("budget", [1, 64, 16_384])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_each_side_is_a_pass_of_its_own_to_the_last_bit(
    tiny_checkpoint: "Checkpoint", other: "Checkpoint", budget: int, temperature: float
) -> None:
    arguments = texts()
    pairs = score_pair(tiny_checkpoint, other, *arguments, token_budget=budget, temperature=temperature)
    for checkpoint, side in ((tiny_checkpoint, "first"), (other, "second")):
        alone = score(checkpoint, *arguments, token_budget=budget, temperature=temperature)
        for pair, scores in zip(pairs, alone, strict=True):
            same(getattr(pair, side), scores)


def expected_kl(
    first: "Checkpoint", second: "Checkpoint", prompt: Ids, completion: Ids, ids: int | None = None
) -> NDArray[np.float64]:
    """Σ p (log p − log q) of two plain forward passes, in float64."""
    whole = torch.from_numpy(np.concatenate([prompt, completion])).unsqueeze(0)
    with torch.inference_mode():
        logits = [one.model(whole).logits[0, len(prompt) - 1 : -1, :ids].double() for one in (first, second)]
    log_p, log_q = (each.log_softmax(-1) for each in logits)
    return (log_p.exp() * (log_p - log_q)).sum(-1).numpy()


@pytest.mark.parametrize("width", [64, 32])
def test_kl_is_that_of_two_plain_passes_in_any_batch(tiny_checkpoint: "Checkpoint", width: int) -> None:
    """A model of another width has distributions over the same ids, and batching changes rounding only."""
    second = redrawn(tiny_checkpoint, "second", hidden_size=width)
    problems, prompts, completions = texts()
    found = score_pair(tiny_checkpoint, second, problems, prompts, completions)
    split = score_pair(tiny_checkpoint, second, problems, prompts, completions, token_budget=20)
    order = [4, 8, 0, 2]
    moved = score_pair(
        tiny_checkpoint, second, *([column[i] for i in order] for column in (problems, prompts, completions))
    )
    for pair, apart, prompt, completion in zip(found, split, prompts, completions, strict=True):
        assert pair.kl.dtype == np.float32
        assert (pair.kl >= 0).all()
        if len(completion):
            expected = expected_kl(tiny_checkpoint, second, prompt, completion)
            np.testing.assert_allclose(pair.kl, expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(apart.kl, pair.kl, rtol=1e-5, atol=1e-5)
    for index, pair in zip(order, moved, strict=True):
        np.testing.assert_allclose(pair.kl, found[index].kl, rtol=1e-5, atol=1e-5)


def test_a_checkpoint_has_no_shift_from_itself(tiny_checkpoint: "Checkpoint") -> None:
    for pair in score_pair(tiny_checkpoint, tiny_checkpoint, *texts(), token_budget=64):
        same(pair.first, pair.second)
        assert not pair.kl.any()


def test_each_prompt_is_computed_once_a_side(
    tiny_checkpoint: "Checkpoint", other: "Checkpoint", monkeypatch: pytest.MonkeyPatch
) -> None:
    fed: list[tuple[int, ...]] = []
    original = teacher_forced.hidden_states

    def spy(model: Any, ids: torch.Tensor, cache: Any) -> Any:
        fed.append(tuple(ids.shape))
        return original(model, ids, cache)

    monkeypatch.setattr(teacher_forced, "hidden_states", spy)
    score_pair(tiny_checkpoint, other, ["a"] * 6, [np.arange(3, 23)] * 6, [np.arange(3, 9)] * 6, token_budget=80)
    assert sum(length == 20 for _, length in fed) == 2


def test_padded_heads_are_compared_where_the_tokenizer_reaches(tiny_checkpoint: "Checkpoint") -> None:
    """Heads padded to different sizes hold the same ids; masked, both sides are normalised without the padding."""
    size = tiny_checkpoint.tokenizer_size
    padded, wider = (redrawn(tiny_checkpoint, f"rows-{rows}", vocab_size=rows) for rows in (112, 128))
    problems, prompts, completions = texts([(5, 6)])
    with pytest.raises(InputError, match=r"heads of 112 and 128 rows; use --mask-unused"):
        score_pair(padded, wider, problems, prompts, completions)
    (pair,) = score_pair(padded, wider, problems, prompts, completions, mask_unused=True)
    expected = expected_kl(padded, wider, prompts[0], completions[0], size)
    np.testing.assert_allclose(pair.kl, expected, rtol=1e-4, atol=1e-5)


def with_bias(checkpoint: "Checkpoint", masked: int) -> "Checkpoint":
    """A head whose bias makes one id impossible."""
    copy = redrawn(checkpoint, "masking")
    copy.model.lm_head.bias = torch.nn.Parameter(torch.zeros(copy.vocabulary_size))
    with torch.no_grad():
        copy.model.lm_head.bias[masked] = -torch.inf
    return copy


def test_an_infinite_shift_names_checkpoint_problem_and_position(tiny_checkpoint: "Checkpoint") -> None:
    problems, prompts, completions = texts([(4, 8), (4, 6), (4, 5)])
    for ids in completions:
        ids[ids == 81] = 5
    masking = with_bias(tiny_checkpoint, 81)
    with pytest.raises(InputError, match=r"Checkpoint masking, problem problem-0, completion position 0: .*infinite"):
        score_pair(tiny_checkpoint, masking, problems, prompts, completions)
    backwards = score_pair(masking, tiny_checkpoint, problems, prompts, completions)
    assert all(np.isfinite(pair.kl).all() for pair in backwards)
    completions[1][3] = 81
    with pytest.raises(InputError, match=r"Checkpoint masking, problem problem-1, completion position 3: the id 81"):
        score_pair(masking, tiny_checkpoint, problems, prompts, completions)
    (first, *_) = score_pair(masking, masking, problems[:1], prompts[:1], completions[:1])
    assert isinstance(first, PairScores)
    assert not first.kl.any()


def test_nothing_to_score(tiny_checkpoint: "Checkpoint", other: "Checkpoint") -> None:
    assert score_pair(tiny_checkpoint, other, [], [], []) == []
    (empty,) = score_pair(tiny_checkpoint, other, ["a"], [[5, 6]], [[]])
    assert empty.kl.shape == (0,)
    with pytest.raises(InputError, match="problem a: the prompt is empty"):
        score_pair(tiny_checkpoint, other, ["a"], [[]], [[5]])
