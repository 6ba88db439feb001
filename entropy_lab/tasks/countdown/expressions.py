"""Expressions as small trees: reading text into one, its value, its canonical form, its leftmost calculation.

A tree is a number or a node `(operator, children)`. As read it is binary; in canonical form + and × are flattened
and their operands sorted, numbers first and ascending, compounds after them by their text. Never `eval`.
"""

import re
from fractions import Fraction
from functools import lru_cache

from entropy_lab.tasks.countdown.rules import Value, combine

Tree = int | tuple[str, tuple["Tree", ...]]
"""A number, or an operator over its operands. A negation is `("neg", (operand,))`."""

MAX_LENGTH = 2_000
MAX_DEPTH = 50
MAX_TOKENS = 200
"""Longer expressions are `too-long` (ours): no problem needs a tenth of it, and no tree is too deep to walk."""

SYMBOLS = str.maketrans(dict.fromkeys("×·⋅∗", "*") | {"÷": "/", "∕": "/", "−": "-", "–": "-"})
LATEX = {r"\times": "*", r"\cdot": "*", r"\div": "/", r"\dfrac": r"\frac", r"\tfrac": r"\frac"}
LATEX_WORDS = re.compile(r"\\(?:times|cdot|div|dfrac|tfrac)(?![A-Za-z])")
WRAPPERS = re.compile(r"\$|\\[()\[\],;!]|\\(?:left|right)(?![A-Za-z])")
_TOKEN = re.compile(r"\s*(?:([0-9]+)|(\\frac(?![A-Za-z])|[-+*/(){}]))")
_FORBIDDEN = re.compile(r"\*\s*\*|/\s*/|[\^%]")
_DECIMAL = re.compile(r"[0-9]\s*\.\s*[0-9]|(?<![0-9A-Za-z_])\.[0-9]|[0-9]\.(?![A-Za-z0-9_(])")


class Unreadable(ValueError):
    """The text is not an expression; `code` is the verdict it earns."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


def normalise(text: str) -> str:
    """One spelling for every operator (× · ⋅ ∗ ÷ − and their LaTeX words); mathematics delimiters removed."""
    if "\\" in text or "$" in text:
        text = WRAPPERS.sub(" ", text)
        text = LATEX_WORDS.sub(lambda match: LATEX[match.group()], text)
    return text if text.isascii() else text.translate(SYMBOLS)


def parse(text: str) -> Tree:
    """Read one expression in normalised spelling.

    Raises:
        Unreadable: `too-long` (length or nesting), `forbidden-operator`, `decimal` or `malformed`.
    """
    if len(text) > MAX_LENGTH:
        raise Unreadable("too-long")
    if _FORBIDDEN.search(text):
        raise Unreadable("forbidden-operator")
    if _DECIMAL.search(text):
        raise Unreadable("decimal")
    tokens = _tokens(text)
    if len(tokens) > MAX_TOKENS:
        raise Unreadable("too-long")
    tree, position = _sum(tokens, 0, 0)
    if position != len(tokens):
        raise Unreadable("malformed")
    return tree


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise Unreadable("malformed")
        number = match.group(1)
        if number and len(number) > 1 and number[0] == "0":
            raise Unreadable("malformed")
        tokens.append(number or match.group(2))
        position = match.end()
    return tokens


def _sum(tokens: list[str], position: int, depth: int) -> tuple[Tree, int]:
    left, position = _product(tokens, position, depth)
    while position < len(tokens) and tokens[position] in "+-":
        right, after = _product(tokens, position + 1, depth)
        left, position = (tokens[position], (left, right)), after
    return left, position


def _product(tokens: list[str], position: int, depth: int) -> tuple[Tree, int]:
    left, position = _atom(tokens, position, depth)
    while position < len(tokens) and tokens[position] in "*/":
        right, after = _atom(tokens, position + 1, depth)
        left, position = (tokens[position], (left, right)), after
    return left, position


def _atom(tokens: list[str], position: int, depth: int) -> tuple[Tree, int]:
    if depth > MAX_DEPTH:
        raise Unreadable("too-long")
    token = tokens[position] if position < len(tokens) else ""
    if token.isdigit():
        return int(token), position + 1
    if token == "(":
        inner, position = _sum(tokens, position + 1, depth + 1)
        return inner, _expect(tokens, position, ")")
    if token == "-":
        inner, position = _atom(tokens, position + 1, depth + 1)
        return ("neg", (inner,)), position
    if token == "\\frac":
        above, position = _sum(tokens, _expect(tokens, position + 1, "{"), depth + 1)
        position = _expect(tokens, _expect(tokens, position, "}"), "{")
        below, position = _sum(tokens, position, depth + 1)
        return ("/", (above, below)), _expect(tokens, position, "}")
    raise Unreadable("malformed")


def _expect(tokens: list[str], position: int, token: str) -> int:
    if position >= len(tokens) or tokens[position] != token:
        raise Unreadable("malformed")
    return position + 1


def leaves(tree: Tree) -> list[int]:
    """The numbers of a tree, left to right."""
    if isinstance(tree, int):
        return [tree]
    return [number for child in tree[1] for number in leaves(child)]


def intermediate_values(tree: Tree) -> list[Value] | None:
    """Values of all operations, innermost first, the whole tree's last; None where one divides by zero."""
    values: list[Value] = []
    return values if _evaluate(tree, values) is not None else None


def _evaluate(tree: Tree, values: list[Value]) -> Value | None:
    if isinstance(tree, int):
        return tree
    operator, children = tree
    result: Value | None = _evaluate(children[0], values)
    if operator == "neg":
        return None if result is None else -result
    for child in children[1:]:
        operand = _evaluate(child, values)
        result = None if result is None or operand is None else combine(operator, result, operand)
        if result is None:
            return None
        values.append(result)
    return result


def value_of(tree: Tree) -> Value | None:
    """The exact value, or None for a division by zero."""
    return _evaluate(tree, [])


def has_negation(tree: Tree) -> bool:
    """Whether a unary minus occurs."""
    return not isinstance(tree, int) and (tree[0] == "neg" or any(has_negation(child) for child in tree[1]))


def entrance(tree: Tree) -> str | None:
    """First operand and first operator as written: `7-` for (7-3)*2; None for a lone number or a unary minus."""
    if isinstance(tree, int) or has_negation(tree):
        return None
    operator, children = tree
    while not isinstance(children[0], int):
        operator, children = children[0]
    return f"{children[0]}{operator}"


def canonical(tree: Tree) -> Tree:
    """Flatten + and ×, sort their operands; − and ÷ stay ordered binaries."""
    if isinstance(tree, int):
        return tree
    operator, children = tree
    return canonical_node(operator, tuple(canonical(child) for child in children))


def canonical_node(operator: str, children: tuple[Tree, ...]) -> Tree:
    """The canonical form of `operator` over children that are canonical already."""
    if operator not in "+*":
        return (operator, children)
    flat: list[Tree] = []
    for child in children:
        if isinstance(child, tuple) and child[0] == operator:
            flat.extend(child[1])
        else:
            flat.append(child)
    return (operator, tuple(sorted(flat, key=_order)))


def _order(tree: Tree) -> tuple[bool, int, str]:
    return (False, tree, "") if isinstance(tree, int) else (True, 0, form_text(tree))


@lru_cache(maxsize=20_000)
def form_text(tree: Tree) -> str:
    """A tree as text, every compound operand in brackets: `7+(3*5)`."""
    if isinstance(tree, int):
        return str(tree)
    operator, children = tree
    parts = [form_text(child) if isinstance(child, int) else f"({form_text(child)})" for child in children]
    return f"-{parts[0]}" if operator == "neg" else operator.join(parts)


def as_fraction(text: str) -> Value | None:
    """Read a stated result: an integer, possibly negative, or None."""
    match = re.fullmatch(r"\s*(-?)\s*([0-9]+)\s*(?:/\s*([0-9]+)\s*)?", text)
    if match is None:
        return None
    sign, number, below = match.groups()
    if below is not None and int(below) == 0:
        return None
    value = Fraction(int(sign + number), int(below or 1))
    return value.numerator if value.denominator == 1 else value
