"""The words of an expression such as nn.Linear(16*3*3, 10), each with its place; without torch, to answer at once."""

from __future__ import annotations

import re
from typing import NamedTuple

from pellucid.errors import ExpressionError, TooLarge, quoted

MOST_CHARACTERS = 200_000
LARGEST_NUMBER = 10**12  # no size of a layer is larger, and no product of so few digits takes long

_WORD = re.compile(
    r"""(?P<blank>[ \t\r\n\\]+|\#[^\n]*)
      | (?P<number>(?:[0-9][0-9_]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\s*\.\s*[A-Za-z_][A-Za-z0-9_]*)*)
      | (?P<string>"[^"\n\\]*"|'[^'\n\\]*')
      | (?P<sign>//|[-+*(),=\[\]])""",
    re.VERBOSE | re.ASCII,
)


class Token(NamedTuple):
    """One word: a name with its dots, a number, a string, a sign or the end."""

    kind: str  # "name", "number", "string", "end", or the sign itself
    text: str
    start: int  # counted from 0
    end: int


def tokens(text: str) -> list[Token]:
    """Every word of the text, and an end; blanks, line breaks and comments are passed over.

    >>> [word.text for word in tokens("nn.Linear(4, 2)  # small")]
    ['nn.Linear', '(', '4', ',', '2', ')', '']
    """
    if len(text) > MOST_CHARACTERS:
        raise TooLarge(
            f"the expression has {len(text):,} characters and at most {MOST_CHARACTERS:,} are read",
            fix="Write it into a file, and give file.py:name",
        )
    words: list[Token] = []
    place = 0
    while place < len(text):
        found = _WORD.match(text, place)
        if found is None:
            raise _foreign(text, place)
        kind = found.lastgroup
        assert kind is not None, "every branch has a name"
        if kind != "blank":
            written = re.sub(r"\s", "", found[0]) if kind == "name" else found[0]
            words.append(Token(written if kind == "sign" else kind, written, place, found.end()))
        place = found.end()
    last = words[-1].end if words else 0
    return [*words, Token("end", "", last, last)]


def number(word: Token, text: str) -> int | float:
    """The number that a word stands for: whole where it is written so."""
    digits = word.text.replace("_", "")
    if not digits.isdigit():
        return float(digits)
    if len(digits) > len(str(LARGEST_NUMBER)) or int(digits) > LARGEST_NUMBER:
        raise mistake(f"{quoted(word.text)} is larger than any layer", text, word.start, "Write a smaller number")
    return int(digits)


def mistake(what: str, text: str, start: int, fix: str) -> ExpressionError:
    """A mistake at a place of the text; of several lines only the one that has it is shown, and its number told."""
    before = text.count("\n", 0, start)
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].split("\n", 1)[0]
    error = ExpressionError(what, text=line, column=start - line_start + 1, fix=fix)
    if "\n" in text.strip():
        error.where = f"in line {before + 1} at column {start - line_start + 1}"
    return error


def _foreign(text: str, start: int) -> ExpressionError:
    character = text[start]
    if character in "\"'":
        return mistake("this text is never closed", text, start, f"Add {character} where it ends")
    fixes = {
        "“": 'Use plain quotes: "',
        "”": 'Use plain quotes: "',
        "’": "Use plain quotes: '",
        "{": "Write lists as [...]; a dictionary needs a file: file.py:name",
        ":": "Write only what nn.Module gives, or put your code in a file and give file.py:name",
    }
    fix = fixes.get(character, "Use names as nn.Linear, numbers, texts, commas and brackets")
    return mistake(f"{quoted(character)} (U+{ord(character):04X}) has no meaning here", text, start, fix)
