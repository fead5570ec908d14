"""The words of an expression: numbers, names and signs, each with its place in the text."""

import functools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pellucid.errors import ExpressionError, quoted

# Signs that people copy from books and pages, each with one plain meaning.
SPELLINGS = {"×": "*", "·": "*", "⋅": "*", "÷": "/", "−": "-", "π": "pi", "**": "^", "ln": "log"}

_TOKEN = re.compile(
    r"[ \t]*(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|[A-Za-z_][A-Za-z0-9_]*|π|\*\*|[-+*/^(),;=×·⋅÷−\[\]])"
)
_SIGNS = {sign: SPELLINGS.get(sign, sign) for sign in [*"+-*/^(),;=[]", "×", "·", "⋅", "÷", "−", "**"]}
_DIGITS = frozenset("0123456789")


class Token(NamedTuple):
    kind: str  # "number", "name", "end", or the sign itself
    text: str
    start: int  # counted from 0; columns shown to people count from 1
    end: int


# A token made by its own `__new__` costs three times as much as the tuple that it is.
_token: Callable[[tuple[str, str, int, int]], Token] = functools.partial(tuple.__new__, Token)


def split_tokens(text: str) -> Iterator[Token]:
    """The words of the expression, one after the other, and an end."""
    pieces = _TOKEN.findall(text)  # words with the blanks before them
    if sum(map(len, pieces)) < len(text.rstrip(" \t")):
        raise _foreign(text, _first_unread(text))
    end = 0
    for piece in pieces:
        end += len(piece)
        word = piece.lstrip(" \t")
        start = end - len(word)
        if word in _SIGNS:
            yield _token((_SIGNS[word], word, start, end))
        elif word[0] in _DIGITS:
            _require_number_ends(text, start, end)
            yield _token(("number", word, start, end))
        else:
            yield _token(("name", SPELLINGS.get(word, word), start, end))
    yield Token("end", "", end, end)


def _first_unread(text: str) -> int:
    """Where the first character stands that belongs to no word."""
    end = 0
    for found in _TOKEN.finditer(text):
        if found.start() != end:
            break
        end = found.end()
    return len(text) - len(text[end:].lstrip(" \t"))


def _require_number_ends(text: str, start: int, end: int) -> None:
    """Refuse what looks like a number in another notation, before it is read as two things side by side."""
    following = text[end : end + 1]
    if following == "_":
        plain = re.match(r"[0-9_]+", text[start:])
        digits = plain[0].replace("_", "") if plain else ""
        raise ExpressionError(
            "digits are grouped with _",
            text=text,
            column=end + 1,
            fix=f"Write {digits[:20] or 'the digits'} without it",
        )
    if text[start:end] == "0" and following in "xXbBoO" and following:
        other = re.match(r"0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+", text[start : start + 20])
        if other:
            raise ExpressionError(
                f"{quoted(other[0])} is not a decimal number",
                text=text,
                column=start + 1,
                fix=f"Write {int(other[0], 0)}, or {other[0][:1]}*{other[0][1:]} for a product",
            )


def _foreign(text: str, start: int) -> ExpressionError:
    character = text[start]
    name = f"{quoted(character)} (U+{ord(character):04X})"
    if character == "." and text[max(0, start - 1) : start].isdigit():
        return ExpressionError("a number has two points", text=text, column=start + 1, fix="Keep one of them")
    if character == "." and text[start + 1 : start + 2].isdigit():
        return ExpressionError(
            "a number begins with its point", text=text, column=start + 1, fix="Write 0 before it, as 0.5"
        )
    if character.isalpha() and not character.isascii():
        fix = "Use the letters a-z and A-Z; some other alphabets look the same"
    elif character.isdigit() and not character.isascii():
        fix = "Use the digits 0-9"
    else:
        fix = "Use numbers, names, + - * / ^ ( ) [ ] and commas"
    return ExpressionError(f"{name} has no meaning here", text=text, column=start + 1, fix=fix)
