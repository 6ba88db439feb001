"""The packed pass against rows run one by one, its sharing counted, its gradients, models it cannot pack."""

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn
from transformers import AutoModelForCausalLM, Gemma2Config, GPT2Config, LlamaConfig

from entropy_lab.training.batch import Batch, batch_of, micro_batches, minibatches
from entropy_lab.training.policy import TrainedPolicy, layout
from tests.training.made import made_rollout


def tiny(dtype=torch.float64, **changes):
    config = LlamaConfig(
        vocab_size=31,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=24,
        max_position_embeddings=64,
        tie_word_embeddings=True,
        **changes,
    )
    torch.manual_seed(3)
    return AutoModelForCausalLM.from_config(config).to(dtype).eval()


ROWS = [
    ((1, 2, 3), (), (4, 5, 6)),
    ((1, 2, 3), (4,), (7, 8)),
    ((1, 2, 3), (4, 5), (9,)),
    ((1, 2, 3), (4, 5), (9, 10, 11, 12)),
    ((5, 6), (), (1,)),
    ((5, 6), (), (2, 3)),
]


def batch(rows=ROWS) -> Batch:
    return batch_of(
        [made_rollout(prompt, completion, prefix, group=f"g{prompt}{prefix}") for prompt, prefix, completion in rows],
        torch.device("cpu"),
    )


def one_by_one(model, rows, temperature=1.0):
    logprobs, entropies = [], []
    for prompt, prefix, completion in rows:
        ids = torch.tensor([[*prompt, *prefix, *completion]])
        logits = model(input_ids=ids).logits[0, -len(completion) - 1 : -1] / temperature
        logp = logits.log_softmax(-1)
        logprobs.append(logp.gather(1, torch.tensor(completion)[:, None])[:, 0])
        entropies.append(-(logp.exp() * logp).sum(-1))
    return torch.cat(logprobs), torch.cat(entropies)


def all_rows(made):
    return np.arange(len(made))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_packed_columns_and_gradients_are_those_of_single_rows(temperature):
    model = tiny()
    policy = TrainedPolicy(model, temperature=temperature)
    assert policy.packs
    logprob, entropy = one_by_one(model, ROWS, temperature)
    weights = torch.linspace(-1, 1, len(logprob), dtype=torch.float64)
    (weights * (logprob + 0.3 * entropy)).sum().backward()
    expected = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    model.zero_grad()
    now = policy(batch(), all_rows(batch()))
    (weights * (now.logprob_N + 0.3 * now.entropy_N)).sum().backward()
    torch.testing.assert_close(now.logprob_N, logprob, rtol=0, atol=1e-6)
    torch.testing.assert_close(now.entropy_N, entropy, rtol=0, atol=1e-6)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-5, atol=1e-6)  # its norms compute in float32


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple),
            st.lists(st.integers(0, 2), max_size=3).map(tuple),
            st.lists(st.integers(0, 30), min_size=1, max_size=5).map(tuple),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_contexts_share_as_they_can(rows):
    model = tiny()
    policy, made = TrainedPolicy(model), batch(rows)
    with torch.no_grad():
        now = policy(made, all_rows(made))
        expected, _ = one_by_one(model, rows)
    torch.testing.assert_close(now.logprob_N, expected, rtol=0, atol=1e-6)
    contexts = {prompt + prefix for prompt, prefix, _ in rows}
    leaves = [one for one in contexts if not any(other != one and other[: len(one)] == one for other in contexts)]
    own = sum(len(completion) - 1 for *_, completion in rows)
    assert policy.forward_tokens == sum(map(len, leaves)) + own


def test_tokens_computed_are_those_of_the_tree():
    places = layout(batch().contexts, batch().context_R, batch().completions, torch.device("cpu"))
    assert places.ids_T[:7].tolist() == [5, 6, 1, 2, 3, 4, 5]  # two leaves, of which one holds three contexts
    assert len(places.ids_T) == 7 + sum(len(completion) - 1 for *_, completion in ROWS)


@pytest.mark.parametrize(
    "config",
    [
        Gemma2Config(
            vocab_size=31, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
            head_dim=8, intermediate_size=24, sliding_window=3, max_position_embeddings=64, query_pre_attn_scalar=8,
        ),
        GPT2Config(vocab_size=31, n_embd=16, n_layer=2, n_head=2, n_positions=64),
    ],
    ids=["sliding-window", "learned-positions"],
)  # fmt: skip
def test_other_architectures_give_their_own_log_probs(config):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    policy = TrainedPolicy(model)
    assert policy.packs == isinstance(config, GPT2Config)
    now = policy(batch(), all_rows(batch()))
    expected, entropy = one_by_one(model, ROWS)
    torch.testing.assert_close(now.logprob_N, expected, rtol=0, atol=2e-5)
    torch.testing.assert_close(now.entropy_N, entropy, rtol=0, atol=2e-5)


def test_uniform_log_probs_and_values():
    model, head = tiny(torch.float32), nn.Linear(16, 1)
    policy = TrainedPolicy(model, temperature=0.8, value_head=head, uniform=True)
    now = policy(batch(), all_rows(batch()))
    prompt, prefix, completion = ROWS[3]
    output = model(input_ids=torch.tensor([[*prompt, *prefix, *completion]]), output_hidden_states=True)
    logp = (output.logits[0, -5:-1] / 0.8).log_softmax(-1)
    rows = batch().tokens.token_index(torch.tensor([3]))
    torch.testing.assert_close(now.uniform_logprob_N[rows], logp.mean(-1), rtol=0, atol=1e-5)
    torch.testing.assert_close(now.value_N[rows], head(output.hidden_states[-1][0, -5:-1])[:, 0], rtol=0, atol=1e-5)


def test_low_precision_changes_log_probs_a_little_and_their_type_not():
    model = tiny(torch.float32)
    exact = TrainedPolicy(model)(batch(), all_rows(batch())).logprob_N
    rounded = TrainedPolicy(model, dtype=torch.bfloat16)(batch(), all_rows(batch())).logprob_N
    assert rounded.dtype == torch.float32
    assert 0 < float((rounded - exact).detach().abs().max()) < 0.05


@pytest.mark.parametrize("whole_groups", [False, True])
@pytest.mark.parametrize("budget", [1, 9, 14, 10_000])
def test_micro_batches_part_the_rows(budget, whole_groups):
    made = batch()
    parts = micro_batches(made, all_rows(made), budget, whole_groups)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(made)))
    group_R = made.tokens.group_R.numpy()
    for part in parts:
        contexts = {one for row in part for one in [made.context_R[row]]}
        cost = sum(len(made.contexts[one]) for one in contexts) + sum(len(made.completions[row]) for row in part)
        units = set(group_R[part]) if whole_groups else set(part.tolist())
        assert cost <= budget or len(units) == 1
    if whole_groups:
        homes = {}
        for place, part in enumerate(parts):
            for row in part:
                assert homes.setdefault(group_R[row], place) == place


def test_minibatches_keep_groups_whole():
    made = batch()
    parts = minibatches(made, 2)
    groups = [set(made.tokens.group_R.numpy()[part]) for part in parts]
    assert len(parts) == 2
    assert not groups[0] & groups[1]
    assert len(minibatches(made, 99)) == len(set(made.tokens.group_R.tolist()))
