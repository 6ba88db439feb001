"""The engine on models of two layers: exact statistics, draws that belong to the trajectory, limits and errors."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from small_models import checkpoint_of, expected_statistics, found_statistics, small_model
from transformers import PreTrainedModel

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.engines import decoding
from entropy_lab.engines.capacity import is_out_of_memory
from entropy_lab.engines.protocol import Request, Sampling, Trajectory, uniforms
from entropy_lab.engines.shared_prompt_cache import SharedPromptCache
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.errors import InputError
from entropy_lab.progress import Silent
from entropy_lab.scoring.teacher_forced import score

END_IDS = (1, 7, 20, 33, 51)  # several, so that rows leave the batch at different steps
REQUESTS = [
    Request("short", (5,), 6),
    Request("long", tuple(range(10, 40)), 9),
    Request("middle", (2, 4, 6, 8), 12),
    Request("middle again", (9, 4, 6, 8, 3), 12),  # shares a padded bucket with "middle"
]

OWN_SHAPES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128},
    "deepseek_v3": {
        "q_lora_rank": 16,
        "kv_lora_rank": 16,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 12,
        "n_routed_experts": 4,
        "n_group": 1,
        "topk_group": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "first_k_dense_replace": 1,
        "num_key_value_heads": 4,
    },
}


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return small_model()


def run(
    model: PreTrainedModel,
    requests: Sequence[Request] = REQUESTS,
    rows: int = 64,
    end_ids: tuple[int, ...] = END_IDS,
    **sampling: Any,
) -> dict[tuple[str, str, int], Trajectory]:
    engine = TransformersEngine(checkpoint_of(model, end_ids), rows)
    settings = Sampling(**({"max_new_tokens": 25} | sampling))
    found = [
        trajectory for batch in engine.partition(requests, settings) for trajectory in engine.sample(batch, settings)
    ]
    by_key = {(t.problem_id, t.stream, t.sample_index): t for t in found}
    assert len(by_key) == len(found) == sum(request.count for request in requests)
    return by_key


def tokens(found: dict[tuple[str, str, int], Trajectory]) -> dict[tuple[str, str, int], list[int]]:
    return {key: trajectory.token_ids.tolist() for key, trajectory in found.items()}


@pytest.mark.parametrize(
    ("kind", "dtype", "tolerance"),
    [
        ("llama", torch.float64, 2e-6),
        ("qwen3", torch.float64, 2e-6),
        ("gpt2", torch.float64, 2e-6),
        ("deepseek_v3", torch.float32, 1e-4),  # values of another size than keys
        ("qwen3_moe", torch.float32, 1e-4),  # experts multiply in float32 at most
    ],
)
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_statistics_equal_a_plain_forward_pass(
    kind: str, dtype: torch.dtype, tolerance: float, temperature: float
) -> None:
    """L2, L3: exact over the full vocabulary, at the temperature of sampling, aligned with the token they produced."""
    model = small_model(kind, dtype, **OWN_SHAPES.get(kind, {}))
    notes = Notes()
    engine = TransformersEngine(checkpoint_of(model, END_IDS), 64, notes)
    assert notes.notes == []  # prompts are shared
    found = list(engine.sample(REQUESTS, Sampling(temperature=temperature, max_new_tokens=25)))
    assert len({len(trajectory.token_ids) for trajectory in found}) > 3
    for trajectory in found:
        expected = expected_statistics(model, trajectory, temperature)
        assert np.abs(found_statistics(trajectory) - expected).max() < tolerance
        assert np.array_equal(trajectory.logprobs, trajectory.logprob)
        assert trajectory.temperature == temperature


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 0.1), (torch.float16, 0.02)])
def test_lower_precision_stays_close_to_float64(dtype: torch.dtype, tolerance: float) -> None:
    """The head's product is widened to float32, so bfloat16 costs what its hidden states cost and no more."""
    model = small_model(dtype=dtype, initializer_range=0.1)
    exact = small_model(initializer_range=0.1).to(dtype).double()
    for trajectory in run(model).values():
        assert np.abs(found_statistics(trajectory) - expected_statistics(exact, trajectory)).max() < tolerance


def test_batch_size_and_order_change_nothing(model: PreTrainedModel) -> None:
    """L7, and randomness belongs to the trajectory: one row at a time, odd batches and another order agree."""
    whole = run(model)
    for rows, requests in ((1, REQUESTS), (7, REQUESTS), (64, REQUESTS[::-1])):
        other = run(model, requests, rows)
        assert tokens(other) == tokens(whole)
        for key, trajectory in other.items():
            assert np.allclose(trajectory.logprob, whole[key].logprob, atol=1e-6)


def test_batched_equals_single_in_float32() -> None:
    """L7: to 1e-4, wherever a trajectory drew the same tokens."""
    model = small_model(dtype=torch.float32)
    whole, single = run(model), run(model, rows=1)
    same = [key for key in whole if tokens(whole)[key] == tokens(single)[key]]
    assert len(same) >= 0.9 * len(whole)
    for key in same:
        assert np.abs(found_statistics(whole[key]) - found_statistics(single[key])).max() < 1e-4


def test_samples_can_be_drawn_in_parts(model: PreTrainedModel) -> None:
    """A run continued at sample 5 draws what one run would have drawn."""
    whole = run(model, [Request("a", (4, 5), 12)])
    parts = run(model, [Request("a", (4, 5), 5), Request("a", (4, 5), 7, first_sample=5)])
    assert tokens(parts) == tokens(whole)


def test_runs_problems_streams_and_samples_share_no_draws(model: PreTrainedModel) -> None:
    """S1: neighbours of a seed, of a problem, of a stream or of a sample index have streams of their own."""
    requests = [Request(problem, (4, 5), 8, stream=stream) for problem in "ab" for stream in ("", "branch")]
    drawn = [
        (trajectory.seed, tuple(trajectory.token_ids.tolist()))
        for seed in (7, 8)
        for trajectory in run(model, requests, seed=seed, end_ids=(), max_new_tokens=20).values()
    ]
    assert len({seed for seed, _ in drawn}) == len({ids for _, ids in drawn}) == len(drawn) == 64


def test_draws_are_the_trajectorys_stream_by_position(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Number t of the stream draws token t, however the stream is fetched."""
    asked = run(model, end_ids=(), max_new_tokens=30)
    monkeypatch.setattr(decoding, "UNIFORMS", 7)
    assert tokens(run(model, end_ids=(), max_new_tokens=30)) == tokens(asked)
    trajectory = asked["short", "", 0]
    ids = torch.tensor([[*trajectory.prompt_ids, *trajectory.token_ids.tolist()]])
    with torch.no_grad():
        cumulative = model(input_ids=ids).logits[0, len(trajectory.prompt_ids) - 1 : -1].softmax(-1).cumsum(-1).numpy()
    drawn = [np.searchsorted(c, u) for c, u in zip(cumulative, uniforms(trajectory.seed, 0, 30), strict=True)]
    assert trajectory.token_ids.tolist() == drawn


def test_first_tokens_follow_the_softmax(model: PreTrainedModel) -> None:
    count = 4000
    found = run(model, [Request("a", (4, 5, 6), count)], rows=1000, max_new_tokens=1)
    observed = np.bincount([t.token_ids[0] for t in found.values()], minlength=99)
    with torch.no_grad():
        expected = model(input_ids=torch.tensor([[4, 5, 6]])).logits[0, -1].softmax(0).numpy() * count
    often = expected >= 5
    observed, expected = ([*counts[often], counts[~often].sum()] for counts in (observed, expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-3


def test_surprisal_is_entropy_on_average() -> None:
    """Given its past a token's log-prob is −H on average: their sum is a martingale, whatever ends a trajectory."""
    found = run(small_model(dtype=torch.float32, initializer_range=0.15), [Request("a", (4, 5), 400)], rows=400)
    gap = sum(float((t.logprob + t.entropy).sum()) for t in found.values())
    variance = sum(float(t.varentropy.sum()) for t in found.values())
    assert abs(gap) < 4 * variance**0.5


def test_every_end_token_ends_and_stays(model: PreTrainedModel) -> None:
    """Several end tokens; the one drawn is the last element and has its statistics."""
    found = run(model, [Request("a", (4, 5), 200)], rows=100)
    ended = [t for t in found.values() if t.finish_reason == "stop"]
    assert {int(t.token_ids[-1]) for t in ended} == set(END_IDS)
    for trajectory in found.values():
        inner = trajectory.token_ids if trajectory.finish_reason == "length" else trajectory.token_ids[:-1]
        assert not np.isin(inner, END_IDS).any()
        assert len(trajectory.token_ids) == len(trajectory.logprob) == len(trajectory.varentropy)
        assert trajectory.finish_reason == "stop" or len(trajectory.token_ids) == 25


@pytest.mark.parametrize("pad", [1, 0, None])
def test_the_pad_token_means_nothing(model: PreTrainedModel, pad: int | None) -> None:
    """S3: pad == eos neither drops the final eos nor masks an eos in the prompt."""
    other = small_model()
    other.config.pad_token_id = pad
    requests = [Request("a", (4, 1, 0, 5), 40), Request("b", (9,), 40)]
    found = run(other, requests, end_ids=(1,))
    assert tokens(found) == tokens(run(model, requests, end_ids=(1,)))
    assert any(t.finish_reason == "stop" and t.token_ids[-1] == 1 for t in found.values())


def test_ids_beyond_the_tokenizer_can_be_drawn(tiny_checkpoint: Checkpoint) -> None:
    """Padded head rows belong to the distribution; they are drawn, fed back and reported like any other."""
    size = tiny_checkpoint.tokenizer_size
    model = small_model(vocab_size=size + 40)
    checkpoint = replace(checkpoint_of(model), tokenizer=tiny_checkpoint.tokenizer)
    found = list(TransformersEngine(checkpoint, 64).sample(REQUESTS, Sampling(max_new_tokens=10)))
    assert max(t.token_ids.max() for t in found) >= size
    for trajectory in found:
        assert np.abs(found_statistics(trajectory) - expected_statistics(model, trajectory)).max() < 2e-6


def test_unused_head_rows_can_be_masked_on_both_sides(tiny_checkpoint: Checkpoint) -> None:
    """Masked rows are never drawn, and sampler and scorer speak of the same distribution."""
    size = tiny_checkpoint.tokenizer_size
    checkpoint = replace(checkpoint_of(small_model(vocab_size=size + 40)), tokenizer=tiny_checkpoint.tokenizer)
    settings = Sampling(max_new_tokens=10, mask_unused=True)
    found = list(TransformersEngine(checkpoint, 64).sample(REQUESTS, settings))
    assert max(t.token_ids.max() for t in found) < size
    ids = [t.problem_id for t in found], [t.prompt_ids for t in found], [t.token_ids for t in found]
    for trajectory, again in zip(found, score(checkpoint, *ids, mask_unused=True), strict=True):
        scored = np.stack([again.logprob, again.entropy, again.varentropy])
        assert np.abs(found_statistics(trajectory) - scored).max() < 1e-5
        assert not again.unused_mass.any()
    for again in score(checkpoint, *ids):
        assert (again.unused_mass > 0).all()


def test_completions_stop_at_the_models_context() -> None:
    model = small_model(max_position_embeddings=16)
    found = run(model, [Request("a", (4,) * 14, 3), Request("b", (4,) * 3, 3)], end_ids=(), max_new_tokens=10)
    assert sorted(len(t.token_ids) for t in found.values()) == [2, 2, 2, 10, 10, 10]
    assert {t.finish_reason for t in found.values()} == {"length"}


def test_a_prompt_that_fills_the_context_is_refused_by_name() -> None:
    engine = TransformersEngine(checkpoint_of(small_model(max_position_embeddings=16)))
    with pytest.raises(InputError, match=r"'too long' has 16 tokens.*holds 16"):
        list(
            engine.sample(
                [Request("fine", (4,), 1), Request("too long", (4,) * 12, 1, prefix_ids=(5,) * 4)], Sampling()
            )
        )
    with pytest.raises(InputError, match="'empty' has no tokens"):
        list(engine.sample([Request("empty", (), 1)], Sampling()))


def test_a_prefix_continues_as_if_it_were_prompt(model: PreTrainedModel) -> None:
    """Branches: same draws and statistics as with the prefix in the prompt; `token_ids` are the new tokens alone."""
    prompt, prefix = (4, 5, 6), (11, 12)
    branch = run(model, [Request("a", prompt, 9, prefix_ids=prefix), Request("a", prompt, 4, stream="other")])
    whole = run(model, [Request("a", prompt + prefix, 9)])
    for key, trajectory in whole.items():
        assert branch[key].token_ids.tolist() == trajectory.token_ids.tolist()
        assert np.allclose(branch[key].entropy, trajectory.entropy, atol=1e-6)
        assert branch[key].prompt_ids == prompt
        assert (
            np.abs(found_statistics(branch[key]) - expected_statistics(model, branch[key], prefix=prefix)).max() < 2e-6
        )


def test_equal_contexts_are_computed_once(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prompt costs one pass for all its samples, wherever its prompt ends and its prefix begins."""
    fed: list[int] = []
    hidden = decoding.Policy.hidden
    monkeypatch.setattr(
        decoding.Policy, "hidden", lambda self, ids, *a, **k: (fed.append(ids.numel()), hidden(self, ids, *a, **k))[1]
    )
    requests = [Request("a", (4, 5, 6), 8), Request("b", (4, 5, 6), 8), Request("c", (4,), 8, prefix_ids=(5, 6))]
    engine = TransformersEngine(checkpoint_of(model), 64)
    fed.clear()
    list(engine.sample(requests, Sampling(max_new_tokens=1)))
    assert fed == [3]


def test_greedy_equals_generate(model: PreTrainedModel) -> None:
    found = run(model, [replace(request, count=1) for request in REQUESTS], temperature=0.0, end_ids=(1,))
    for trajectory in found.values():
        ids = torch.tensor([trajectory.prompt_ids])
        with torch.no_grad():
            expected = model.generate(
                input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=25
            )
        assert trajectory.token_ids.tolist() == expected[0, ids.shape[1] :].tolist()
        assert trajectory.logprobs.tolist() == [0.0] * len(trajectory.token_ids)
        assert trajectory.temperature == 1.0
        assert np.abs(found_statistics(trajectory) - expected_statistics(model, trajectory)).max() < 2e-6


def test_truncated_sampling_reports_both_log_probs(model: PreTrainedModel) -> None:
    """`logprobs` are the sampler's, of the five tokens kept; `logprob` is the policy's."""
    for trajectory in run(model, top_k=5).values():
        expected = expected_statistics(model, trajectory)
        assert np.abs(found_statistics(trajectory) - expected).max() < 2e-6
        assert (trajectory.logprobs >= trajectory.logprob).all()


def test_new_weights_change_the_output(model: PreTrainedModel) -> None:
    """S5: nothing computed with the old weights survives, whether the model is swapped or changed in place."""
    trained = small_model()
    engine = TransformersEngine(checkpoint_of(trained, END_IDS), 64)
    before = list(engine.sample(REQUESTS, Sampling(max_new_tokens=5)))
    with torch.no_grad():
        for parameter in trained.parameters():
            parameter.mul_(0.9)
    engine.update_weights(trained)
    after = list(engine.sample(REQUESTS, Sampling(max_new_tokens=5)))
    assert [t.logprob.tolist() for t in before] != [t.logprob.tolist() for t in after]
    for trajectory in after:
        assert np.abs(found_statistics(trajectory) - expected_statistics(trained, trajectory)).max() < 2e-6
    engine.update_weights(model)
    for trajectory in engine.sample(REQUESTS, Sampling(max_new_tokens=5)):
        assert np.abs(found_statistics(trajectory) - expected_statistics(model, trajectory)).max() < 2e-6


def test_weights_do_not_change_under_a_running_batch(model: PreTrainedModel) -> None:
    engine = TransformersEngine(checkpoint_of(model, END_IDS), 64)
    trajectories = engine.sample(REQUESTS, Sampling(max_new_tokens=20))
    next(trajectories)
    engine.update_weights(small_model())
    with pytest.raises(RuntimeError, match="updated while"):
        list(trajectories)


def test_the_callers_model_is_left_as_it_was() -> None:
    """The engine evaluates a twin: training mode, attention function, gradients and the caller's grad mode stay."""
    model = small_model(attention_dropout=0.5).train()
    before = model.config._attn_implementation
    trajectories = TransformersEngine(checkpoint_of(model, END_IDS), 64).sample(REQUESTS, Sampling(max_new_tokens=5))
    trajectory = next(trajectories)
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert model.training
    assert model.config._attn_implementation == before
    assert np.abs(found_statistics(trajectory) - expected_statistics(model.eval(), trajectory)).max() < 2e-6
    model.train()(input_ids=torch.tensor([[4, 5]])).logits.sum().backward()
    list(trajectories)


def test_out_of_memory_halves_the_batch_and_loses_nothing(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same trajectories come out, finished ones once, and the halving is noted."""
    whole = run(model)
    step = SharedPromptCache.step
    sizes: list[int] = []

    def failing_step(self: SharedPromptCache, token_R: torch.Tensor) -> torch.Tensor:
        sizes.append(len(token_R))
        if len(sizes) > 6 and len(token_R) > 8:
            raise torch.OutOfMemoryError("out of memory")
        return step(self, token_R)

    notes = Notes()
    engine = TransformersEngine(checkpoint_of(model, END_IDS), 64, notes)
    monkeypatch.setattr(SharedPromptCache, "step", failing_step)
    found = list(engine.sample(REQUESTS, Sampling(max_new_tokens=25)))
    assert len(found) == len(whole)
    assert tokens({(t.problem_id, t.stream, t.sample_index): t for t in found}) == tokens(whole)
    assert notes.notes
    assert all(note.startswith("Out of memory with") for note in notes.notes)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (torch.OutOfMemoryError("CUDA out of memory."), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("not enough memory"), False),
    ],
)
def test_out_of_memory_is_told_from_other_errors(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected


def test_a_single_trajectory_that_does_not_fit_is_said_so(
    model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TransformersEngine(checkpoint_of(model, ()), 64)

    def failing_step(self: SharedPromptCache, token_R: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(SharedPromptCache, "step", failing_step)
    with pytest.raises(InputError, match="not enough memory for one trajectory of problem"):
        list(engine.sample(REQUESTS, Sampling(max_new_tokens=25)))


def test_other_errors_are_not_taken_for_memory(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TransformersEngine(checkpoint_of(model, ()), 64)

    def failing_step(self: SharedPromptCache, token_R: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(SharedPromptCache, "step", failing_step)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        list(engine.sample(REQUESTS, Sampling(max_new_tokens=25)))


def test_broken_logits_name_checkpoint_problem_and_position() -> None:
    """L1: NaN is an error at the place where it appears, never a token."""
    model = small_model()
    with torch.no_grad():
        model.get_input_embeddings().weight[60] = torch.nan
    engine = TransformersEngine(checkpoint_of(model, ()), 64)
    fine = Request("fine", (4, 5), 3)
    assert len(list(engine.sample([fine], Sampling(max_new_tokens=1)))) == 3
    with pytest.raises(
        InputError, match="small gives NaN or infinite logits for problem 'broken' at completion token 0"
    ):
        list(engine.sample([fine, Request("broken", (4, 60), 3)], Sampling(max_new_tokens=1)))
    with pytest.raises(InputError, match="for problem 'branch' at completion token 2"):
        list(engine.sample([Request("branch", (4,), 1, prefix_ids=(5, 60))], Sampling(max_new_tokens=1)))


def test_masked_head_rows_are_never_drawn() -> None:
    """L1: a head bias of −inf rules ids out and leaves every statistic finite."""
    model = small_model("gpt2", **OWN_SHAPES["gpt2"])
    bias = torch.zeros(99, dtype=torch.float64)
    bias[50:] = -torch.inf
    model.lm_head.bias = torch.nn.Parameter(bias)
    for trajectory in run(model, end_ids=()).values():
        assert trajectory.token_ids.max() < 50
        assert np.isfinite(found_statistics(trajectory)).all()


def test_trajectories_come_in_order_of_completion(model: PreTrainedModel) -> None:
    found = list(TransformersEngine(checkpoint_of(model, END_IDS), 64).sample(REQUESTS, Sampling(max_new_tokens=25)))
    assert all(len(a.token_ids) <= len(b.token_ids) for a, b in pairwise(found))


def test_long_completions_cross_every_growth_of_the_cache(model: PreTrainedModel) -> None:
    """Keys survive each reallocation, and rows moved between two of them."""
    found = run(model, end_ids=(1,), max_new_tokens=90)
    assert max(len(t.token_ids) for t in found.values()) > 64
    for trajectory in found.values():
        assert np.abs(found_statistics(trajectory) - expected_statistics(model, trajectory)).max() < 2e-6


@cache
def engine_of(rows: int) -> TransformersEngine:
    return TransformersEngine(checkpoint_of(small_model()), rows)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 5)), max_size=12), st.sampled_from([1, 2, 3, 7, 20, 50]))
@settings(max_examples=60, deadline=None)
def test_partition_asks_for_every_sample_once(sizes: list[tuple[int, int]], rows: int) -> None:
    """In order, at most `rows` a batch, and the same each time."""
    requests = [Request(str(i), (4,), count, first) for i, (count, first) in enumerate(sizes)]
    engine = engine_of(rows)
    batches = engine.partition(requests, Sampling())
    assert batches == engine.partition(requests, Sampling())
    assert all(0 < sum(part.count for part in batch) <= rows for batch in batches)
    asked = [(r.problem_id, r.first_sample + i) for r in requests for i in range(r.count)]
    assert [(p.problem_id, p.first_sample + i) for b in batches for p in b for i in range(p.count)] == asked
    if requests and max(count for count, _ in sizes) <= rows:
        assert [part for batch in batches for part in batch] == [r for r in requests if r.count]


def test_rows_follow_memory(model: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power of two, never 0, never beyond the cap, and measured once so that a call repeats its answer."""
    free = [2**40]
    monkeypatch.setattr("entropy_lab.engines.transformers.free_bytes", lambda device: free[0])
    requests, sampling = [Request("a", (4, 5), 3)], Sampling(max_new_tokens=100)
    plenty = TransformersEngine(checkpoint_of(model))
    free[0] = 0
    assert plenty.rows(requests, sampling) == 512
    assert TransformersEngine(checkpoint_of(model)).rows(requests, sampling) == 1
    free[0] = 10 * 2**20
    some = TransformersEngine(checkpoint_of(model))
    assert 1 < some.rows(requests, sampling) < 512
    assert some.rows(requests, sampling).bit_count() == 1
    assert some.rows(requests, sampling) > some.rows(requests, replace(sampling, max_new_tokens=10_000))


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": float("nan")},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"max_new_tokens": 0},
    ],
)
def test_settings_that_cannot_be_sampled_are_named(model: PreTrainedModel, wrong: dict[str, Any]) -> None:
    engine = TransformersEngine(checkpoint_of(model), 4)
    with pytest.raises(InputError, match=next(iter(wrong))):
        list(engine.sample(REQUESTS, Sampling(**wrong)))


def test_nothing_asked_nothing_sampled(model: PreTrainedModel) -> None:
    engine = TransformersEngine(checkpoint_of(model), 4)
    assert engine.partition([], Sampling()) == []
    found: Iterator[Trajectory] = engine.sample([Request("a", (4,), 0)], Sampling())
    assert list(found) == []
    engine.close()
