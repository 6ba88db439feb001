"""Which tokens end a completion: every one that the checkpoint's own files name, and its chat template's turn end."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

PROBE = "probe"


def end_ids(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> tuple[int, ...]:
    """All end tokens, sorted: of generation_config, config and tokenizer, and the chat template's turn end."""
    rows = model.get_output_embeddings().weight.shape[0]
    named: list[Any] = []
    for value in (
        getattr(model.generation_config, "eos_token_id", None),
        getattr(model.config.get_text_config(), "eos_token_id", None),
        tokenizer.eos_token_id,
        turn_end(tokenizer),
    ):
        named += value if isinstance(value, (list, tuple)) else [value]
    return tuple(sorted({token for token in named if type(token) is int and 0 <= token < rows}))


def turn_end(tokenizer: "PreTrainedTokenizerBase") -> int | None:
    """The special token that the chat template writes right after an assistant's words, such as <|im_end|>.

    Found by rendering a turn, so no list of families is needed; None without a template, or where plain text follows.
    """
    if not tokenizer.chat_template:
        return None
    turn = [{"role": "user", "content": PROBE}, {"role": "assistant", "content": PROBE}]
    try:
        text = str(tokenizer.apply_chat_template(turn, tokenize=False))
    except Exception:  # any template error: such a template offers no turn end, and prompts.py reports it when used
        return None
    after = text.rpartition(PROBE)[2].lstrip()
    special = {str(token): index for index, token in tokenizer.added_tokens_decoder.items() if token.special}
    return max(((len(token), index) for token, index in special.items() if after.startswith(token)), default=(0, None))[
        1
    ]
