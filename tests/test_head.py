from typing import Any

import pytest
import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedModel

from entropy_lab.checkpoints.head import check_head, head_of
from entropy_lab.errors import InputError

SMALL = {
    "vocab_size": 101,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("LlamaConfig", SMALL),
    "soft-cap": (
        "Gemma2Config",
        SMALL | {"head_dim": 16, "sliding_window": 8, "query_pre_attn_scalar": 16, "final_logit_softcapping": 3.0},
    ),
    "multiplied": ("CohereConfig", SMALL | {"logit_scale": 0.5}),
    "divided": ("GraniteConfig", SMALL | {"logits_scaling": 4.0}),
    "divider-that-multiplies": ("HyperCLOVAXConfig", SMALL | {"logits_scaling": 0.5}),
    "bias": ("PhiConfig", SMALL),
    "tied": ("GPT2Config", {"vocab_size": 101, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}),
}


def build(config: str, settings: dict[str, Any]) -> PreTrainedModel:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(getattr(transformers, config)(**settings)).eval()
        embeddings = model.get_output_embeddings()
        if getattr(embeddings, "bias", None) is not None:
            torch.nn.init.normal_(embeddings.bias)
    return model


@pytest.mark.parametrize("family", FAMILIES)
def test_head_gives_the_models_own_logits(family: str) -> None:
    """L10: soft cap, logit scale and bias are the model's own, whichever way its family writes them."""
    model = build(*FAMILIES[family])
    head = check_head(model)
    ids = torch.arange(20).unsqueeze(0)
    with torch.inference_mode():
        hidden = model.base_model(ids).last_hidden_state[0]
        torch.testing.assert_close(head.logits(hidden), model(ids).logits[0], rtol=1e-5, atol=1e-5)
    assert head.vocabulary_size == 101


@pytest.mark.parametrize("family", ["soft-cap", "multiplied", "divided", "divider-that-multiplies", "bias"])
def test_a_head_that_misses_its_transform_is_refused(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """L10: the check tells a plain product from the model's logits."""
    from entropy_lab.checkpoints import head as module

    model = build(*FAMILIES[family])
    plain = module.Head(model.get_output_embeddings().weight)
    monkeypatch.setattr(module, "head_of", lambda _: plain)
    with pytest.raises(InputError, match="differ from its own"):
        check_head(model)


def test_scale_applies_to_the_bias_too() -> None:
    """transformers scales the linear layer's output, bias included; the head adds its bias after the scale."""
    model = build(*FAMILIES["bias"])
    model.config.logit_scale = 0.5
    head = head_of(model)
    hidden = torch.randn(3, 32, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        torch.testing.assert_close(head.logits(hidden), 0.5 * model.get_output_embeddings()(hidden))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_rounding_of_the_models_type_is_no_difference(dtype: torch.dtype) -> None:
    check_head(build(*FAMILIES["soft-cap"]).to(dtype))


def test_an_unknown_transform_is_refused() -> None:
    """L10: a model that changes its logits in a way the configuration does not tell is an error, not a wrong number."""
    model = build(*FAMILIES["plain"])
    model.lm_head.register_forward_hook(lambda module, inputs, output: output * 1.01)
    with pytest.raises(InputError, match=r"LlamaForCausalLM: logits .* differ"):
        check_head(model)


def test_a_cache_that_cannot_be_continued_is_refused() -> None:
    """Mamba ignores the cache it is offered for several tokens; its scores would forget the prompt."""
    settings = {"vocab_size": 101, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8}
    with pytest.raises(InputError, match="its cache"):
        check_head(build("MambaConfig", settings))


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(InputError, match="no output head"):
        head_of(build(*FAMILIES["plain"]).base_model)
