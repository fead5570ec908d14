"""Modules as people write them, read without Python's own parser and without running anything.

    whole      [ name "=" ] value [ "," ]
    value      product { ("+" | "-") product }
    product    part { ("*" | "//") part }                         numbers only, so that 16*3*3 can stand as it is meant
    part       number | string | True | False | None | "-" number | call | name
             | "(" [ value { "," value } ] ")" | "[" [ value { "," value } ] "]"
    call       name "(" [ argument { "," argument } ] ")"
    argument   [ name "=" ] value

A comma that is missing between two arguments is a mistake that is named and read over, because what was meant is plain;
everything else that is wrong stops here.
"""

from __future__ import annotations

from typing import NamedTuple

from pellucid.errors import ExpressionError, TooLarge, quoted
from pellucid.inspection.expression.tokens import LARGEST_NUMBER, Token, mistake, number, tokens

DEEPEST = 60  # brackets in brackets
CONSTANTS = {"True": True, "False": False, "None": None}
Plain = bool | int | float | str | None


class Constant(NamedTuple):
    """A number, a text, True, False or None."""

    value: Plain
    start: int
    end: int


class Series(NamedTuple):
    """Values between brackets: a tuple or a list."""

    items: tuple[Node, ...]
    is_tuple: bool
    start: int
    end: int


class Call(NamedTuple):
    """A constructor with its arguments, not yet known to exist. A name without brackets has is_called False."""

    name: str
    arguments: tuple[tuple[str, Node], ...]  # the keyword, "" for those by place
    is_called: bool
    start: int
    end: int


Node = Constant | Series | Call


class Written(NamedTuple):
    """An expression that was read, with the commas that it lacked."""

    text: str
    root: Node
    mistakes: tuple[ExpressionError, ...]
    commas: tuple[int, ...]  # places of the text where one is missing

    @property
    def mended(self) -> str:
        """The text with every comma in its place.

        >>> read("nn.Sequential(nn.ReLU() nn.Tanh())").mended
        'nn.Sequential(nn.ReLU(), nn.Tanh())'
        """
        pieces, last = [], 0
        for place in self.commas:
            pieces.append(self.text[last:place] + ",")
            last = place
        return "".join(pieces) + self.text[last:]


def read(text: str) -> Written:
    """The expression as a tree.

    >>> read("nn.Linear(16*3*3, 10)").root.arguments[0][1].value
    144
    """
    return _Reader(text).whole()


class _Reader:
    """One pass over the words, a few calls deep for every bracket."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.words = tokens(text)
        self.at = 0
        self.depth = 0
        self.mistakes: list[ExpressionError] = []
        self.commas: list[int] = []

    @property
    def word(self) -> Token:
        return self.words[self.at]

    def take(self) -> Token:
        word = self.words[self.at]
        self.at += 1
        return word

    def whole(self) -> Written:
        if self.word.kind == "end":
            raise mistake("the expression is empty", self.text, 0, 'Write one, as "nn.Linear(4, 2)"')
        if self.word.kind == "name" and self.words[self.at + 1].kind == "=":
            self.at += 2  # net = nn.Sequential(...), as it stands in a program
        root = self.value()
        if self.word.kind == ",":
            self.take()
        if self.word.kind == ")":
            raise self.error("this bracket was never opened", self.word, "Take it away, or add ( before it")
        if self.word.kind != "end":
            raise self.error(
                f"{quoted(self.word.text)} stands behind the end of the module",
                self.word,
                "Put all layers into one nn.Sequential(...), or give file.py:name",
            )
        return Written(self.text, root, tuple(self.mistakes), tuple(self.commas))

    def value(self) -> Node:
        left = self.product()
        while self.word.kind in ("+", "-"):
            left = self.combined(left, self.take(), self.product())
        return left

    def product(self) -> Node:
        left = self.part()
        while self.word.kind in ("*", "//"):
            left = self.combined(left, self.take(), self.part())
        return left

    def combined(self, left: Node, sign: Token, right: Node) -> Node:
        """One number made of two."""
        for side in (left, right):
            if not isinstance(side, Constant) or isinstance(side.value, bool | str) or side.value is None:
                raise mistake(
                    f"{quoted(sign.text)} stands beside something that is no number",
                    self.text,
                    side.start,
                    "Put a comma between two layers",
                )
        assert isinstance(left, Constant)
        assert isinstance(right, Constant)
        one, other = left.value, right.value
        assert isinstance(one, int | float)
        assert isinstance(other, int | float)
        if sign.kind == "//" and other == 0:
            raise self.error("a division by 0", sign, "Write another number")
        made = {"+": one + other, "-": one - other, "*": one * other, "//": one // (other or 1)}[sign.kind]
        if abs(made) > LARGEST_NUMBER:
            raise self.error("this number is larger than any layer", sign, "Write a smaller one")
        return Constant(made, left.start, right.end)

    def part(self) -> Node:
        word = self.take()
        if word.kind == "number":
            return Constant(number(word, self.text), word.start, word.end)
        if word.kind == "string":
            return Constant(word.text[1:-1], word.start, word.end)
        if word.kind == "-":
            if self.word.kind != "number":
                raise self.error("a minus stands before something that is no number", word, "Take it away")
            inner = self.take()
            return Constant(-number(inner, self.text), word.start, inner.end)
        if word.kind in ("(", "["):
            return self.series(word)
        if word.kind == "name":
            if word.text in CONSTANTS:
                return Constant(CONSTANTS[word.text], word.start, word.end)
            if self.word.kind == "(":
                return self.call(word)
            return Call(word.text, (), False, word.start, word.end)
        self.at -= 1
        found = "the expression ends" if word.kind == "end" else f"{quoted(word.text)} stands"
        raise self.error(f"{found} where a layer or a number is wanted", word, "Add what is missing, or take it away")

    def series(self, bracket: Token) -> Node:
        closing = ")" if bracket.kind == "(" else "]"
        arguments, has_comma = self.listed(bracket, closing, has_keywords=False)
        end = self.words[self.at - 1].end
        items = tuple(item for _, item in arguments)
        if closing == ")" and len(items) == 1 and not has_comma:
            return items[0]
        return Series(items, closing == ")", bracket.start, end)

    def call(self, name: Token) -> Call:
        arguments, _ = self.listed(self.take(), ")", has_keywords=True, name=name.text)
        return Call(name.text, tuple(arguments), True, name.start, self.words[self.at - 1].end)

    def listed(
        self, bracket: Token, closing: str, *, has_keywords: bool, name: str = ""
    ) -> tuple[list[tuple[str, Node]], bool]:
        """What stands between two brackets, with its keywords, and whether there was any comma."""
        self.depth += 1
        if self.depth > DEEPEST:
            raise TooLarge(
                f"there are more than {DEEPEST} brackets in one another",
                where=f"at column {bracket.start + 1}",
                fix="Write it into a file, and give file.py:name",
            )
        found: list[tuple[str, Node]] = []
        has_comma = False
        while self.word.kind != closing:
            if self.word.kind == "end":
                raise self.error("this bracket is never closed", bracket, f"Add {closing} where its part ends")
            keyword = ""
            if has_keywords and self.word.kind == "name" and self.words[self.at + 1].kind == "=":
                keyword = self.take().text
                self.take()
            found.append((keyword, self.value()))
            if self.word.kind == ",":
                self.take()
                has_comma = True
            elif self.word.kind in ("name", "number", "string", "["):
                self.missing_comma(found[-1][1])
                has_comma = True
            elif self.word.kind not in (closing, "end"):
                raise self.error(
                    f"{quoted(self.word.text)} stands where a comma or {closing} is wanted"
                    + f" in {name}" * bool(name),
                    self.word,
                    "Take it away",
                )
        self.take()
        self.depth -= 1
        return found, has_comma

    def missing_comma(self, before: Node) -> None:
        """Name it, and read on as if it were there."""
        left = _short(self.text[before.start : before.end])
        following = self.words[self.at]
        right = following.text + "(...)" * (self.words[self.at + 1].kind == "(")
        self.commas.append(before.end)
        self.mistakes.append(
            mistake(
                f"a comma is missing between {left} and {_short(right)}",
                self.text,
                before.end,
                f"Write {left}, {_short(right)}",
            )
        )

    def error(self, what: str, word: Token, fix: str) -> ExpressionError:
        return mistake(what, self.text, word.start, fix)


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 32 else f"{words[:28]}…)"
