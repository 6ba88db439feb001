"""Token ids to text, exactly: what graders read, and the piece of text that each token adds.

Pieces joined are the decoded text, for any tokenizer. A token that leaves a character unfinished gets "" and the one
that completes it gets the character; bytes that no token completes show as U+FFFD, as in the decoded text.
Ids that the tokenizer does not know (padded head rows) show as ⟨id 123⟩.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

WINDOW = 16
"""Tokens decoded again for each new piece; the text before is settled."""
UNFINISHED = "\ufffd"


def decode(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int]) -> str:
    """The text of `ids`, special tokens included, spaces as the tokenizer writes them."""
    known = _known(tokenizer, ids)
    if all(known):
        return _decode(tokenizer, [int(token) for token in ids])
    return "".join(token_texts(tokenizer, ids))


def token_texts(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int]) -> list[str]:
    """The piece of text each token adds, shape (len(ids),); joined they are `decode(tokenizer, ids)`."""
    known = _known(tokenizer, ids)
    pieces = iter(_pieces(tokenizer, [int(token) for token, there in zip(ids, known, strict=True) if there]))
    return [next(pieces) if there else f"⟨id {int(token)}⟩" for token, there in zip(ids, known, strict=True)]


def completion_text(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int], end_ids: Collection[int]) -> str:
    """The decoded completion without the end token it may close with: what a grader reads."""
    return decode(tokenizer, ids[:-1] if len(ids) and int(ids[-1]) in end_ids else ids)


def _known(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int]) -> list[bool]:
    """Whether the tokenizer has each id. Ids above its length may be known too, where ids have gaps."""
    tokens = {int(token) for token in ids}
    names = dict(zip(tokens, tokenizer.convert_ids_to_tokens([max(token, 0) for token in tokens]), strict=True))
    return [int(token) >= 0 and names[int(token)] is not None for token in ids]


def _decode(tokenizer: "PreTrainedTokenizerBase", ids: list[int]) -> str:
    return str(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _pieces(tokenizer: "PreTrainedTokenizerBase", ids: list[int]) -> list[str]:
    text = _decode(tokenizer, ids)
    for window in (WINDOW, len(ids) + 1):  # the second try decodes every prefix whole, which is always exact
        ends = _ends(tokenizer, ids, text, window)
        if not ends or ends[-1] == len(text):
            break
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _ends(tokenizer: "PreTrainedTokenizerBase", ids: list[int], text: str, window: int) -> list[int]:
    """For each token, how many characters of `text` are settled once it is written.

    Those are the characters on which the decoded prefix agrees with the whole. Prefixes are decoded from an anchor, a
    token up to which all is settled, so that the cost grows with the window and not with the length.
    """
    ends: list[int] = []
    anchor, settled, context, end = 0, 0, "", 0
    for position in range(len(ids)):
        local = _decode(tokenizer, ids[anchor : position + 1])
        if local.startswith(context):
            added = local[len(context) :]
            end = max(end, settled + _agreement(added, text[settled : settled + len(added)]))
            if position - anchor >= window and end == settled + len(added):
                alone = _decode(tokenizer, [ids[position]])
                if alone and UNFINISHED not in alone:
                    anchor, settled, context = position, end, alone
        ends.append(end)
    return ends


def _agreement(first: str, second: str) -> int:
    """Length of the common prefix."""
    if first == second:
        return len(first)
    pairs = enumerate(zip(first, second, strict=False))
    return next((k for k, (a, b) in pairs if a != b), min(len(first), len(second)))
