"""A checkpoint small enough for unit tests, made from a seed."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

TOKENS = [
    *("<pad>", "<eos>", "<unk>"),
    *(str(number) for number in range(50)),
    *("+", "-", "*", "/", "=", "(", ")", ".", ",", ":", "?", "<answer>", "</answer>", "user", "assistant", "system"),
    *("find", "a", "way", "to", "reach", "the", "target", "with", "numbers", "use", "each", "once", "answer", "is"),
    *("so", "then", "no", "yes", "try", "first", "next"),
]
CHAT_TOKENS = ["<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|> {{ message['role'] }} : {{ message['content'] }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|> assistant : {% endif %}"
)


def build_checkpoint(
    folder: Path, *, tokens: Sequence[str] = TOKENS, template: str | None = None, **config: Any
) -> Path:
    """Write a Llama of two layers (hidden 64, two heads of 32) and a WordLevel tokenizer of `tokens` to `folder`."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    from entropy_lab.checkpoints.quiet import quiet_libraries

    backend = Tokenizer(models.WordLevel({token: index for index, token in enumerate(tokens)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        additional_special_tokens=[token for token in tokens if token in CHAT_TOKENS],
        chat_template=template,
    )
    settings = {
        "vocab_size": len(tokens),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 512,
        "pad_token_id": 0,
        "bos_token_id": None,
        "eos_token_id": 1,
        "initializer_range": 0.2,
    }
    with torch.random.fork_rng(devices=[]), quiet_libraries():
        torch.manual_seed(0)
        LlamaForCausalLM(LlamaConfig(**(settings | config))).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
