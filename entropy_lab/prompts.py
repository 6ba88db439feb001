"""Messages to token ids, built exactly once: what the policy reads is what is stored and scored.

Where the tokenizer begins texts with a special token (BOS), so does every prompt, exactly once, whether the chat
template writes it or not.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from entropy_lab.errors import InputError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from entropy_lab.checkpoints import Checkpoint

PromptMode = Literal["auto", "chat", "raw"]
FIXED_DATE = (
    "{% macro strftime_now(format) %}{{ format | replace('%d', '26') | replace('%m', '07') | replace('%b', 'Jul')"
    " | replace('%B', 'July') | replace('%Y', '2024') | replace('%y', '24') }}{% endmacro %}\n"
)
"""Stands in for the clock that transformers offers templates (ours): a prompt depends on its messages, never on the
day it is built. The day is the one that Llama's templates fall back to."""


def prompt_mode(checkpoint: "Checkpoint", mode: str = "auto") -> Literal["chat", "raw"]:
    """The mode in effect: auto is chat where the checkpoint has a template. `InputError` for chat without one."""
    if mode not in ("auto", "chat", "raw"):
        raise InputError(f"prompt mode {mode!r} is not offered; use auto, chat or raw.")
    if mode == "chat" and not checkpoint.has_chat_template:
        raise InputError(
            f"{checkpoint.name} has no chat template, so it cannot be prompted in chat mode; use raw (or auto), "
            "or add chat_template.jinja to its folder."
        )
    return "chat" if mode != "raw" and checkpoint.has_chat_template else "raw"


def encode_prompt(
    checkpoint: "Checkpoint", messages: Sequence[Mapping[str, str]], mode: str = "auto"
) -> tuple[int, ...]:
    """Token ids of `messages`, up to where the policy begins to write.

    `chat` renders the checkpoint's template with its generation prompt; `raw` joins the contents by blank lines.
    No end token is appended. `InputError` where there is nothing to encode, the template refuses the messages, or
    the text cannot be encoded.
    """
    tokenizer = checkpoint.tokenizer
    if prompt_mode(checkpoint, mode) == "chat":
        text = _render(checkpoint, messages)
    else:
        text = "\n\n".join(message["content"] for message in messages)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"The prompt holds a lone surrogate at character {error.start}, which is not text; repair the messages."
        ) from error
    ids = _encode(tokenizer, text)
    if not ids:
        raise InputError(f"The prompt is empty for {checkpoint.name}; give messages with content.")
    if not all(0 <= token < checkpoint.vocabulary_size for token in ids):
        raise InputError(
            f"The prompt has token {max(ids)}, beyond the {checkpoint.vocabulary_size} of {checkpoint.name}."
        )
    return ids


def _render(checkpoint: "Checkpoint", messages: Sequence[Mapping[str, str]]) -> str:
    tokenizer = checkpoint.tokenizer
    try:
        template = tokenizer.get_chat_template()
        text = tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            chat_template=FIXED_DATE + template if "strftime_now" in template else template,
            tokenize=False,
            add_generation_prompt=True,
        )
    except Exception as error:  # a template is a program from outside and may raise anything
        raise InputError(
            f"The chat template of {checkpoint.name} refuses the messages ({type(error).__name__}: {error}); "
            "change them, or use raw mode."
        ) from error
    return str(text)


def _encode(tokenizer: "PreTrainedTokenizerBase", text: str) -> tuple[int, ...]:
    """Ids of `text` with the tokenizer's own beginning, once, and without its own ending."""
    plain = tuple(tokenizer.encode(text, add_special_tokens=False, verbose=False))
    full = tuple(tokenizer.encode(text, add_special_tokens=True, verbose=False))
    # `full` is `plain` between the tokenizer's own special tokens; those before it may stand in the text already.
    length = next((k for k in range(len(full) - len(plain) + 1) if full[k : k + len(plain)] == plain), 0)
    begin = full[:length]
    return plain if plain[:length] == begin else begin + plain
