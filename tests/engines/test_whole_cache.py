"""Architectures whose attention is not plain run one request at a time, with the same numbers."""

from typing import Any

import numpy as np
import pytest
import torch
from small_models import checkpoint_of, expected_statistics, found_statistics, small_model

from entropy_lab.engines.protocol import Request, Sampling
from entropy_lab.engines.shared_prompt_cache import SharedPromptCache
from entropy_lab.engines.transformers import TransformersEngine
from entropy_lab.engines.whole_cache import WholeCache
from entropy_lab.errors import InputError
from entropy_lab.progress import Silent

REQUESTS = [Request("a", (5, 9), 6), Request("b", tuple(range(10, 30)), 7), Request("c", (2,) * 8, 3, prefix_ids=(4,))]
ARCHITECTURES: list[tuple[str, dict[str, Any]]] = [
    ("gemma2", {"sliding_window": 6, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 5.0}),
    ("gemma3_text", {"sliding_window": 6}),
    ("mistral", {"sliding_window": 6}),
    ("qwen3", {"sliding_window": 6, "use_sliding_window": True, "max_window_layers": 1}),
    ("gpt_oss", {"sliding_window": 6, "num_local_experts": 4, "num_experts_per_tok": 2}),
    ("mamba", {}),
    ("bloom", {"n_layer": 2, "n_head": 4}),
    ("lfm2", {"layer_types": ["conv", "full_attention"], "block_ff_dim": 48}),
]


class Notes(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize(("kind", "settings"), ARCHITECTURES, ids=[kind for kind, _ in ARCHITECTURES])
def test_statistics_equal_a_plain_forward_pass(kind: str, settings: dict[str, Any]) -> None:
    """Well past the window, with several rows a request that end at different steps."""
    narrow = kind in ("gpt_oss", "mamba")  # experts and recurrent states compute in float32 at most
    dtype, tolerance = (torch.float32, 1e-4) if narrow else (torch.float64, 2e-6)
    model = small_model(kind, dtype, **settings)
    notes = Notes()
    engine = TransformersEngine(checkpoint_of(model, (1, 7, 20, 33)), 64, notes)
    assert len(notes.notes) == 1
    assert "runs one request at a time" in notes.notes[0]
    sampling = Sampling(max_new_tokens=25)
    batches = engine.partition(REQUESTS, sampling)
    assert [[part.problem_id for part in batch] for batch in batches] == [["a"], ["b"], ["c"]]
    found = list(engine.sample(REQUESTS, sampling))
    assert len(found) == 16
    for trajectory in found:
        prefix = (4,) if trajectory.problem_id == "c" else ()
        expected = expected_statistics(model, trajectory, prefix=prefix)
        assert np.abs(found_statistics(trajectory) - expected).max() < tolerance


@pytest.mark.parametrize(("kind", "reason"), [("rwkv", "take no cache"), ("llama4_text", "hidden states to itself")])
def test_models_out_of_reach_are_refused_in_words(kind: str, reason: str) -> None:
    model = small_model(kind, torch.float32, attention_hidden_size=32, num_local_experts=2)
    with pytest.raises(InputError, match=reason):
        TransformersEngine(checkpoint_of(model), 4)


def test_both_caches_draw_the_same_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model()
    sampling = Sampling(max_new_tokens=25)
    shared = {
        (t.problem_id, t.sample_index): t.token_ids.tolist()
        for t in TransformersEngine(checkpoint_of(model), 64).sample(REQUESTS, sampling)
    }
    engine = TransformersEngine(checkpoint_of(model), 64)
    monkeypatch.setattr(engine, "_shares_prompts", False)
    engine.update_weights(model)
    whole = {(t.problem_id, t.sample_index): t.token_ids.tolist() for t in engine.sample(REQUESTS, sampling)}
    assert whole == shared


def test_a_shared_cache_with_wrong_logits_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check at the start compares with the model's own forward pass, not with expectations of it."""
    attend = SharedPromptCache.attend

    def wrong(self: SharedPromptCache, layer: int, *tensors: torch.Tensor, **rest: Any) -> torch.Tensor:
        return attend(self, layer, *tensors, **rest) * (1.0 + 0.1 * (self._filling is None))

    monkeypatch.setattr(SharedPromptCache, "attend", wrong)
    notes = Notes()
    TransformersEngine(checkpoint_of(small_model()), 4, notes)
    assert "logits differ" in notes.notes[0]


def test_a_model_that_cannot_be_decoded_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    step = WholeCache.step
    monkeypatch.setattr(WholeCache, "step", lambda self, token_R: step(self, token_R) * 1.1)
    with pytest.raises(InputError, match="small: decoding step by step gives other logits"):
        TransformersEngine(checkpoint_of(small_model("mistral", sliding_window=6)), 4)
