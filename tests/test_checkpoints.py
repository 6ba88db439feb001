"""Loading, refusing and saving checkpoints. The hostile ones must each fail in their own words, and fast."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import CHAT_TOKENS, TOKENS, build_checkpoint

from entropy_lab.checkpoints import Checkpoint, builtin_names, load, load_checkpoint, save_checkpoint, source
from entropy_lab.checkpoints.gguf_file import inspect_gguf
from entropy_lab.checkpoints.placement import check_memory, choose_device, choose_dtype
from entropy_lab.checkpoints.weights import Weights, inspect_folder
from entropy_lab.errors import InputError
from entropy_lab.prompts import encode_prompt
from entropy_lab.texts import completion_text


@pytest.fixture
def copy(tiny_checkpoint_folder: Path, tmp_path: Path) -> Path:
    """A copy of the tiny checkpoint to damage."""
    return Path(shutil.copytree(tiny_checkpoint_folder, tmp_path / "copy"))


def edit_json(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, metadata={"format": "pt"})


def shard(folder: Path) -> None:
    """Split model.safetensors in two, as large checkpoints come."""
    tensors = load_file(folder / "model.safetensors")
    names = sorted(tensors)
    weight_map = {}
    for part, chosen in enumerate((names[::2], names[1::2]), 1):
        file = f"model-{part:05}-of-00002.safetensors"
        save_file({name: tensors[name] for name in chosen}, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(chosen, file)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def error_of(name: Path | str, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_checkpoint(str(name), device="cpu", **options)
    return str(caught.value)


# Loading


def test_a_folder_loads_with_its_weights(tiny_checkpoint: Checkpoint, tiny_checkpoint_folder: Path) -> None:
    stored = load_file(tiny_checkpoint_folder / "model.safetensors")
    assert torch.equal(tiny_checkpoint.model.get_output_embeddings().weight, stored["lm_head.weight"])
    assert not tiny_checkpoint.model.training
    assert tiny_checkpoint.dtype == torch.float32
    assert tiny_checkpoint.vocabulary_size == tiny_checkpoint.tokenizer_size == len(TOKENS)
    assert not tiny_checkpoint.has_chat_template
    assert tiny_checkpoint.folder == tiny_checkpoint_folder
    count = sum(tensor.numel() for tensor in stored.values())
    assert tiny_checkpoint.describe() == f"tiny, {count / 1000:.1f} k parameters on cpu, float32"


def test_shards_load_alike_and_have_the_same_fingerprint(copy: Path, tiny_checkpoint: Checkpoint) -> None:
    shard(copy)
    sharded = load_checkpoint(str(copy), device="cpu")
    assert sharded.fingerprint == tiny_checkpoint.fingerprint
    for name, tensor in tiny_checkpoint.model.state_dict().items():
        assert torch.equal(tensor, sharded.model.state_dict()[name])


def test_the_fingerprint_is_of_names_dtypes_shapes_and_bytes(tiny_checkpoint: Checkpoint, copy: Path) -> None:
    total = hashlib.sha256()
    for name, tensor in sorted(load_file(copy / "model.safetensors").items()):
        digest = hashlib.sha256(tensor.numpy().tobytes()).hexdigest()
        total.update(json.dumps([name, "F32", list(tensor.shape), digest]).encode() + b"\n")
    assert tiny_checkpoint.fingerprint == total.hexdigest()


@pytest.mark.parametrize("change", ["bit", "dtype", "name", "shape"])
def test_any_change_of_the_weights_changes_the_fingerprint(
    copy: Path, tiny_checkpoint: Checkpoint, change: str
) -> None:
    def alter(tensors: dict[str, torch.Tensor]) -> None:
        norm = tensors.pop("model.norm.weight")
        tensors["model.norm.weight" if change != "name" else "model.norm2.weight"] = {
            "bit": torch.where(torch.arange(64) == 3, torch.nextafter(norm, norm + 1), norm),
            "dtype": norm.view(torch.int32),
            "name": norm,
            "shape": norm.view(8, 8),
        }[change]

    edit_weights(copy, alter)
    assert inspect_folder(copy, "copy").fingerprint != tiny_checkpoint.fingerprint


def test_what_lies_around_the_weights_leaves_the_fingerprint_alone(copy: Path, tiny_checkpoint: Checkpoint) -> None:
    tensors = load_file(copy / "model.safetensors")
    save_file(tensors, copy / "model.safetensors", metadata={"format": "pt", "note": "other header, other offsets"})
    edit_json(copy / "config.json", use_cache=False)
    moved = copy.rename(copy.with_name("moved"))
    assert inspect_folder(moved, "moved").fingerprint == tiny_checkpoint.fingerprint


def test_import_stays_light() -> None:
    code = "import sys, entropy_lab.checkpoints, entropy_lab.prompts, entropy_lab.texts, entropy_lab.doctor\n"
    code += "assert not {'torch', 'transformers'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_loading_prints_nothing_and_leaves_the_library_as_it_was(copy: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from transformers.utils import logging

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    edit_json(copy / "generation_config.json", temperature=0.3, do_sample=False)
    edit_weights(copy, lambda tensors: tensors.update({"v_head.summary.weight": torch.ones(1, 64)}))
    save_checkpoint(
        load_checkpoint(str(copy), device="cpu").model, load_checkpoint(str(copy)).tokenizer, copy / "again"
    )
    assert capfd.readouterr() == ("", "")
    assert before == (logging.get_verbosity(), logging.is_progress_bar_enabled())


# What a checkpoint says of itself


def test_all_end_tokens_are_found(tmp_path: Path) -> None:
    tokens = [*TOKENS, *CHAT_TOKENS]
    turn_end = tokens.index("<|im_end|>")
    template = "{% for m in messages %}<|im_start|> {{ m['content'] }} <|im_end|>\n{% endfor %}"
    folder = build_checkpoint(tmp_path / "ends", tokens=tokens, template=template, eos_token_id=5)
    edit_json(folder / "generation_config.json", eos_token_id=[6, 7, 99999])
    # tokenizer 1, config 5, generation_config 6 and 7, template's turn end; 99999 is no token
    assert load_checkpoint(str(folder), device="cpu").end_ids == (1, 5, 6, 7, turn_end)


def test_a_template_that_cannot_render_does_not_stop_loading(tmp_path: Path) -> None:
    folder = build_checkpoint(tmp_path / "raises", template="{{ raise_exception('no') }}")
    assert load_checkpoint(str(folder), device="cpu").end_ids == (1,)


def test_sampling_defaults_are_recorded(copy: Path) -> None:
    """S2: generation_config silently changes the sampling."""
    edit_json(copy / "generation_config.json", temperature=0.6, top_k=20, do_sample=True, pad_token_id=0)
    assert load_checkpoint(str(copy), device="cpu").generation_defaults == {
        "do_sample": True,
        "temperature": 0.6,
        "top_k": 20,
    }


def test_padded_head_rows_are_fine(tmp_path: Path) -> None:
    checkpoint = load_checkpoint(str(build_checkpoint(tmp_path / "padded", vocab_size=128)), device="cpu")
    assert (checkpoint.vocabulary_size, checkpoint.tokenizer_size) == (128, len(TOKENS))


def test_known_leftovers_are_fine(copy: Path, tiny_checkpoint: Checkpoint) -> None:
    def leave(tensors: dict[str, torch.Tensor]) -> None:
        tensors["v_head.summary.weight"] = torch.ones(1, 64)
        tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(16)

    edit_weights(copy, leave)
    loaded = load_checkpoint(str(copy), device="cpu")
    assert loaded.fingerprint != tiny_checkpoint.fingerprint
    assert torch.equal(loaded.model.lm_head.weight, tiny_checkpoint.model.lm_head.weight)


# Hostile checkpoints

HOSTILE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no config": (lambda folder: (folder / "config.json").unlink(), r"has no config\.json; give the folder"),
    "config not JSON": (lambda folder: (folder / "config.json").write_text("{"), r"config\.json is not valid JSON"),
    "config a list": (lambda folder: (folder / "config.json").write_text("[1]"), r"config\.json holds a JSON list"),
    "config too deep": (lambda folder: (folder / "config.json").write_text("[" * 100000), r"is not valid JSON"),
    "no model type": (lambda folder: (folder / "config.json").write_text("{}"), r"has no model_type"),
    "unknown model type": (
        lambda folder: edit_json(folder / "config.json", model_type="llama99"),
        r"configuration cannot be loaded .*llama99",
    ),
    "not causal": (lambda folder: edit_json(folder / "config.json", model_type="t5"), r"is a t5 model, not a causal"),
    "own code": (
        lambda folder: edit_json(folder / "config.json", model_type="mine", auto_map={"AutoConfig": "mine.Config"}),
        r"model code of its own .*trust_remote_code",
    ),
    "weights moved": (
        lambda folder: edit_json(folder / "config.json", transformers_weights="other.safetensors"),
        r"moves the weights to 'other\.safetensors'",
    ),
    "adapter": (lambda folder: (folder / "adapter_config.json").write_text("{}"), r"is an adapter .*merge it"),
    "no tokenizer": (
        lambda folder: [path.unlink() for path in folder.glob("tokenizer*")],
        r"has no tokenizer \(looked for tokenizer\.json",
    ),
    "corrupt tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text('{"model": 1}'),
        r"its tokenizer cannot be loaded",
    ),
    "no weights": (lambda folder: (folder / "model.safetensors").unlink(), r"holds no weights"),
    "stray weights": (
        lambda folder: (folder / "model.safetensors").rename(folder / "weights.safetensors"),
        r"has weights\.safetensors but neither",
    ),
    "pickle": (
        lambda folder: (folder / "model.safetensors").rename(folder / "pytorch_model.bin"),
        r"as a pickle \(pytorch_model\.bin\), .*convert it to safetensors",
    ),
    "git-lfs pointer": (
        lambda folder: (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n"),
        r"git-lfs pointer",
    ),
    "empty weights": (lambda folder: (folder / "model.safetensors").write_bytes(b""), r"truncated or corrupt: 0 bytes"),
    "absurd header length": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"\xff" * 64),
        r"truncated or corrupt: 64 bytes",
    ),
    "header not JSON": (
        lambda folder: (folder / "model.safetensors").write_bytes((4).to_bytes(8, "little") + b"nope"),
        r"corrupt header",
    ),
    "overlapping tensors": (
        lambda folder: write_raw(folder, {"a": ("F32", [1], 0, 4), "b": ("F32", [1], 0, 4)}, 4),
        r"is corrupt",
    ),
    "shape against bytes": (lambda folder: write_raw(folder, {"a": ("F32", [9], 0, 4)}, 4), r"is corrupt"),
    "missing tensor": (
        lambda folder: edit_weights(folder, lambda tensors: tensors.pop("model.norm.weight")),
        r"do not match its config\.json: 1 missing \(model\.norm\.weight\)",
    ),
    "extra layer": (
        lambda folder: edit_weights(folder, lambda t: t.update({"model.layers.2.mlp.up_proj.weight": torch.ones(2)})),
        r"1 unknown to the model \(model\.layers\.2\.mlp\.up_proj\.weight\)",
    ),
    "other size": (
        lambda folder: edit_json(folder / "config.json", intermediate_size=64),
        r"6 of another shape \(model\.layers\.0\.mlp\.down_proj\.weight \(64, 128\) for \(64, 64\)",
    ),
    "NaN weights": (
        lambda folder: edit_weights(folder, lambda tensors: tensors["model.norm.weight"].fill_(torch.nan)),
        r"model\.norm\.weight holds NaN",
    ),
    "tokenizer larger than the model": (
        lambda folder: build_checkpoint(folder, tokens=TOKENS, vocab_size=40),
        r"ids up to \d+, its model only 40 embedding rows",
    ),
}


def write_raw(folder: Path, tensors: dict[str, tuple[str, list[int], int, int]], data: int) -> None:
    header = json.dumps(
        {n: {"dtype": d, "shape": s, "data_offsets": [begin, end]} for n, (d, s, begin, end) in tensors.items()}
    ).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(data))


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_folders_are_refused_in_their_own_words(copy: Path, kind: str) -> None:
    damage, words = HOSTILE[kind]
    damage(copy)
    message = error_of(copy)
    assert re.search(words, message), message
    assert "copy" in message  # names the place


@pytest.mark.parametrize("cut", [1, 100, 5000, "header"])
def test_truncated_weights_are_refused(copy: Path, cut: int | str) -> None:
    path = copy / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:20] if cut == "header" else content[: -int(cut)])
    assert "truncated" in error_of(copy)


def test_shards_must_be_whole_and_inside_the_folder(copy: Path) -> None:
    shard(copy)
    index = copy / "model.safetensors.index.json"
    content = json.loads(index.read_text())
    second = copy / "model-00002-of-00002.safetensors"

    edit_json(index, weight_map=content["weight_map"] | {"x": "../tiny/model.safetensors"})
    assert "a .safetensors file of the same folder" in error_of(copy)
    edit_json(index, weight_map=content["weight_map"] | {"x": second.name})
    assert f"{second.name} lacks the tensor x" in error_of(copy)
    edit_json(index, weight_map=[])
    assert "does not name a file for each tensor" in error_of(copy)
    index.write_text("[]")
    assert "is not an index of shards" in error_of(copy)
    index.write_text(json.dumps(content))
    first = copy / "model-00001-of-00002.safetensors"
    whole = second.read_bytes()
    shutil.copy(first, second)
    assert "in more than one shard" in error_of(copy)
    second.write_bytes(whole[:-1])
    assert "truncated" in error_of(copy)
    second.unlink()
    assert f"lacks the shard {second.name}, one of 2" in error_of(copy)


def test_native_models_load_although_they_bring_code(copy: Path) -> None:
    """Older repositories carry code for models that transformers has itself; that code is not needed, nor run."""
    edit_json(copy / "config.json", auto_map={"AutoModelForCausalLM": "evil.Model"})
    (copy / "evil.py").write_text("raise SystemExit('ran')")
    assert load_checkpoint(str(copy), device="cpu").end_ids == (1,)


def test_an_outer_folder_names_what_is_in_it(copy: Path) -> None:
    message = error_of(copy.parent)
    assert f"name one of the checkpoints in it: {copy}" in message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "name is empty"),
        ("./nowhere", "no such file or folder"),
        ("/nowhere/at/all", "no such file or folder"),
        ("~nobody-here/model", "no such file or folder"),
        ("nowhere.gguf", "no such file or folder"),
        ("a/b/c", "no such file or folder"),
        ("x" * 5000, "cannot be looked up"),
        ("not an id!", "neither a file, a folder nor a possible hub id"),
        ("zero\0byte", "neither a file, a folder nor a possible hub id"),
    ],
)
def test_names_of_nothing(name: str, words: str) -> None:
    assert words in error_of(name)


def test_single_files_are_refused(copy: Path) -> None:
    assert "give the folder" in error_of(copy / "model.safetensors")
    pickle = copy / "model.pt"
    pickle.write_bytes(b"\x80\x02.")
    assert "is a pickle" in error_of(pickle)


def test_builtin_rungs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_checkpoint_folder: Path) -> None:
    monkeypatch.setattr(source, "builtin_folder", lambda: tmp_path)
    assert "holds no built-in checkpoints" in error_of("builtin:small")
    for rung in ("base", "sharp"):
        shutil.copytree(tiny_checkpoint_folder, tmp_path / rung)
    assert builtin_names() == ["base", "sharp"]
    assert "'sharpe'; available: base, sharp; did you mean builtin:sharp?" in error_of("builtin:sharpe")
    assert "available: base, sharp" in error_of("builtin:../base")
    loaded = load_checkpoint("builtin:base", device="cpu")
    assert loaded.describe().startswith("builtin:base, ")


# The hub


def test_no_network_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise ConnectionError("Name or service not known")

    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", refuse)
    message = error_of("someone/some-model")
    assert "no file or folder someone/some-model, and the hub could not be reached" in message
    assert "Name or service not known" in message


def test_a_hub_without_safetensors_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from huggingface_hub.hf_api import ModelInfo

    siblings = [{"rfilename": "config.json"}, {"rfilename": "pytorch_model.bin"}]
    info = ModelInfo(id="someone/old", siblings=siblings, tags=[], downloads=0, likes=0, private=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.HfApi.model_info", lambda *_, **__: info)
    assert "someone/old has no safetensors weights on the hub" in error_of("someone/old")


def test_a_cached_hub_model_needs_no_network(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tiny_checkpoint_folder: Path, tiny_checkpoint: Checkpoint
) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, local_files_only: str(tiny_checkpoint_folder))
    loaded = load_checkpoint("someone/tiny-model", device="cpu")
    assert loaded.fingerprint == tiny_checkpoint.fingerprint
    assert loaded.describe().startswith("tiny-model, ")


# Device, dtype, memory


def test_device_and_dtype() -> None:
    cpu, cuda = torch.device("cpu"), torch.device("cuda")
    assert choose_dtype("auto", cpu, sixteen_bit=True) == torch.float32
    assert choose_dtype("auto", cuda, sixteen_bit=True) == torch.bfloat16
    assert choose_dtype("auto", cuda, sixteen_bit=False) == torch.float32
    assert choose_dtype("float16", cpu, sixteen_bit=False) == torch.float16
    with pytest.raises(InputError, match="dtype 'int8' is not offered"):
        choose_dtype("int8", cpu, sixteen_bit=False)
    with pytest.raises(InputError, match="is not a device"):
        choose_device("gpu please")
    with pytest.raises(InputError, match="torch sees"):
        choose_device("cuda:77")


def test_an_asked_dtype_is_loaded(copy: Path) -> None:
    loaded = load_checkpoint(str(copy), device="cpu", dtype="bfloat16")
    assert loaded.dtype == loaded.model.dtype == torch.bfloat16
    assert loaded.describe().endswith("on cpu, bfloat16")


def test_weights_beyond_the_memory_are_refused_before_loading() -> None:
    huge = Weights(parameters=10**15, sixteen_bit=True, fingerprint="")
    with pytest.raises(InputError, match=r"needs 3725290\.3 GiB .* in float32"):
        check_memory("huge", huge, torch.device("cpu"), torch.float32)


def test_a_device_that_runs_full_is_named() -> None:
    with pytest.raises(InputError, match="big does not fit into memory"), load._naming("big", "model"):
        raise torch.OutOfMemoryError("CUDA out of memory")


def test_sixteen_bit_weights_are_seen(copy: Path) -> None:
    assert not inspect_folder(copy, "copy").sixteen_bit
    edit_weights(copy, lambda tensors: tensors.update({name: t.half() for name, t in tensors.items() if t.ndim == 2}))
    seen = inspect_folder(copy, "copy")
    assert seen.sixteen_bit
    assert seen.parameters == load_checkpoint(str(copy), device="cpu").model.num_parameters()


# Saving


def test_saved_and_loaded_again_is_the_same(tiny_checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = save_checkpoint(tiny_checkpoint.model, tiny_checkpoint.tokenizer, tmp_path / "deep" / "again")
    again = load_checkpoint(str(folder), device="cpu")
    assert again.fingerprint == tiny_checkpoint.fingerprint
    assert again.end_ids == tiny_checkpoint.end_ids
    assert again.tokenizer.get_vocab() == tiny_checkpoint.tokenizer.get_vocab()
    assert [path.name for path in folder.parent.iterdir()] == ["again"]


def test_saving_in_another_dtype_keeps_ties(tmp_path: Path) -> None:
    tied = load_checkpoint(str(build_checkpoint(tmp_path / "tied", tie_word_embeddings=True)), device="cpu")
    folder = save_checkpoint(tied.model, tied.tokenizer, tmp_path / "half", torch.bfloat16)
    stored = load_file(folder / "model.safetensors")
    assert "lm_head.weight" not in stored
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    assert json.loads((folder / "config.json").read_text())["dtype"] == "bfloat16"
    assert tied.model.dtype == torch.float32
    again = load_checkpoint(str(folder), device="cpu").model
    assert again.lm_head.weight.data_ptr() == again.model.embed_tokens.weight.data_ptr()
    assert torch.equal(again.lm_head.weight, tied.model.lm_head.weight.bfloat16().float())


def test_saving_replaces_its_own_but_never_other_files(tiny_checkpoint: Checkpoint, tmp_path: Path) -> None:
    folder = tmp_path / "latest"
    for _ in range(2):
        save_checkpoint(tiny_checkpoint.model, tiny_checkpoint.tokenizer, folder)
    (folder / "notes.md").write_text("mine")
    with pytest.raises(InputError, match=r"holds notes\.md, which saving would delete"):
        save_checkpoint(tiny_checkpoint.model, tiny_checkpoint.tokenizer, folder)
    assert (folder / "notes.md").read_text() == "mine"
    assert inspect_folder(folder, "latest").fingerprint == tiny_checkpoint.fingerprint
    with pytest.raises(InputError, match="is a file"):
        save_checkpoint(tiny_checkpoint.model, tiny_checkpoint.tokenizer, folder / "notes.md")


def test_a_failed_save_leaves_nothing_and_keeps_the_old(
    tiny_checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save_checkpoint(tiny_checkpoint.model, tiny_checkpoint.tokenizer, tmp_path / "latest")

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(type(tiny_checkpoint.tokenizer), "save_pretrained", fail)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(tiny_checkpoint.model, tiny_checkpoint.tokenizer, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["latest"]
    assert inspect_folder(folder, "latest").fingerprint == tiny_checkpoint.fingerprint


# GGUF


@pytest.fixture(scope="module")
def small_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole file with every kind of metadata and two tensors; not a model."""
    import gguf

    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("tokenizer.ggml.tokens", ["a", "bb", "ccc"])
    writer.add_array("tokenizer.ggml.scores", [0.5, 1.5])
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_bool("some.flag", True)
    writer.add_tensor("token_embd.weight", np.ones((8, 32), np.float16))
    writer.add_tensor("output_norm.weight", np.ones(32, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_whole_gguf_is_fingerprinted_by_its_content(small_gguf: Path, tmp_path: Path) -> None:
    seen = inspect_gguf(Path(shutil.copy(small_gguf, tmp_path / "renamed.gguf")))
    content = small_gguf.read_bytes()
    assert seen == Weights(8 * 32 + 32, sixteen_bit=True, fingerprint=hashlib.sha256(content).hexdigest())


def test_every_truncation_of_a_gguf_is_refused(small_gguf: Path, tmp_path: Path) -> None:
    """At whatever byte a download stopped, short of the padding after the last tensor."""
    content, cut = small_gguf.read_bytes(), tmp_path / "cut.gguf"
    for length in (*range(0, 700, 7), len(content) - 1):
        cut.write_bytes(content[:length])
        with pytest.raises(InputError, match=r"cut\.gguf is (truncated|not a GGUF file)"):
            inspect_gguf(cut)


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (b"PK\x03\x04" + bytes(60), "does not start with GGUF"),
        (b"version https://git-lfs", "git-lfs pointer"),
        (b"GGUF" + (9).to_bytes(4, "little") + bytes(60), "version 9"),
        (b"GGUF" + (3).to_bytes(4, "big") + bytes(60), "version 50331648"),
        (b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 60, "truncated"),
    ],
)
def test_files_that_only_look_like_gguf(tmp_path: Path, start: bytes, words: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(start)
    assert words in error_of(path)


def test_one_part_of_a_split_gguf_is_refused(tmp_path: Path) -> None:
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "part.gguf", "llama")
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    assert "one part of 3; join them" in error_of(tmp_path / "part.gguf")


def test_a_gguf_that_is_no_model_is_refused(small_gguf: Path) -> None:
    assert "its tokenizer cannot be loaded" in error_of(small_gguf)


def test_smollm2_answers(smollm2: Checkpoint) -> None:
    """A real GGUF: loads whole, knows its end token, is prompted in both modes and answers."""
    assert smollm2.describe() == "SmolLM2-135M-Instruct.Q4_1, 135 M parameters on cpu, float32"
    assert (smollm2.vocabulary_size, smollm2.tokenizer_size, smollm2.end_ids) == (49152, 49152, (2,))
    assert smollm2.folder is None

    messages = [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}]
    prompt = encode_prompt(smollm2, messages, "auto")
    assert list(prompt) == smollm2.tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert list(encode_prompt(smollm2, messages, "raw")) == smollm2.tokenizer(messages[0]["content"])["input_ids"]
    with torch.no_grad():
        written = smollm2.model.generate(torch.tensor([prompt]), do_sample=False, max_new_tokens=12)[0, len(prompt) :]
    assert completion_text(smollm2.tokenizer, written.tolist(), smollm2.end_ids) == "The capital of France is Paris."


def test_smollm2_becomes_a_folder(smollm2: Checkpoint, tmp_path: Path) -> None:
    """What is trained from a GGUF must be able to be saved."""
    again = load_checkpoint(str(save_checkpoint(smollm2.model, smollm2.tokenizer, tmp_path / "s", torch.bfloat16)))
    assert again.end_ids == smollm2.end_ids
    assert again.tokenizer.chat_template == smollm2.tokenizer.chat_template
    assert again.tokenizer.get_vocab() == smollm2.tokenizer.get_vocab()
    for name, tensor in smollm2.model.named_parameters():
        assert torch.equal(again.model.get_parameter(name).float(), tensor.bfloat16().float())


def test_loading_a_gguf_prints_nothing(small_gguf: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import gguf

    before = gguf.GGUFReader, gguf.get_tensor_name_map
    error_of(small_gguf)
    assert capfd.readouterr() == ("", "")
    assert before == (gguf.GGUFReader, gguf.get_tensor_name_map)
