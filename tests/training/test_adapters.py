"""Adapters: nothing changes at first, only they train, and the merged model is the adapted one."""

import sys
from pathlib import Path

import pytest
import torch

from entropy_lab.checkpoints import Checkpoint, load_checkpoint, save_checkpoint
from entropy_lab.checkpoints.head import check_head
from entropy_lab.engines.protocol import Request, Sampling
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.errors import InputError
from entropy_lab.training.adapters import add_adapters, merged, trainable
from entropy_lab.training.recipe import Lora

pytest.importorskip("peft")
IDS = torch.arange(3, 35).view(2, 16)


@pytest.fixture
def checkpoint() -> Checkpoint:
    return load_checkpoint("builtin:sft", device="cpu")


def _stir(model: torch.nn.Module) -> None:
    """Adapters as training might leave them: both factors different from 0."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in trainable(model).values():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.02)


def test_fresh_adapters_change_nothing_and_leave_the_class_and_the_generator_alone(checkpoint: Checkpoint) -> None:
    before, kind = checkpoint.model(IDS).logits, type(checkpoint.model)
    generator = torch.random.get_rng_state()
    add_adapters(checkpoint.model, Lora(rank=4))
    assert torch.equal(torch.random.get_rng_state(), generator)
    assert type(checkpoint.model) is kind
    assert torch.equal(checkpoint.model(IDS).logits, before)


def test_the_seed_decides_the_adapters() -> None:
    drawn = []
    for seed in (5, 5, 6):
        model = load_checkpoint("builtin:sft", device="cpu").model
        add_adapters(model, Lora(rank=2), seed)
        drawn.append(torch.cat([parameter.flatten() for parameter in trainable(model).values()]))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_parameters_and_gradients_are_those_of_the_adapters_alone(checkpoint: Checkpoint) -> None:
    model = checkpoint.model
    shapes = {
        name: module.weight.shape for name, module in model.model.named_modules() if isinstance(module, torch.nn.Linear)
    }
    add_adapters(model, Lora(rank=3))
    _stir(model)
    assert sum(parameter.numel() for parameter in trainable(model).values()) == sum(
        3 * (outputs + inputs) for outputs, inputs in shapes.values()
    )
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    optimizer = torch.optim.AdamW(trainable(model).values(), 1e-2)
    model(IDS).logits.logsumexp(-1).sum().backward()
    optimizer.step()
    for name, parameter in model.named_parameters():
        moved = "lora_" in name
        assert (parameter.grad is not None) == moved, name
        assert torch.equal(parameter, before[name]) != moved, name


def test_targets_by_the_last_part_of_their_name(checkpoint: Checkpoint) -> None:
    add_adapters(checkpoint.model, Lora(rank=1, targets=("q_proj", "model.layers.3.mlp.up_proj")))
    places = {name.partition(".lora_")[0] for name in trainable(checkpoint.model)}
    assert places == {*(f"model.layers.{layer}.self_attn.q_proj" for layer in range(4)), "model.layers.3.mlp.up_proj"}


@pytest.mark.parametrize(("target", "remedy"), [("qproj", "q_proj"), ("lm_head", "head"), ("embed_tokens", "q_proj")])
def test_a_target_that_is_no_layer(checkpoint: Checkpoint, target: str, remedy: str) -> None:
    with pytest.raises(InputError, match=f"(?s)lora.targets.*'{target}'.*{remedy}"):
        add_adapters(checkpoint.model, Lora(targets=(target,)))
    assert all(parameter.requires_grad for parameter in checkpoint.model.parameters())


def test_the_merged_checkpoint_loads_anywhere_and_gives_the_same_logits(checkpoint: Checkpoint, tmp_path: Path) -> None:
    model = checkpoint.model
    names, plain = set(model.state_dict()), model(IDS).logits
    add_adapters(model, Lora(rank=4))
    _stir(model)
    adapted = model(IDS).logits
    assert (adapted - plain).abs().max() > 0.1
    twin = merged(model)
    assert set(twin.state_dict()) == names
    assert twin.get_output_embeddings().weight is twin.get_input_embeddings().weight  # still tied
    save_checkpoint(twin, checkpoint.tokenizer, tmp_path / "merged")
    loaded = load_checkpoint(tmp_path / "merged", device="cpu").model
    torch.testing.assert_close(loaded(IDS).logits, adapted, rtol=1e-5, atol=1e-5)
    assert torch.equal(model(IDS).logits, adapted)  # the adapted model goes on training


def test_the_merged_model_shares_what_no_adapter_touched_and_owns_the_rest(checkpoint: Checkpoint) -> None:
    add_adapters(checkpoint.model, Lora(rank=1, targets=("q_proj",)))
    twin = merged(checkpoint.model)
    for layer, ours in zip(twin.model.layers, checkpoint.model.model.layers, strict=True):
        assert layer.mlp.up_proj.weight is ours.mlp.up_proj.weight
        assert layer.self_attn.q_proj.weight is not ours.self_attn.q_proj.weight


def test_the_engine_samples_from_adapters_as_they_are_now(checkpoint: Checkpoint) -> None:
    add_adapters(checkpoint.model, Lora(rank=4))
    engine = TransformersEngine(checkpoint)
    request, sampling = Request("p", tuple(range(3, 15)), 6), Sampling(max_new_tokens=12)
    before = sorted(engine.sample([request], sampling), key=lambda drawn: drawn.sample_index)
    _stir(checkpoint.model)
    check_head(checkpoint.model)
    after = sorted(engine.sample([request], sampling), key=lambda drawn: drawn.sample_index)
    assert [drawn.token_ids.tolist() for drawn in before] != [drawn.token_ids.tolist() for drawn in after]
    model = merged(checkpoint.model)
    for drawn in after:
        ids = torch.tensor([*drawn.prompt_ids, *drawn.token_ids])
        logprob_TV = model(ids[None]).logits[0, len(drawn.prompt_ids) - 1 : -1].log_softmax(-1)
        expected_T = logprob_TV.gather(1, torch.tensor(drawn.token_ids)[:, None])[:, 0]
        torch.testing.assert_close(torch.tensor(drawn.logprobs), expected_T, rtol=1e-4, atol=1e-4)


def test_without_peft_the_remedy_is_named(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "peft"]:
        monkeypatch.setitem(sys.modules, module, None)
    assert merged(checkpoint.model) is checkpoint.model  # what has no adapters needs no peft
    with pytest.raises(InputError, match=r"pip install 'entropy-lab\[lora\]'"):
        add_adapters(checkpoint.model, Lora())
