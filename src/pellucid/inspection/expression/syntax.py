"""Modules and input shapes as people write them, read without torch and without running anything.

A module is read by Python's own parser, `ast`, of which only calls, names, numbers, texts, True, False, None, tuples,
lists and sums and products of numbers are let through. Before that, its words are looked at one by one: Python gives no
column for many of the mistakes that people make here, and stops at a missing comma, where what was meant is plain.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import NamedTuple

from pellucid.errors import ExpressionError, PellucidError, TooLarge, did_you_mean, quoted

MOST_CHARACTERS = 200_000
LARGEST_NUMBER = 10**12  # no size of a layer is larger
DEEPEST = 60  # brackets in brackets
CLOSING = {"(": ")", "[": "]"}
VALUE_ENDS = ("name", "number", "string", ")", "]")  # kinds of words that a value can end with
VALUE_BEGINS = ("name", "number", "string", "[")
SIGNS = ("+", "-", "*", "//", "=")  # behind each of them stands a value
_WORD = re.compile(
    r"""(?P<blank>[ \t\r\n\\]+|\#[^\n]*)
      | (?P<number>(?:[0-9][0-9_]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:\s*\.\s*[A-Za-z_][A-Za-z0-9_]*)*)
      | (?P<string>"[^"\n\\]*"|'[^'\n\\]*')
      | (?P<sign>//|[-+*(),=\[\]])""",
    re.VERBOSE | re.ASCII,
)


class Constant(NamedTuple):
    """A number, a text, True, False or None."""

    value: bool | int | float | str | None
    start: int
    end: int


class Series(NamedTuple):
    """Values between brackets: a tuple or a list."""

    items: tuple[Node, ...]
    is_tuple: bool
    start: int
    end: int


class ConstructorCall(NamedTuple):
    """A constructor with its arguments, not yet known to exist. A name without brackets has is_called False."""

    name: str
    arguments: tuple[tuple[str, Node], ...]  # the keyword, "" for those by place
    is_called: bool
    start: int
    end: int


Node = Constant | Series | ConstructorCall


class ParsedExpression(NamedTuple):
    """An expression that was read, with the commas that it lacked."""

    text: str
    root: Node
    mistakes: tuple[ExpressionError, ...]
    commas: tuple[int, ...]  # places of the text where one is missing

    @property
    def mended_text(self) -> str:
        """The text with every comma in its place.

        >>> parse_module("nn.Sequential(nn.ReLU() nn.Tanh())").mended_text
        'nn.Sequential(nn.ReLU(), nn.Tanh())'
        """
        places = (0, *self.commas, len(self.text))
        return ",".join(self.text[one:other] for one, other in pairwise(places))


def parse_module(text: str) -> ParsedExpression:
    """The expression as a tree. A missing comma is named and read over; everything else that is wrong is raised.

    >>> parse_module("nn.Linear(16*3*3, 10)").root.arguments[0][1].value
    144
    """
    words = _words(text)
    if not words:
        raise expression_error("the expression is empty", text, 0, 'Write one, as "nn.Linear(4, 2)"')
    if [word.kind for word in words[:2]] == ["name", "="]:
        words = words[2:]  # net = nn.Sequential(...), as it stands in a program
    checked = _CheckedWords(text, words)
    return ParsedExpression(text, _Tree(checked).root(), tuple(checked.mistakes), tuple(checked.commas))


def expression_error(what: str, text: str, start: int, fix: str) -> ExpressionError:
    """A mistake at a place of the text; of several lines only the one that has it is shown, and its number told."""
    before = text.count("\n", 0, start)
    line_start = text.rfind("\n", 0, start) + 1
    line = text[line_start:].split("\n", 1)[0]
    error = ExpressionError(what, text=line, column=start - line_start + 1, fix=fix)
    if "\n" in text.strip():
        error.where = f"in line {before + 1} at column {start - line_start + 1}"
    return error


class _Word(NamedTuple):
    """A name with its dots, a number, a string or a sign."""

    kind: str  # "name", "number", "string", or the sign itself
    text: str
    start: int  # counted from 0
    end: int


def _words(text: str) -> list[_Word]:
    """Every word of the text; blanks, line breaks and comments are passed over."""
    if len(text) > MOST_CHARACTERS:
        raise TooLarge(
            f"the expression has {len(text):,} characters and at most {MOST_CHARACTERS:,} are read",
            fix="Write it into a file, and give file.py:name",
        )
    words: list[_Word] = []
    place = 0
    while place < len(text):
        found = _WORD.match(text, place)
        if found is None:
            raise _foreign_character(text, place)
        kind = found.lastgroup
        assert kind is not None, "every branch has a name"
        if kind != "blank":
            written = re.sub(r"\s", "", found[0]) if kind == "name" else found[0]
            words.append(_Word(written if kind == "sign" else kind, written, place, found.end()))
        place = found.end()
    return words


def _foreign_character(text: str, start: int) -> ExpressionError:
    character = text[start]
    if character in "\"'":
        return expression_error("this text is never closed", text, start, f"Add {character} where it ends")
    fixes = {
        "“": 'Use plain quotes: "',
        "”": 'Use plain quotes: "',
        "’": "Use plain quotes: '",
        "{": "Write lists as [...]; a dictionary needs a file: file.py:name",
        ":": "Write only what nn.Module gives, or put your code in a file and give file.py:name",
    }
    fix = fixes.get(character, "Use names as nn.Linear, numbers, texts, commas and brackets")
    return expression_error(f"{quoted(character)} (U+{ord(character):04X}) has no meaning here", text, start, fix)


@dataclass
class _Bracket:
    """A bracket that is open."""

    word: _Word
    name: str  # of what is called; "" where nothing is
    begin: int  # where the value that is being read begins
    has_keyword: bool = False


@dataclass
class _CheckedWords:
    """Words whose brackets agree, whose signs stand between values, and whose missing commas are known."""

    text: str
    words: list[_Word]
    mistakes: list[ExpressionError] = field(default_factory=list)
    commas: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.open: list[_Bracket] = []
        for place, word in enumerate(self.words):
            self._check(place, word)
        if not self.words or self.words[-1].kind in SIGNS:
            raise self._wants_value(None)
        if self.open:
            bracket = self.open[-1].word
            raise self._error(
                "this bracket is never closed", bracket.start, f"Add {CLOSING[bracket.kind]} where its part ends"
            )
        if self.words[-1].kind == ",":
            self.words = self.words[:-1]  # as it stands behind a line of a program

    def _check(self, place: int, word: _Word) -> None:
        before = self.words[place - 1] if place else None
        follows_value = before is not None and before.kind in VALUE_ENDS
        kind_after = self.words[place + 1].kind if place + 1 < len(self.words) else ""
        if word.kind in VALUE_BEGINS and before is not None and follows_value:
            if not self.open:
                raise self._behind_the_end(word)
            self._missing_comma(before, word, kind_after)
            self._begin_value(word, kind_after, is_named=False)
        elif word.kind in ("(", "-", *VALUE_BEGINS) and not follows_value:
            if not self.open and before is not None and before.kind == ",":
                raise self._behind_the_end(word)
            if before is None or before.kind in ("(", "[", ",", "="):
                self._begin_value(word, kind_after, is_named=before is not None and before.kind == "=")
            if word.kind == "-" and kind_after != "number":
                raise self._error("a minus stands before something that is no number", word.start, "Take it away")
        elif word.kind == "(" and before is not None and before.kind != "name":
            raise self._unwanted_word(word) if self.open else self._behind_the_end(word)
        elif word.kind in (",", "+", "*", "//", "=") and not follows_value:
            raise self._wants_value(word)
        elif word.kind == "=" and before is not None and before.kind != "name":
            raise self._unwanted_word(word) if self.open else self._behind_the_end(word)
        if word.kind in CLOSING:
            self._open_bracket(word, before.text if before and before.kind == "name" else "")
        elif word.kind in CLOSING.values():
            self._close_bracket(word, before)

    def _begin_value(self, word: _Word, kind_after: str, *, is_named: bool) -> None:
        if not self.open:
            return
        bracket = self.open[-1]
        bracket.begin = word.start
        if bracket.name and word.kind == "name" and kind_after == "=":
            bracket.has_keyword = True
        elif bracket.has_keyword and not is_named:
            what = "an argument without a name stands behind one with a name"
            raise self._error(what, word.start, "Put it first, or name it")

    def _open_bracket(self, word: _Word, name: str) -> None:
        self.open.append(_Bracket(word, name, word.end))
        if len(self.open) > DEEPEST:
            raise TooLarge(
                f"there are more than {DEEPEST} brackets in one another",
                where=f"at column {word.start + 1}",
                fix="Write it into a file, and give file.py:name",
            )

    def _close_bracket(self, word: _Word, before: _Word | None) -> None:
        if not self.open:
            raise self._error("this bracket was never opened", word.start, "Take it away, or add ( before it")
        if before is not None and before.kind in SIGNS:
            raise self._wants_value(word)
        if CLOSING[self.open[-1].word.kind] != word.kind:
            raise self._unwanted_word(word)
        self.open.pop()

    def _missing_comma(self, before: _Word, word: _Word, kind_after: str) -> None:
        """Name it, to read on as if it were there."""
        left = _shorten(self.text[self.open[-1].begin : before.end])
        right = _shorten(word.text + "(...)" * (kind_after == "("))
        self.commas.append(before.end)
        what = f"a comma is missing between {left} and {right}"
        self.mistakes.append(self._error(what, before.end, f"Write {left}, {right}"))

    def _wants_value(self, word: _Word | None) -> ExpressionError:
        found = "the expression ends" if word is None else f"{quoted(word.text)} stands"
        start = len(self.text.rstrip()) if word is None else word.start
        what = f"{found} where a layer or a number is wanted"
        return self._error(what, start, "Add what is missing, or take it away")

    def _unwanted_word(self, word: _Word) -> ExpressionError:
        bracket = self.open[-1]
        wanted = f"a comma or {CLOSING[bracket.word.kind]} is wanted" + f" in {bracket.name}" * bool(bracket.name)
        return self._error(f"{quoted(word.text)} stands where {wanted}", word.start, "Take it away")

    def _behind_the_end(self, word: _Word) -> ExpressionError:
        what = f"{quoted(word.text)} stands behind the end of the module"
        return self._error(what, word.start, "Put all layers into one nn.Sequential(...), or give file.py:name")

    def _error(self, what: str, start: int, fix: str) -> ExpressionError:
        return expression_error(what, self.text, start, fix)


class _Tree:
    """The tree that Python makes of checked words, each node with its place in the text."""

    def __init__(self, checked: _CheckedWords) -> None:
        self.text = checked.text
        self.places: list[int] = []  # of each character of the source, in the text
        pieces: list[str] = []
        commas = set(checked.commas)
        for word in checked.words:
            # A text may hold any character, and Python counts bytes: what it says is read from the text itself.
            written = f'"{" " * (len(word.text) - 2)}"' if word.kind == "string" else self.text[word.start : word.end]
            pieces += [re.sub(r"\s", " ", written), "," if word.end in commas else " "]
            self.places += range(word.start, word.end + 1)
        self.source = "".join(pieces).rstrip()

    def root(self) -> Node:
        too_deep = TooLarge("the expression is too long to be read", fix="Write it into a file, and give file.py:name")
        try:
            return self.node(ast.parse(self.source, mode="eval").body)
        except SyntaxError as error:
            place = self.places[min(max((error.offset or 1) - 1, 0), len(self.places) - 1)]
            raise self._error(
                f"Python cannot read this: {error.msg}", place, "Use names as nn.Linear, numbers, texts and commas"
            ) from error
        except (ValueError, RecursionError, MemoryError) as error:  # thousands of terms, or of dots
            raise too_deep from error

    def node(self, node: ast.expr) -> Node:
        assert node.end_col_offset is not None
        start, end = self.places[node.col_offset], self.places[node.end_col_offset - 1] + 1
        if isinstance(node, ast.Constant):
            return self.constant(node.value, start, end)
        if isinstance(node, ast.UnaryOp):
            number = self.node(node.operand)
            assert isinstance(number, Constant)
            assert isinstance(number.value, int | float)
            return Constant(-number.value, start, end)
        if isinstance(node, ast.BinOp):
            return self.number(node, start, end)
        if isinstance(node, ast.Tuple | ast.List):
            return Series(tuple(self.node(item) for item in node.elts), isinstance(node, ast.Tuple), start, end)
        if isinstance(node, ast.Name | ast.Attribute):
            return ConstructorCall(self.name(node), (), False, start, end)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            by_place = [("", self.node(item)) for item in node.args]
            by_name = [(keyword.arg or "", self.node(keyword.value)) for keyword in node.keywords]
            return ConstructorCall(self.name(node.func), (*by_place, *by_name), True, start, end)
        raise self._error("this is no layer and no number", start, "Use names as nn.Linear, numbers, texts and commas")

    def name(self, node: ast.Name | ast.Attribute) -> str:
        written = self.source[node.col_offset : node.end_col_offset]
        return written.replace(" ", "")

    def constant(self, value: object, start: int, end: int) -> Constant:
        if isinstance(value, str):
            return Constant(self.text[start + 1 : end - 1], start, end)
        if isinstance(value, int) and value > LARGEST_NUMBER:
            written = quoted(self.text[start:end])
            raise self._error(f"{written} is larger than any layer", start, "Write a smaller number")
        assert value is None or isinstance(value, int | float)
        return Constant(value, start, end)

    def number(self, node: ast.BinOp, start: int, end: int) -> Constant:
        """One number made of two."""
        assert node.left.end_col_offset is not None
        between = self.source[node.left.end_col_offset : node.right.col_offset]
        sign = between.strip(" ()")
        place = self.places[node.left.end_col_offset + between.index(sign)]
        values: list[int | float] = []
        for side in (self.node(node.left), self.node(node.right)):
            value = side.value if isinstance(side, Constant) else None
            if not isinstance(value, int | float) or isinstance(value, bool):
                what = f"{quoted(sign)} stands beside something that is no number"
                raise self._error(what, side.start, "Put a comma between two layers")
            values.append(value)
        one, other = values
        if sign == "//" and other == 0:
            raise self._error("a division by 0", place, "Write another number")
        made = {"+": one + other, "-": one - other, "*": one * other, "//": one // (other or 1)}[sign]
        if abs(made) > LARGEST_NUMBER:
            raise self._error("this number is larger than any layer", place, "Write a smaller one")
        return Constant(made, start, end)

    def _error(self, what: str, start: int, fix: str) -> ExpressionError:
        return expression_error(what, self.text, start, fix)


def _shorten(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 32 else f"{words[:28]}…)"


INPUT_KINDS = ("float", "int", "bool", "double")
MOST_NUMBERS = 1 << 30


class InputShape(NamedTuple):
    """An input that is to be made up."""

    sizes: tuple[int, ...]
    kind: str  # of INPUT_KINDS

    def __str__(self) -> str:
        return ",".join(map(str, self.sizes)) + f":{self.kind}" * (self.kind != "float")


def parse_shape(word: str) -> InputShape:
    """The shape of an input: 1,1,32,32 for numbers, 2,16:int for tokens.

    >>> parse_shape("1,1,32,32"), parse_shape("2, 16:int")
    (InputShape(sizes=(1, 1, 32, 32), kind='float'), InputShape(sizes=(2, 16), kind='int'))
    """
    sizes, _, kind = word.replace("x", ",").replace("×", ",").partition(":")
    kind = kind.strip() or "float"
    if kind not in INPUT_KINDS:
        raise PellucidError(f"there is no kind of input called {quoted(kind)}", fix=did_you_mean(kind, INPUT_KINDS))
    parts = [part.strip() for part in sizes.strip(" ()[]").split(",") if part.strip()]
    wrong = next((part for part in parts if not re.fullmatch(r"[0-9]{1,12}", part) or int(part) < 1), None)
    if wrong is not None or not parts:
        raise PellucidError(
            f"{quoted(wrong if wrong is not None else word)} is no size in the input shape {quoted(word)}",
            fix="Write whole numbers with commas, as 1,1,32,32, or 2,16:int for tokens",
        )
    found = InputShape(tuple(int(part) for part in parts), kind)
    if prod(found.sizes) > MOST_NUMBERS:
        raise TooLarge(f"an input of {prod(found.sizes):,} numbers is too large", fix="Write smaller sizes")
    return found
