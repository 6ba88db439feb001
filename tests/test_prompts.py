"""Prompts: built once, one BOS, no end token, the same on every day."""

import dataclasses
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tiny import TOKENS, build_checkpoint
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from entropy_lab.checkpoints import Checkpoint, load_checkpoint
from entropy_lab.errors import InputError
from entropy_lab.prompts import encode_prompt, prompt_mode

MESSAGES = [{"role": "system", "content": "use each once"}, {"role": "user", "content": "reach 7 with 3 4"}]
VOCABULARY = {token: index for index, token in enumerate(["<s>", "</s>", "<unk>", "[x]", "<turn>", "a", "b", "user"])}


def special_checkpoint(processor: str, template: str | None) -> Checkpoint:
    """A checkpoint of a tokenizer alone, whose post-processor puts special tokens around a text."""
    backend = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(
        single=processor, special_tokens=[(token, VOCABULARY[token]) for token in ("<s>", "</s>", "[x]")]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        additional_special_tokens=["[x]", "<turn>"],
        chat_template=template,
    )
    stub: Any = SimpleNamespace(
        name="special",
        tokenizer=tokenizer,
        has_chat_template=template is not None,
        vocabulary_size=len(VOCABULARY),
    )
    return stub


def encode(checkpoint: Checkpoint, text: str, mode: str = "auto") -> str:
    ids = encode_prompt(checkpoint, [{"role": "user", "content": text}], mode)
    return " ".join(checkpoint.tokenizer.convert_ids_to_tokens(list(ids)))


def test_chat_is_the_template_tokenised_once(chat_checkpoint: Checkpoint) -> None:
    ids = encode_prompt(chat_checkpoint, MESSAGES, "auto")
    assert list(ids) == chat_checkpoint.tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True)["input_ids"]
    text = " ".join(chat_checkpoint.tokenizer.convert_ids_to_tokens(list(ids)))
    assert text.endswith("<|im_start|> user : reach 7 with 3 4 <|im_end|> <|im_start|> assistant :")
    assert "<unk>" not in text
    assert encode_prompt(chat_checkpoint, MESSAGES, "chat") == ids


def test_raw_joins_contents_by_blank_lines(tmp_path: Path) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE({"a": 0, "b": 1, "\n": 2}, [])))
    checkpoint: Any = SimpleNamespace(name="bytes", tokenizer=tokenizer, has_chat_template=False, vocabulary_size=3)
    assert encode_prompt(checkpoint, [{"content": "ab"}, {"content": "b"}], "raw") == (0, 1, 2, 2, 1)


def test_raw_ignores_a_template_and_auto_does_without(chat_checkpoint: Checkpoint, tiny_checkpoint: Checkpoint) -> None:
    expected = tuple(map(TOKENS.index, ("use", "each", "once", "reach", "7", "with", "3", "4")))
    assert encode_prompt(chat_checkpoint, MESSAGES, "raw") == expected
    assert encode_prompt(tiny_checkpoint, MESSAGES, "auto") == expected


def test_modes(chat_checkpoint: Checkpoint, tiny_checkpoint: Checkpoint) -> None:
    assert [prompt_mode(chat_checkpoint, mode) for mode in ("auto", "chat", "raw")] == ["chat", "chat", "raw"]
    assert [prompt_mode(tiny_checkpoint, mode) for mode in ("auto", "raw")] == ["raw", "raw"]
    with pytest.raises(InputError, match=r"has no chat template, .*use raw"):
        encode_prompt(tiny_checkpoint, MESSAGES, "chat")
    with pytest.raises(InputError, match="prompt mode 'Chat' is not offered"):
        prompt_mode(tiny_checkpoint, "Chat")


@pytest.mark.parametrize(
    ("processor", "template", "mode", "expected"),
    [
        # The tokenizer begins with BOS: one BOS, whether the text has it or not (L8).
        ("<s> $A", "{{ bos_token }} <turn> {{ messages[0].content }} <turn>", "chat", "<s> <turn> a b <turn>"),
        ("<s> $A", "<turn> {{ messages[0].content }} <turn>", "chat", "<s> <turn> a b <turn>"),
        ("<s> $A", None, "raw", "<s> a b"),
        # It does not: only what the template writes.
        ("$A", "{{ bos_token }} {{ messages[0].content }}", "chat", "<s> a b"),
        ("$A", "{{ messages[0].content }} <turn>", "chat", "a b <turn>"),
        ("$A", None, "raw", "a b"),
        # It ends with EOS: never appended, kept where the template itself writes it.
        ("<s> $A </s>", "{{ bos_token }} {{ messages[0].content }} <turn>", "chat", "<s> a b <turn>"),
        ("<s> $A </s>", "{{ messages[0].content }} {{ eos_token }} <turn>", "chat", "<s> a b </s> <turn>"),
        ("<s> $A </s>", "{{ messages[0].content }} {{ eos_token }}", "chat", "<s> a b </s>"),
        ("$A </s>", None, "raw", "a b"),
        # A longer beginning, as GLM's [gMASK]<sop>.
        ("[x] <s> $A", "[x] <s> {{ messages[0].content }}", "chat", "[x] <s> a b"),
        ("[x] <s> $A </s>", None, "raw", "[x] <s> a b"),
    ],
)
def test_special_tokens_stand_once(processor: str, template: str | None, mode: str, expected: str) -> None:
    """L8: double BOS through template and tokenizer."""
    assert encode(special_checkpoint(processor, template), "a b", mode) == expected


def test_a_text_that_brings_its_bos_gets_no_second() -> None:
    """L8, in raw mode: the BOS may stand in the text of a rollout made elsewhere."""
    assert encode(special_checkpoint("<s> $A", None), "<s> a b", "raw") == "<s> a b"


def test_a_template_that_refuses_says_why(chat_checkpoint_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(chat_checkpoint_folder, tmp_path / "refuses"))
    template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}a"
    (folder / "chat_template.jinja").write_text(template)
    checkpoint = load_checkpoint(str(folder), device="cpu")
    with pytest.raises(InputError, match=r"refuses the messages \(TemplateError: System role not supported\)"):
        encode_prompt(checkpoint, MESSAGES)
    assert encode_prompt(checkpoint, MESSAGES[1:]) == (TOKENS.index("a"),)


@pytest.mark.parametrize("template", ["{% for %}", "{{ 1 / 0 }}", "{{ messages.__class__.__mro__ }}", "{{ x.y.z }}"])
def test_broken_and_hostile_templates_are_refused(template: str) -> None:
    with pytest.raises(InputError, match="The chat template of special refuses the messages"):
        encode(special_checkpoint("$A", template), "a", "chat")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ strftime_now('%d %b %Y') }}", "26 Jul 2024"),
        (
            "{%- if strftime_now is defined %}{%- set day = strftime_now('%B %d, %Y') %}{%- endif %}{{ day }}",
            "July 26, 2024",
        ),
        ("  {% macro head() %}on {{ strftime_now('%Y-%m-%d') }}{% endmacro %}\n{{ head() }}", "on 2024-07-26"),
    ],
)
def test_a_prompt_does_not_depend_on_the_day(template: str, expected: str) -> None:
    """Llama's and gpt-oss' templates write today's date; a run resumed tomorrow would not see the same prompts."""
    alphabet = {character: index for index, character in enumerate(dict.fromkeys("26 Jul 2024July, -on07"))}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE(alphabet, [])), chat_template=template)
    checkpoint: Any = SimpleNamespace(name="days", tokenizer=tokenizer, has_chat_template=True, vocabulary_size=99)
    ids = encode_prompt(checkpoint, MESSAGES)
    assert "".join(tokenizer.convert_ids_to_tokens(list(ids))) == expected


def test_long_prompts_are_neither_cut_nor_warned_about(chat_checkpoint: Checkpoint, capfd: Any) -> None:
    tokenizer = chat_checkpoint.tokenizer
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.enable_truncation(4)
    backend.enable_padding(length=5000)
    cutting = PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=8)
    checkpoint = dataclasses.replace(chat_checkpoint, tokenizer=cutting)
    assert encode_prompt(checkpoint, [{"role": "user", "content": "a " * 1000}], "raw") == (TOKENS.index("a"),) * 1000
    assert capfd.readouterr() == ("", "")


def test_what_cannot_be_encoded(tiny_checkpoint: Checkpoint) -> None:
    with pytest.raises(InputError, match="prompt is empty"):
        encode_prompt(tiny_checkpoint, [{"role": "user", "content": ""}])
    with pytest.raises(InputError, match="prompt is empty"):
        encode_prompt(tiny_checkpoint, [])
    with pytest.raises(InputError, match="lone surrogate at character 2"):
        encode_prompt(tiny_checkpoint, [{"role": "user", "content": "a \ud800"}])


def test_ids_stay_within_the_model(tmp_path: Path, tiny_checkpoint: Checkpoint) -> None:
    """A tokenizer that grew after loading must not index past the embedding."""
    checkpoint = load_checkpoint(str(build_checkpoint(tmp_path / "grown")), device="cpu")
    checkpoint.tokenizer.add_tokens(["brandnew"])
    with pytest.raises(InputError, match=f"has token {len(TOKENS)}, beyond the {len(TOKENS)} of"):
        encode_prompt(checkpoint, [{"role": "user", "content": "a brandnew"}])
