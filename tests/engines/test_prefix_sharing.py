"""Contexts that begin other contexts of a batch: computed once, with the numbers of a forward pass of their own."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_models import checkpoint_of, expected_statistics, found_statistics, small_model

from entropy_lab.engines.policy import Policy
from entropy_lab.engines.prompt_buckets import bucketed, leaves
from entropy_lab.engines.protocol import Request, Sampling
from entropy_lab.engines.shared_prompt_cache import ATTENTION, SharedPromptCache
from entropy_lab.engines.transformers import TransformersEngine

END_IDS = (1, 7, 20, 33, 51)
PROMPT = (5, 9, 2, 8)
FIRST, SECOND = tuple(range(40, 52)), tuple(range(60, 90))
TREE = [
    Request("a", PROMPT, 10, stream="root"),
    *(Request("a", PROMPT, 5, 10, FIRST[:cut], f"first {cut}") for cut in (1, 6, 12)),
    *(Request("a", PROMPT, 5, 10, SECOND[:cut], f"second {cut}") for cut in (7, 29, 30)),
    Request("b", (5, 9, 3), 6),
]
COMPUTED = [len(PROMPT) + 12, len(PROMPT) + 30, 3]  # what nothing continues


@given(st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=5), min_size=1, max_size=12))
def test_leaves_are_what_nothing_continues(contexts: list[list[int]]) -> None:
    """Against every pair: each context begins its leaf, and no context that is longer begins with a leaf."""
    found = leaves(contexts).tolist()
    for context, leaf in zip(contexts, found, strict=True):
        assert contexts[leaf][: len(context)] == context
        assert found[leaf] == leaf
        assert all(other[: len(contexts[leaf])] != contexts[leaf] or other == contexts[leaf] for other in contexts)


@pytest.mark.parametrize(
    ("kind", "settings", "dtype", "tolerance"),
    [
        ("llama", {}, torch.float64, 2e-6),
        ("gpt2", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}, torch.float64, 2e-6),
        ("llama", {}, torch.float32, 1e-4),
    ],
)
def test_statistics_of_a_tree_equal_a_plain_forward_pass(
    kind: str, settings: dict[str, int], dtype: torch.dtype, tolerance: float
) -> None:
    model = small_model(kind, dtype, **settings)
    prefixes = {request.stream: request.prefix_ids for request in TREE}
    engine = TransformersEngine(checkpoint_of(model, END_IDS), 64)
    found = list(engine.sample(TREE, Sampling(max_new_tokens=25)))
    assert len(found) == 46
    for one in found:
        expected = expected_statistics(model, one, prefix=prefixes[one.stream])
        assert np.abs(found_statistics(one) - expected).max() < tolerance


def test_a_tree_draws_what_its_states_draw_alone() -> None:
    """And costs one pass over what nothing continues, where states alone cost one pass each."""
    engine = TransformersEngine(checkpoint_of(small_model(), END_IDS), 64)
    settings = Sampling(max_new_tokens=25)
    assert engine.forward_tokens == 0
    together = {(t.problem_id, t.stream, t.sample_index): t for t in engine.sample(TREE, settings)}
    fed = sum(len(one.token_ids) - 1 for one in together.values())  # a trajectory's last token is drawn, never fed
    assert engine.forward_tokens == sum(COMPUTED) + fed
    for request in TREE:
        for one in engine.sample([request], settings):
            other = together[one.problem_id, one.stream, one.sample_index]
            assert one.token_ids.tolist() == other.token_ids.tolist()
            assert np.allclose(found_statistics(one), found_statistics(other), atol=2e-6)
    alone = sum(len(request.prompt_ids + request.prefix_ids) for request in TREE) + fed
    assert engine.forward_tokens == sum(COMPUTED) + fed + alone


def test_padding_counts_as_tokens() -> None:
    engine = TransformersEngine(checkpoint_of(small_model()), 8)
    list(engine.sample([Request("a", (4, 5, 6, 7), 2), Request("b", (8,) * 5, 2)], Sampling(max_new_tokens=1)))
    assert engine.forward_tokens == 2 * 5


def bucket_sizes(contexts: Sequence[Sequence[int]]) -> list[int]:
    return [len(run) for run, _ in bucketed(contexts, [1] * len(contexts))]


@torch.inference_mode()
def test_buckets_of_leaves_of_branches_and_of_both() -> None:
    """Wherever the grid of attention puts them, a context sees its own tokens, not those its leaf goes on with."""
    model = small_model()
    policy = Policy(model, ATTENTION)
    contexts = [
        (10, 11),
        (30, 31, 32, 33, 34),
        (10, 11, 12, 13, 14),
        (10, 11, 12, 13, 14, 15),
        tuple(range(10, 20)),
        (30, 31, 32, 33),
    ]
    assert bucket_sizes(contexts) == [1, 3, 1, 1]  # a branch; a leaf and two branches; a leaf; a branch
    cache = SharedPromptCache(policy)
    hidden = cache.prefill(contexts, [1] * 6)
    stepped = cache.step(torch.tensor([3] * 6))
    assert cache.forward_tokens == 5 + 10 + 6
    for row, context in enumerate(contexts):
        ids = torch.tensor([[*context, 3]])
        expected = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[0]
        assert torch.allclose(hidden[row], expected[-2], atol=1e-9)
        assert torch.allclose(stepped[row], expected[-1], atol=1e-9)
