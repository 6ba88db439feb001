"""Text of tokens: pieces joined are the decoded text, for every family of tokenizer and any ids whatever."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from entropy_lab.checkpoints import Checkpoint
from entropy_lab.texts import UNFINISHED, _ends, completion_text, decode, token_texts

TEXTS = [
    "the target is 24, so 3 * (5 + 3) = 24.",
    "Émile naïvely wrote über-long words; don't, can't, won't!",
    "你好,世界。目标是二十四。",
    "שלום עולם مرحبا بالعالم",
    "smile 🙂🙃 family 👨‍👩‍👧‍👦 flag 🇫🇷 done",
    "tabs\tand\n\nnewlines  and   spaces",
]


def byte_level() -> PreTrainedTokenizerBase:
    """As GPT-2, Llama 3 and Qwen: BPE over bytes."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(TEXTS[:2], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<end>")


def byte_fallback() -> PreTrainedTokenizerBase:
    """As Llama 2, Mistral and Gemma: words with ▁, unknown characters as byte tokens, the first space dropped."""
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcdefghijklmnopqrstuvwxyz"]
    pieces += ["▁t", "he", "▁the", "▁i", "▁is", "▁target"]
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "i"), ("▁i", "s")]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    backend = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def word_level() -> PreTrainedTokenizerBase:
    """As the tiny checkpoints: whole words, joined by spaces."""
    backend = Tokenizer(
        models.WordLevel({word: k for k, word in enumerate(["<unk>", "the", "is", ".", "24"])}, "<unk>")
    )
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")


def word_piece() -> PreTrainedTokenizerBase:
    """A decoder that tidies spaces before punctuation: what a token adds depends on the tokens around it."""
    words = ["[UNK]", "the", "##se", "is", ".", ",", "do", "n't", "'", "s"]
    backend = Tokenizer(models.WordPiece({word: k for k, word in enumerate(words)}, unk_token="[UNK]"))
    backend.decoder = decoders.WordPiece(cleanup=True)
    return PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]")


FAMILIES: dict[str, PreTrainedTokenizerBase] = {
    family.__name__: family() for family in (byte_level, byte_fallback, word_level, word_piece)
}


@pytest.mark.parametrize("family", ["byte_level", "byte_fallback"])
@pytest.mark.parametrize("text", TEXTS)
def test_pieces_of_real_text(family: str, text: str) -> None:
    """CJK, emoji and right-to-left text, whose characters are split across tokens."""
    tokenizer = FAMILIES[family]
    ids = tokenizer.encode(text, add_special_tokens=False)
    pieces = token_texts(tokenizer, ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == decode(tokenizer, ids) == text
    assert not any(UNFINISHED in piece for piece in pieces)


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_pieces_joined_are_the_decoded_text(family: str, data: Any) -> None:
    tokenizer = FAMILIES[family]
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=80))
    expected = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    assert decode(tokenizer, ids) == expected
    assert "".join(token_texts(tokenizer, ids)) == expected


@pytest.mark.parametrize("family", FAMILIES)
@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_pieces_stand_where_whole_prefixes_put_them(family: str, data: Any) -> None:
    """Decoding in windows gives the pieces of decoding every prefix from the start, wherever it is used."""
    tokenizer = FAMILIES[family]
    words = data.draw(st.lists(st.sampled_from([text for text in TEXTS for text in text.split(" ")]), max_size=30))
    ids = tokenizer.encode(" ".join(words), add_special_tokens=False)
    text = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    prefixes = [tokenizer.decode(ids[:k], clean_up_tokenization_spaces=False) for k in range(len(ids) + 1)]
    agreed = [next((k for k, (a, b) in enumerate(zip(p, text, strict=False)) if a != b), len(p)) for p in prefixes]
    if all(prefix[:-4] == text[: len(prefix) - 4] for prefix in prefixes):  # no decoder that rewrites far back
        ends = np.cumsum([len(piece) for piece in token_texts(tokenizer, ids)])
        assert list(ends) == list(np.maximum.accumulate(agreed)[1:])


def test_a_character_belongs_to_the_token_that_completes_it() -> None:
    tokenizer = FAMILIES["byte_level"]
    ids = tokenizer.encode("a🙂b", add_special_tokens=False)
    assert token_texts(tokenizer, ids) == ["a", "", "", "", "🙂", "b"]
    assert token_texts(tokenizer, ids[:4]) == ["a", UNFINISHED, "", ""]  # never completed: shows where it began
    assert decode(tokenizer, ids[:4]) == "a" + UNFINISHED


def test_special_tokens_show_as_their_text() -> None:
    tokenizer = FAMILIES["byte_fallback"]
    ids = [*tokenizer.encode("the", add_special_tokens=False), 2]
    assert token_texts(tokenizer, ids)[-1] == "</s>"
    assert completion_text(tokenizer, ids, {2}) == "the"
    assert completion_text(tokenizer, [*ids, 2], {2}) == "the</s>"  # only the one that ended it
    assert completion_text(tokenizer, ids[:-1], {2}) == "the"
    assert completion_text(tokenizer, [], {2}) == ""


@pytest.mark.parametrize("unknown", [100_000, -1, 2**31 - 1])
@pytest.mark.parametrize("family", FAMILIES)
def test_ids_beyond_the_tokenizer_are_shown(family: str, unknown: int) -> None:
    """Padded head rows can be sampled; they must be seen and must not crash."""
    tokenizer = FAMILIES[family]
    assert token_texts(tokenizer, [unknown]) == [f"⟨id {unknown}⟩"]
    assert decode(tokenizer, [1, unknown, 1]) == "".join(token_texts(tokenizer, [1, unknown, 1]))
    assert f"⟨id {unknown}⟩" in decode(tokenizer, [1, unknown, 1])


def test_gaps_in_the_vocabulary_and_ids_above_its_length() -> None:
    backend = Tokenizer(models.WordLevel({"a": 0, "b": 7}, unk_token="a"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend)
    assert token_texts(tokenizer, [0, 7, 3]) == ["a", " b", "⟨id 3⟩"]


def test_numpy_ids_are_fine(tiny_checkpoint: Checkpoint) -> None:
    ids = np.array([5, 6, 1], np.int32)
    assert token_texts(tiny_checkpoint.tokenizer, ids) == ["2", " 3", " <eos>"]  # type: ignore[arg-type]
    assert completion_text(tiny_checkpoint.tokenizer, ids, tiny_checkpoint.end_ids) == "2 3"  # type: ignore[arg-type]


def timed(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def test_decoding_is_fast() -> None:
    """2,000 completions of 50 tokens in well under a second; long texts cost as their length, not its square."""
    tokenizer = FAMILIES["byte_level"]
    rows = np.random.default_rng(0).integers(1, len(tokenizer), (2000, 50)).tolist()
    assert timed(lambda: [completion_text(tokenizer, row, (0,)) for row in rows]) < 2.0
    ids = tokenizer.encode(" ".join(TEXTS * 60), add_special_tokens=False)
    text = decode(tokenizer, ids)
    ends: list[int] = []
    assert len(ids) > 8000
    assert timed(lambda: ends.extend(_ends(tokenizer, ids, text, 16))) < 4.0
    assert ends[-1] == len(text)  # without falling back on whole prefixes


def test_smollm2_pieces(smollm2_gguf: Path) -> None:
    """A real byte-level tokenizer of 49,152 tokens."""
    tokenizer = PreTrainedTokenizerFast.from_pretrained(str(smollm2_gguf.parent), gguf_file=smollm2_gguf.name)
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert "".join(token_texts(tokenizer, ids)) == decode(tokenizer, ids) == text
    ids = np.random.default_rng(1).integers(0, 49152, 300).tolist()
    assert "".join(token_texts(tokenizer, ids)) == tokenizer.decode(ids, skip_special_tokens=False)
