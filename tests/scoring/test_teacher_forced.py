from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from oracles.token_statistics import Statistics, statistics_by_definition
from transformers import AutoModelForCausalLM, Gemma2Config, MistralConfig, PreTrainedConfig

from entropy_lab.errors import InputError
from entropy_lab.progress import Silent, SilentStage
from entropy_lab.scoring import teacher_forced
from entropy_lab.scoring.teacher_forced import TokenScores, score

if TYPE_CHECKING:
    from entropy_lab.checkpoints import Checkpoint

Ids = NDArray[np.int64]


def texts(lengths: Sequence[tuple[int, int]], seed: int = 0) -> tuple[list[str], list[Ids], list[Ids]]:
    """Trajectories of (prompt length, completion length); equal prompt lengths are equal prompts in pairs."""
    random = np.random.default_rng(seed)
    prompts = [random.integers(3, 80, prompt) for prompt, _ in lengths]
    for index in range(1, len(prompts), 2):
        if len(prompts[index]) == len(prompts[index - 1]):
            prompts[index] = prompts[index - 1]
    return (
        [f"problem-{index}" for index in range(len(lengths))],
        prompts,
        [random.integers(3, 80, completion) for _, completion in lengths],
    )


MIXED = [(6, 9), (6, 17), (6, 1), (6, 4), (11, 8), (11, 0), (3, 12), (1, 5), (6, 30)]


def one_by_one(checkpoint: "Checkpoint", prompt: Ids, completion: Ids, temperature: float = 1.0) -> Statistics:
    """The completion's statistics from one plain forward pass of the whole trajectory."""
    ids = torch.from_numpy(np.concatenate([prompt, completion])).unsqueeze(0)
    with torch.inference_mode():
        logits = checkpoint.model(ids).logits[0, len(prompt) - 1 : len(ids[0]) - 1].double()
    return statistics_by_definition(logits / temperature, torch.from_numpy(completion))


def assert_scores(found: TokenScores, expected: Statistics) -> None:
    for ours, theirs in zip((found.logprob, found.entropy, found.varentropy), expected, strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs.numpy(), rtol=1e-4, atol=1e-4)


def with_model(checkpoint: "Checkpoint", config: PreTrainedConfig) -> "Checkpoint":
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return replace(checkpoint, model=AutoModelForCausalLM.from_config(config).eval())


@pytest.mark.parametrize("temperature", [1.0, 0.6])
@pytest.mark.parametrize("budget", [1, 64, 16_384])
def test_batched_equals_single(tiny_checkpoint: "Checkpoint", temperature: float, budget: int) -> None:
    """L2, L3, L6, L7: H[t] is of the distribution that produced completion token t, in any batch, at one stated T."""
    problems, prompts, completions = texts(MIXED)
    found = score(
        tiny_checkpoint, problems, prompts, completions, temperature=temperature, token_budget=budget
    )  # fmt: skip
    for scores, prompt, completion in zip(found, prompts, completions, strict=True):
        assert len(scores.entropy) == len(completion)
        assert_scores(scores, one_by_one(tiny_checkpoint, prompt, completion, temperature))


def test_order_and_split_change_rounding_only(tiny_checkpoint: "Checkpoint") -> None:
    """L6: the same trajectory has the same numbers wherever it stands and whatever stands beside it."""
    problems, prompts, completions = texts(MIXED)
    together = score(tiny_checkpoint, problems, prompts, completions)
    order = [4, 8, 0, 2]
    apart = score(
        tiny_checkpoint,
        [problems[i] for i in order],
        [prompts[i] for i in order],
        [completions[i] for i in order],
        token_budget=20,
    )
    for index, scores in zip(order, apart, strict=True):
        np.testing.assert_allclose(scores.entropy, together[index].entropy, atol=1e-5)
        np.testing.assert_allclose(scores.logprob, together[index].logprob, atol=1e-5)


def test_pad_and_end_tokens_inside_a_completion_count(tiny_checkpoint: "Checkpoint") -> None:
    """S3: what is padding is known from lengths, never from values: ids 0 (pad) and 1 (end) are tokens like any."""
    problems, prompts, completions = texts([(4, 5), (4, 12)])
    completions[0][-2:] = [0, 1]
    completions[1][:] = 0
    found = score(tiny_checkpoint, problems, prompts, completions)
    for scores, prompt, completion in zip(found, prompts, completions, strict=True):
        assert_scores(scores, one_by_one(tiny_checkpoint, prompt, completion))


@pytest.mark.parametrize("budget", [30, 16_384])
def test_windows_and_soft_caps_are_the_models_own(tiny_checkpoint: "Checkpoint", budget: int) -> None:
    """L7, L10: a sliding window shorter than the prompt still sees the right tokens when the prompt is shared."""
    small = {
        "vocab_size": 101,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "head_dim": 16,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "initializer_range": 0.3,
        "sliding_window": 4,
    }
    problems, prompts, completions = texts(MIXED)
    for config in (
        MistralConfig(**small),
        Gemma2Config(**small, final_logit_softcapping=3.0, query_pre_attn_scalar=16),
    ):
        checkpoint = with_model(tiny_checkpoint, config)
        found = score(checkpoint, problems, prompts, completions, token_budget=budget)
        for scores, prompt, completion in zip(found, prompts, completions, strict=True):
            assert_scores(scores, one_by_one(checkpoint, prompt, completion))


def test_a_prompt_is_computed_once(tiny_checkpoint: "Checkpoint", monkeypatch: pytest.MonkeyPatch) -> None:
    """Ground rule: n completions of a problem share one run of its prompt, however many batches they need."""
    prompt = np.arange(3, 23)
    completions = [np.arange(3, 3 + length) for length in (6, 7, 8, 9, 5, 4)]
    fed: list[tuple[int, ...]] = []

    def spy(model: Any, ids: torch.Tensor, cache: Any) -> Any:
        fed.append(tuple(ids.shape))
        return original(model, ids, cache)

    original = teacher_forced.hidden_states
    monkeypatch.setattr(teacher_forced, "hidden_states", spy)
    score(tiny_checkpoint, ["a"] * 6, [prompt] * 6, completions, token_budget=80)
    assert fed[0] == (1, 20)
    assert len(fed) == 4
    assert all(length < 20 for _, length in fed[1:])
    # Every batch holds the prompt's copies and the prompt itself within the budget.
    assert all(rows * (20 + length + 1) + 20 <= 80 for rows, length in fed[1:])


def test_unused_mass_and_its_mask(tiny_checkpoint: "Checkpoint") -> None:
    """Definitions §1: padded head rows carry mass that is reported, and can be dropped."""
    config = type(tiny_checkpoint.model.config)(**tiny_checkpoint.model.config.to_dict() | {"vocab_size": 128})
    checkpoint = with_model(tiny_checkpoint, config)
    size = checkpoint.tokenizer_size
    assert size < checkpoint.vocabulary_size == 128
    problems, prompts, completions = texts([(5, 6)])
    ids = torch.from_numpy(np.concatenate([prompts[0], completions[0]])).unsqueeze(0)
    with torch.inference_mode():
        logits = checkpoint.model(ids).logits[0, 4:-1].double()
    (found,) = score(checkpoint, problems, prompts, completions)
    np.testing.assert_allclose(found.unused_mass, logits.softmax(-1)[:, size:].sum(1), atol=1e-6)
    (masked,) = score(checkpoint, problems, prompts, completions, mask_unused=True)
    assert_scores(masked, statistics_by_definition(logits[:, :size], torch.from_numpy(completions[0])))
    assert masked.unused_mass.tolist() == [0] * 6


def test_alternatives_at_chosen_positions(tiny_checkpoint: "Checkpoint") -> None:
    problems, prompts, completions = texts([(5, 6), (5, 9), (5, 3)])
    positions = [np.array([4, 0]), np.array([], np.int64), np.array([2])]
    found = score(tiny_checkpoint, problems, prompts, completions, alternatives=3, positions=positions)
    for scores, prompt, completion, places in zip(found, prompts, completions, positions, strict=True):
        assert scores.alternatives is not None
        ids = torch.from_numpy(np.concatenate([prompt, completion])).unsqueeze(0)
        with torch.inference_mode():
            p = tiny_checkpoint.model(ids).logits[0, len(prompt) - 1 : -1].softmax(-1)
        expected = p[torch.from_numpy(places)].topk(3)
        assert scores.alternatives.positions.tolist() == places.tolist()
        assert scores.alternatives.token_ids.tolist() == expected.indices.tolist()
        np.testing.assert_allclose(scores.alternatives.probabilities, expected.values, atol=1e-5)
    everywhere = score(tiny_checkpoint, problems, prompts, completions, alternatives=2)
    assert [scores.alternatives.token_ids.shape for scores in everywhere if scores.alternatives] == [
        (6, 2),
        (9, 2),
        (3, 2),
    ]


def test_nothing_to_score(tiny_checkpoint: "Checkpoint") -> None:
    assert score(tiny_checkpoint, [], [], []) == []
    (empty,) = score(tiny_checkpoint, ["a"], [[5, 6]], [[]], alternatives=2)
    assert empty.entropy.shape == empty.unused_mass.shape == (0,)


def test_progress_counts_every_token(tiny_checkpoint: "Checkpoint") -> None:
    class Counter(Silent, SilentStage):
        total = seen = 0

        def stage(self, name: str, total: int, unit: str, done: int = 0) -> "Counter":
            self.total = total
            return self

        def advance(self, amount: int = 1) -> None:
            self.seen += amount

    counter = Counter()
    problems, prompts, completions = texts(MIXED)
    score(tiny_checkpoint, problems, prompts, completions, token_budget=50, progress=counter)
    assert counter.seen == counter.total == sum(length for _, length in MIXED)


def test_nan_names_checkpoint_problem_and_position(tiny_checkpoint: "Checkpoint") -> None:
    """L1: a broken activation is an error that says where, not a NaN in a table."""
    checkpoint = with_model(tiny_checkpoint, tiny_checkpoint.model.config)

    def overflow(decoder: Any, args: Any, kwargs: Any, output: Any) -> None:
        output.last_hidden_state[kwargs["input_ids"] == 85] = torch.nan

    checkpoint.model.get_decoder().register_forward_hook(overflow, with_kwargs=True)
    problems, prompts, completions = texts([(4, 8), (4, 6), (4, 5)])
    completions[1][2] = 85
    with pytest.raises(InputError) as caught:
        score(checkpoint, problems, prompts, completions)
    assert f"Checkpoint {checkpoint.name}, problem problem-1, completion position 3:" in str(caught.value)


@pytest.mark.parametrize(
    ("prompt", "completion", "message"),
    [
        ([], [5], "prompt is empty"),
        ([5, 999], [5], r"prompt position 1 holds id 999"),
        ([5], [5, -1], r"completion position 1 holds id -1"),
        ([5] * 500, [5] * 14, "context of 512 tokens"),
    ],
)
def test_unusable_trajectories_are_refused(
    tiny_checkpoint: "Checkpoint", prompt: list[int], completion: list[int], message: str
) -> None:
    with pytest.raises(InputError, match=f"problem bad: .*{message}"):
        score(tiny_checkpoint, ["good", "bad"], [[5], prompt], [[5], completion])


def test_the_longest_trajectory_that_fits_is_scored(tiny_checkpoint: "Checkpoint") -> None:
    """The last token is predicted, never read: prompt + completion may be one longer than the context."""
    (scores,) = score(tiny_checkpoint, ["a"], [[5] * 500], [[5] * 13])
    assert len(scores.entropy) == 13


def test_wrong_arguments_are_refused(tiny_checkpoint: "Checkpoint") -> None:
    with pytest.raises(InputError, match="one entry a trajectory"):
        score(tiny_checkpoint, ["a"], [[5]], [])
    with pytest.raises(InputError, match="token_budget"):
        score(tiny_checkpoint, ["a"], [[5]], [[5]], token_budget=0)
    with pytest.raises(InputError, match=r"positions\[1\] asks for .* problem b's completion has 1"):
        score(
            tiny_checkpoint,
            ["a", "b"],
            [[5], [5]],
            [[5], [6]],
            alternatives=1,
            positions=[np.array([0]), np.array([1])],
        )
