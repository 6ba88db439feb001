"""The ladder's tokenizer: one token a number, operator or word of the prompt, saved as an ordinary `tokenizers` file.

A first operand and a first operator are then one token each, so that an entrance is exactly two tokens.
"""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

END = "<end>"
_CHAT_TEMPLATE = (
    "{%- for message in messages -%}{%- if message.role == 'user' -%}"
    "{{ message.content.split('\\n\\n')[-1] }}{%- endif -%}{%- endfor -%}"
)


def number_tokenizer(largest: int) -> PreTrainedTokenizerFast:
    """Tokenizer over the numbers 0 … `largest`, the operators and the prompt's words.

    Its chat template keeps the last paragraph of the user message, the problem itself: the model was taught one set of
    rules and needs no others. Text outside the vocabulary becomes `<unk>`.
    """
    words = ["<pad>", END, "<unk>", "Numbers:", "Target:", "\n", ",", "=", "+", "-", "*", "/"]
    words += [str(number) for number in range(largest + 1)]
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(" ", "removed"),
            pre_tokenizers.Split(Regex(r"Numbers:|Target:|[0-9]+|[^0-9]"), "isolated"),
        ]
    )
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token="<pad>",
        unk_token="<unk>",
        chat_template=_CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )
