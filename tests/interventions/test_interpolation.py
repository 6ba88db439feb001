import filecmp
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, Gemma2Config, GPT2Config, LlamaConfig, Qwen2Config

from entropy_lab.checkpoints import load_checkpoint
from entropy_lab.checkpoints.quiet import quiet_libraries
from entropy_lab.checkpoints.source import find_source
from entropy_lab.checkpoints.weights import read_header, weight_files
from entropy_lab.errors import InputError
from entropy_lab.interventions import interpolation
from entropy_lab.interventions.checkpoint_pair import Cell, open_pair
from entropy_lab.interventions.interpolation import write_cell
from tests.tiny import TOKENS

SIZES = {
    "vocab_size": len(TOKENS),
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": None,
    "eos_token_id": 1,
}


def llama(**changes):
    return LlamaConfig(**(SIZES | changes))


def gpt2():
    sizes = {"n_embd": 32, "n_layer": 3, "n_head": 2, "n_positions": 64, "bos_token_id": None, "eos_token_id": 1}
    return GPT2Config(vocab_size=len(TOKENS), **sizes)


@pytest.fixture
def make(tmp_path, tiny_checkpoint_folder):
    def make(name: str, seed: int, config=None, dtype=torch.float32, shard="5GB") -> Path:
        folder = tmp_path / name
        with torch.random.fork_rng(devices=[]), quiet_libraries():
            torch.manual_seed(seed)
            model = AutoModelForCausalLM.from_config(config or llama(tie_word_embeddings=False))
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(0.3 * torch.randn_like(parameter))
            model.to(dtype).save_pretrained(folder, max_shard_size=shard)
        for file in tiny_checkpoint_folder.glob("tokenizer*"):
            shutil.copy(file, folder)
        return folder

    return make


@pytest.fixture
def both(make):
    return make("early", 1), make("late", 2)


def cell_of(early: Path, late: Path, layers, alpha: float, out: str = "out") -> Path:
    return write_cell(open_pair(str(early), str(late)), Cell(layers, alpha), early.parent / out)


def stored(folder: Path) -> dict[str, torch.Tensor]:
    return {name: tensor for file in weight_files(folder, "x") for name, tensor in load_file(file).items()}


def logits(model) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=torch.arange(3, 15).unsqueeze(0)).logits


def oracle(early: Path, late: Path, layers, alpha: float) -> torch.nn.Module:
    """Late with the state of both mixed in torch, whole models in memory."""
    with quiet_libraries():
        first, second = (AutoModelForCausalLM.from_pretrained(folder, dtype="auto") for folder in (early, late))
    begin, end = layers or (0, 0)
    mixed, state = {}, first.state_dict()
    for name, tensor in second.state_dict().items():
        parts = name.split(".")
        number = next((int(part) for part in parts if part.isdecimal()), None)
        inside = layers is None or (number is not None and begin <= number < end)
        new = (1 - alpha) * tensor.float() + alpha * state[name].float()
        mixed[name] = new.to(tensor.dtype) if inside else tensor
    second.load_state_dict(mixed)
    return second.float().eval()


@pytest.mark.parametrize("layers", [(1, 3), (0, 1), None])
@pytest.mark.parametrize(
    ("config", "dtype", "early_dtype", "shard"),
    [
        (llama(tie_word_embeddings=False), torch.float32, torch.float32, "5GB"),
        (llama(tie_word_embeddings=True), torch.bfloat16, torch.float32, "20KB"),
        (Qwen2Config(**SIZES, tie_word_embeddings=True), torch.float16, torch.float16, "5GB"),
        (Gemma2Config(**SIZES), torch.float32, torch.bfloat16, "30KB"),
        (gpt2(), torch.float16, torch.bfloat16, "40KB"),
    ],
    ids=["llama", "llama-tied-sharded-bf16", "qwen2-fp16", "gemma2-sharded", "gpt2-sharded"],
)
def test_equals_a_state_dict_mixed_in_torch(make, config, dtype, early_dtype, shard, layers):
    early, late = make("early", 1, config, early_dtype), make("late", 2, config, dtype, shard)
    found = cell_of(early, late, layers, 0.3)
    expected = logits(oracle(early, late, layers, 0.3))
    with quiet_libraries():
        plain = AutoModelForCausalLM.from_pretrained(found, dtype=torch.float32)
    assert torch.equal(logits(plain.eval()), expected)
    assert torch.equal(logits(load_checkpoint(found, device="cpu", dtype="float32").model), expected)
    assert not torch.equal(logits(load_checkpoint(late, device="cpu", dtype="float32").model), expected)
    assert {path.name for path in found.iterdir()} == {path.name for path in late.iterdir()}
    for name in (path.name for path in late.iterdir() if path.suffix != ".safetensors"):
        assert filecmp.cmp(late / name, found / name, shallow=False)
    layout = [
        [(t.name, t.dtype, t.shape, t.path.name, t.start) for f in weight_files(folder, "x") for t in read_header(f)]
        for folder in (late, found)
    ]
    assert layout[0] == layout[1]
    assert (len(weight_files(found, "x")) > 1) == (shard != "5GB")


def test_at_zero_late_and_at_one_early_exactly(make):
    early, late = make("early", 1, dtype=torch.bfloat16), make("late", 2, dtype=torch.bfloat16)
    tensors = stored(late)
    tensors["model.layers.0.input_layernorm.weight"][0] = -0.0  # a product with 0 would lose the sign
    save_file(tensors, late / "model.safetensors", metadata={"format": "pt", "made": "by hand"})
    for layers in ((0, 2), None):
        zero = cell_of(early, late, layers, 0.0)
        assert filecmp.cmp(zero / "model.safetensors", late / "model.safetensors", shallow=False)
    one = stored(cell_of(early, late, (1, 3), 1.0))
    first, second = stored(early), stored(late)
    for name, tensor in one.items():
        inside = "layers.1." in name or "layers.2." in name
        assert torch.equal(tensor, first[name] if inside else second[name])
    assert not filecmp.cmp(late / "model.safetensors", early / "model.safetensors", shallow=False)
    whole = stored(cell_of(early, late, None, 1.0))
    assert all(torch.equal(whole[name], first[name]) for name in first)


def test_float64_keeps_its_precision(make):
    early, late = make("early", 1, dtype=torch.float64), make("late", 2, dtype=torch.float64)
    first, second = stored(early), stored(late)
    name = "model.layers.1.mlp.up_proj.weight"
    expected = 0.7 * second[name].numpy() + 0.3 * first[name].numpy()
    np.testing.assert_allclose(stored(cell_of(early, late, (1, 2), 0.3))[name].numpy(), expected, rtol=1e-15)


def test_the_size_of_a_chunk_changes_nothing(both, monkeypatch):
    whole = cell_of(*both, (0, 2), 0.6)
    monkeypatch.setattr(interpolation, "CHUNK", 7)
    small = cell_of(*both, (0, 2), 0.6, "small")
    assert filecmp.cmp(whole / "model.safetensors", small / "model.safetensors", shallow=False)


def test_a_tied_head_that_one_side_stores_is_no_difference(make):
    config = llama(tie_word_embeddings=True)
    early, late = make("early", 1, config), make("late", 2, config)
    expected = [logits(oracle(early, late, layers, 0.3)) for layers in ((1, 3), None)]
    for holder in (early, late):
        tensors = stored(holder)
        with_head = tensors | {"lm_head.weight": tensors["model.embed_tokens.weight"].clone()}
        save_file(with_head, holder / "model.safetensors", metadata={"format": "pt"})
        for layers, values in zip(((1, 3), None), expected, strict=True):
            found = cell_of(early, late, layers, 0.3)
            assert ("lm_head.weight" in stored(found)) == (holder == late)
            assert torch.equal(logits(load_checkpoint(found, device="cpu").model), values)
            if holder == late:
                mixed = stored(found)
                assert torch.equal(mixed["lm_head.weight"], mixed["model.embed_tokens.weight"])
        save_file(tensors, holder / "model.safetensors", metadata={"format": "pt"})


def test_files_beside_the_weights_come_along_but_no_other_weights(both):
    early, late = both
    kept = {"README.md", "chat_template.jinja", "preprocessor_config.json", "tokenizer.model"}
    dropped = {"optimizer.pt", "training_args.bin", "old.safetensors", "model.gguf", "pytorch_model.bin.index.json"}
    for name in kept | dropped:
        (late / name).write_text("{}")
    (late / "checkpoint-5").mkdir()
    (late / "additional_chat_templates").mkdir()
    (late / "additional_chat_templates" / "tools.jinja").write_text("x")
    before = {path.name for path in early.iterdir()}
    found = cell_of(early, late, (0, 1), 0.5)
    assert {path.name for path in found.iterdir()} == before | kept | {"additional_chat_templates"}
    assert (found / "additional_chat_templates" / "tools.jinja").read_text() == "x"


def test_the_embedded_ladder_interpolates(tmp_path):
    found = write_cell(open_pair("builtin:sft-early", "builtin:sft"), Cell((2, 4), 0.6), tmp_path / "cell")
    early, late = (find_source(name).path for name in ("builtin:sft-early", "builtin:sft"))
    expected = logits(oracle(early, late, (2, 4), 0.6))
    assert torch.equal(logits(load_checkpoint(found, device="cpu", dtype="float32").model), expected)


@pytest.mark.parametrize("layers", [(2, 2), (2, 1), (-1, 2)])
def test_empty_blocks_are_refused(layers):
    with pytest.raises(InputError, match="START:STOP"):
        Cell(layers, 0.5)


@pytest.mark.parametrize("alpha", [float("nan"), float("inf"), -0.1, 1.01])
def test_alpha_is_a_number_from_zero_to_one(alpha):
    with pytest.raises(InputError, match="--alpha"):
        Cell((0, 1), alpha)


def test_names_of_cells():
    assert [Cell((2, 4), 0.30).name, Cell(None, 1.0).name, Cell((0, 2), 0.125).name] == [
        *("2:4 @ 0.3", "global @ 1", "0:2 @ 0.125"),
    ]


def test_blocks_that_the_model_does_not_have_are_refused(both):
    with pytest.raises(InputError, match="has 3 layers, so 0:3"):
        cell_of(*both, (1, 4), 0.5)


def renamed(folder: Path, old: str, new: str) -> None:
    tensors = {name.replace(old, new): tensor for name, tensor in stored(folder).items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def test_layers_are_told_from_names_or_refused(both):
    for folder in both:
        renamed(folder, "model.layers.", "model.stage_")
    with pytest.raises(InputError, match=r"no \.layers\.N"):
        cell_of(*both, (0, 1), 0.5)
    assert cell_of(*both, None, 0.5).is_dir()
    for folder in both:
        tensors = stored(folder)
        tensors |= {f"{stack}.layers.0.w": torch.ones(2) for stack in ("vision", "text")}
        save_file(tensors, folder / "model.safetensors")
    with pytest.raises(InputError, match=r"several stacks \(text\.layers\., vision\.layers\.\)"):
        cell_of(*both, (0, 1), 0.5)
    for folder, value in zip(both, (0.0, 1.0), strict=True):
        save_file({"text.layers.1.w": torch.full((2,), value)}, folder / "model.safetensors")
    with pytest.raises(InputError, match="but not of all layers"):
        cell_of(*both, (0, 1), 0.5)


def test_checkpoints_that_do_not_fit_are_refused(make, chat_checkpoint_folder):
    late = make("late", 2)
    differing = {
        "num_hidden_layers": llama(num_hidden_layers=4),
        "hidden_size": llama(hidden_size=64),
        "num_attention_heads": llama(num_attention_heads=4),
        "rope_parameters": llama(rope_parameters={"rope_type": "default", "rope_theta": 5e5}),
        "tie_word_embeddings": llama(tie_word_embeddings=True),
        "model_type": Qwen2Config(**SIZES),
    }
    for field, config in differing.items():
        config.tie_word_embeddings = field == "tie_word_embeddings"
        early = make(field, 1, config)
        with pytest.raises(InputError, match=f"differ in {field} "):
            open_pair(str(early), str(late))
    early = make("wide", 1, llama(intermediate_size=64, tie_word_embeddings=False))
    with pytest.raises(InputError, match=r"layers\.0\.mlp\.down_proj\.weight has shape \(32, 64\)"):
        open_pair(str(early), str(late))
    early = make("biased", 1, llama(mlp_bias=True, tie_word_embeddings=False))
    with pytest.raises(InputError, match=r"the tensor model\.layers\.0\.mlp\.down_proj\.bias, .*late does not"):
        open_pair(str(early), str(late))
    early = make("chat", 1)
    shutil.copy(chat_checkpoint_folder / "tokenizer.json", early)
    with pytest.raises(
        InputError, match=rf"different vocabularies \(token '<\|im_end\|>' is {len(TOKENS) + 1} and None\)"
    ):
        open_pair(str(early), str(late))


def test_the_same_weights_twice_are_refused(both):
    with pytest.raises(InputError, match="same weights"):
        open_pair(str(both[0]), str(both[0]))
    with pytest.raises(InputError, match="same weights"):
        open_pair("builtin:sft", "builtin:sft")


def test_gguf_is_refused_with_the_remedy(both, tmp_path):
    (tmp_path / "packed.gguf").write_bytes(b"GGUF")
    with pytest.raises(InputError, match=r"packed\.gguf is a GGUF file.*safetensors"):
        open_pair(str(tmp_path / "packed.gguf"), str(both[1]))


def test_packed_integers_are_interpolated_only_where_equal(both):
    early, late = both
    for folder, value in ((early, 1), (late, 1)):
        tensors = stored(folder) | {"model.layers.1.mask": torch.full((4,), value, dtype=torch.int32)}
        save_file(tensors, folder / "model.safetensors")
    assert "model.layers.1.mask" in stored(cell_of(early, late, (1, 2), 0.5))
    save_file(stored(early) | {"model.layers.1.mask": torch.zeros(4, dtype=torch.int32)}, early / "model.safetensors")
    assert cell_of(early, late, (0, 1), 0.5, "elsewhere").is_dir()
    with pytest.raises(InputError, match=r"layers\.1\.mask is stored as I32.*not\s+quantised"):
        cell_of(early, late, (1, 2), 0.5, "there")


@pytest.mark.parametrize(
    ("side", "name", "value"),
    [
        ("early", "model.layers.1.mlp.up_proj.weight", float("nan")),
        ("late", "model.layers.1.mlp.up_proj.weight", float("inf")),
        ("late", "model.norm.weight", float("nan")),
    ],
)
def test_weights_that_are_not_finite_leave_nothing_behind(both, side, name, value):
    folder = both[side == "late"]
    tensors = stored(folder)
    tensors[name].view(-1)[3] = value
    save_file(tensors, folder / "model.safetensors")
    before = sorted(path.name for path in folder.parent.iterdir())
    with pytest.raises(InputError, match=f"{side}: {name} holds NaN or infinity"):
        cell_of(*both, (1, 2), 0.5)
    assert sorted(path.name for path in folder.parent.iterdir()) == before


def test_early_values_too_large_for_the_late_type_are_refused(make):
    early, late = make("early", 1), make("late", 2, dtype=torch.float16)
    tensors = stored(early)
    tensors["model.layers.0.mlp.up_proj.weight"][0, 0] = 1e6
    save_file(tensors, early / "model.safetensors")
    with pytest.raises(InputError, match="cast to F16"):
        cell_of(early, late, (0, 1), 0.5)


def test_folders_with_anything_else_in_them_are_kept(both, tmp_path):
    early, late = both
    pair, cell = open_pair(str(early), str(late)), Cell((0, 1), 0.5)
    for source in both:
        with pytest.raises(InputError, match="would be overwritten"):
            write_cell(pair, cell, source)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(InputError, match=r"notes\.txt"):
        write_cell(pair, cell, tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"
    with pytest.raises(InputError, match="is a file"):
        write_cell(pair, cell, tmp_path / "mine" / "notes.txt")
    with pytest.raises(InputError, match="cannot be written"):
        write_cell(pair, cell, tmp_path / "mine" / "notes.txt" / "inside")
    first = write_cell(pair, cell, tmp_path / "again")
    before = (first / "model.safetensors").read_bytes()
    write_cell(pair, Cell((0, 1), 0.9), first)
    assert (first / "model.safetensors").read_bytes() != before
    assert not list(tmp_path.glob(".*"))


def test_a_late_folder_with_a_broken_index_is_refused(make):
    early, late = make("early", 1), make("late", 2, shard="20KB")
    index = json.loads((late / "model.safetensors.index.json").read_text())
    (late / next(iter(index["weight_map"].values()))).unlink()
    with pytest.raises(InputError, match="lacks the shard"):
        open_pair(str(early), str(late))
