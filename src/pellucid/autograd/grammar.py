"""Expressions as people write them, read without recursion and without Python's own parser.

    statements   statement { ";" statement }
    statement    [ name "=" ] expression
    expression   operand { operator operand }
    operand      { "-" | "+" } ( number | name | function "(" expression { "," expression } ")" | "(" expression ")" )
    number       digits [ "." [ digits ] ] [ ("e" | "E") [ "+" | "-" ] digits ]
    name         a letter or "_", then at most 31 letters, digits or "_"

    binds        operator      grouping                   so that
    tightest     ^  **         from the right             2^3^2 is 2^9
                 - +  (sign)   from the right             -2^2 is -4 and 2^-1 is 0.5
                 * /           from the left              a/b/c is (a/b)/c
    loosest      + -           from the left              a-b-c is (a-b)-c

The reader is a shunting yard (Dijkstra 1961): one pass, two stacks, work and memory in proportion to the text.
Numbers are float64 from the first digit, so 9^9^9^9 is infinite at once.
"""

import functools
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from pellucid.autograd.expression import CONSTANTS, Operation, Output, Program, require_free_name
from pellucid.autograd.rules import ADD, CONSTANT, DIVIDE, FUNCTIONS, INPUT, MULTIPLY, NEGATE, POWER, SUBTRACT, Rule
from pellucid.errors import ExpressionError, TooLarge, nearest, quoted

MOST_NODES = 1_000_000
MOST_CHARACTERS = 10_000_000

# Signs that people copy from books and pages, each with one plain meaning.
SPELLINGS = {"×": "*", "·": "*", "⋅": "*", "÷": "/", "−": "-", "π": "pi", "**": "^"}

_TOKEN = re.compile(
    r"[ \t]*(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|[A-Za-z_][A-Za-z0-9_]*|π|\*\*|[-+*/^(),;=×·⋅÷−])"
)
_SIGNS = {sign: SPELLINGS.get(sign, sign) for sign in [*"+-*/^(),;=", "×", "·", "⋅", "÷", "−", "**"]}
_DIGITS = frozenset("0123456789")


class Token(NamedTuple):
    kind: str  # "number", "name", "end", or the sign itself
    text: str
    start: int  # counted from 0; columns shown to people count from 1
    end: int


# A token made by its own `__new__` costs three times as much as the tuple that it is.
_token: Callable[[tuple[str, str, int, int]], Token] = functools.partial(tuple.__new__, Token)


def tokens(text: str) -> Iterator[Token]:
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
        fix = "Use numbers, names, + - * / ^ ( ) and commas"
    return ExpressionError(f"{name} has no meaning here", text=text, column=start + 1, fix=fix)


class Binding(NamedTuple):
    rule: Rule
    tightness: int
    is_from_right: bool


INFIX = {
    "+": Binding(ADD, 1, False),
    "-": Binding(SUBTRACT, 1, False),
    "*": Binding(MULTIPLY, 2, False),
    "/": Binding(DIVIDE, 2, False),
    "^": Binding(POWER, 4, True),
}
SIGN = Binding(NEGATE, 3, True)


class Waiting(NamedTuple):
    """An operator, a bracket or a call on the stack, until what it needs has been read."""

    binding: Binding | None  # None: an open bracket
    function: Rule | None  # the function whose bracket it is
    start: int
    depth: int  # how many operands were finished before it


class Span(NamedTuple):
    """A finished operand: where its number will be, and the text it came from."""

    place: int
    start: int
    end: int


# Made by their own `__new__`, these would cost three times as much as the tuples that they are.
_operation: Callable[[tuple[Rule, tuple[int, ...], float, str, int, int]], Operation] = functools.partial(
    tuple.__new__, Operation
)
_waiting: Callable[[tuple[Binding | None, Rule | None, int, int]], Waiting] = functools.partial(tuple.__new__, Waiting)
_output: Callable[[tuple[str, int, int, int]], Output] = functools.partial(tuple.__new__, Output)
_span: Callable[[tuple[int, int, int]], Span] = functools.partial(tuple.__new__, Span)


def parse(text: str) -> Program:
    """The expression as a flat list of operations, each after the ones that it needs.

    >>> [operation.rule.name for operation in parse("2*x + 1").operations]
    ['constant', 'input', 'multiply', 'constant', 'add']
    """
    if len(text) > MOST_CHARACTERS:
        raise TooLarge(
            f"the expression has {len(text):,} characters and at most {MOST_CHARACTERS:,} are read",
            fix="Break it into smaller expressions",
        )
    return _Reader(text).program()


class _Reader:
    """The two stacks of the shunting yard, and the program that grows beside them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.operations: list[Operation] = []
        self.waiting: list[Waiting] = []
        self.finished: list[Span] = []
        self.inputs: dict[str, int] = {}
        self.known: dict[str, int] = {}  # inputs and defined names, and where their numbers will be
        self.defined: dict[str, Output] = {}
        self.unnamed: list[Output] = []

    def program(self) -> Program:
        words = tokens(self.text)
        word = next(words)
        while True:
            word = self.statement(word, words)
            if word.kind == "end":
                break
            word = next(words)
        return Program(self.text, self.operations, self.inputs, [*self.defined.values(), *self.unnamed])

    def statement(self, word: Token, words: Iterator[Token]) -> Token:
        """Read one statement from its first word on, and give back the word that ended it."""
        name: Token | None = None
        if word.kind == "name" and word.text not in FUNCTIONS:
            following = next(words)
            if following.kind == "=":
                name, word = word, next(words)
                self.require_new(name)
            else:
                self.operand_name(word, following)
                word = self.expression(following, words, wants_operand=False)
                return self.finish(None, word)
        word = self.expression(word, words, wants_operand=True)
        return self.finish(name, word)

    def require_new(self, name: Token) -> None:
        if name.text not in self.known:
            require_free_name(name.text, self.text, name.start + 1)
        elif name.text in self.defined:
            raise self.error(f"{name.text} is defined twice", name.start, f"Call the second one {name.text}2")
        else:
            first = self.operations[self.inputs[name.text]].start
            raise self.error(
                f"{name.text} is used in column {first + 1} before it is defined",
                name.start,
                f"Put {name.text} = ... first",
            )

    def finish(self, name: Token | None, word: Token) -> Token:
        operand = self.finished.pop()
        output = _output((name.text if name else "", *operand))
        if name:
            self.defined[name.text] = output
            self.known[name.text] = operand.place
        else:
            self.unnamed.append(output)
        if len(self.unnamed) > 1:
            raise self.error(
                "two statements have no name",
                self.unnamed[0].start,
                "Name each one: a = ...; b = ...",
            )
        return word

    def expression(self, word: Token, words: Iterator[Token], *, wants_operand: bool) -> Token:
        """Read to the end of the expression and give back the word behind it."""
        waiting, finished, known = self.waiting, self.finished, self.known
        while True:
            kind, text, start, end = word
            if wants_operand:
                if kind == "name":
                    following = next(words)
                    if text in known and following.kind != "(":
                        finished.append(_span((known[text], start, end)))
                        wants_operand, word = False, following
                        continue
                    wants_operand = self.operand_name(word, following)
                    word = following if not wants_operand else next(words)
                    continue
                if kind == "number":
                    self.emit(_operation((CONSTANT, (), float(text), "", start, end)))
                    wants_operand = False
                elif kind == "-":
                    waiting.append(_waiting((SIGN, None, start, len(finished))))
                elif kind == "(":
                    waiting.append(_waiting((None, None, start, len(finished))))
                elif kind != "+":
                    raise self.missing_operand(word)
            elif kind in INFIX:
                binding = INFIX[kind]
                if waiting:
                    self.settle(binding)
                waiting.append(_waiting((binding, None, start, len(finished))))
                wants_operand = True
            elif kind == ")":
                self.close(word)
            elif kind == ",":
                self.comma(word)
                wants_operand = True
            elif kind in ("end", ";"):
                self.settle(None)
                if waiting:
                    raise self.error("this bracket is never closed", waiting[-1].start, "Add ) where its part ends")
                return word
            elif kind == "=":
                raise self.error("only a name can stand before =", start, "Write name = expression")
            else:
                raise self.missing_sign(word)
            word = next(words)

    def operand_name(self, word: Token, following: Token) -> bool:
        """Take a name as an operand; True when it opened a call, so that an operand is wanted next."""
        if word.text in FUNCTIONS:
            if following.kind != "(":
                raise self.error(
                    f"{word.text} is a function and wants its argument in brackets",
                    word.start,
                    f"Write {word.text}(x)",
                )
            self.waiting.append(_waiting((None, FUNCTIONS[word.text], word.start, len(self.finished))))
            return True
        if following.kind == "(":
            raise self.not_a_function(word)
        if word.text in self.known:
            self.finished.append(_span((self.known[word.text], word.start, word.end)))
        elif word.text in CONSTANTS:
            self.emit(_operation((CONSTANT, (), CONSTANTS[word.text], word.text, word.start, word.end)))
        else:
            require_free_name(word.text, self.text, word.start + 1)
            self.known[word.text] = self.inputs[word.text] = len(self.operations)
            self.emit(_operation((INPUT, (), 0.0, word.text, word.start, word.end)))
        return False

    def emit(self, operation: Operation) -> None:
        if len(self.operations) == MOST_NODES:
            raise TooLarge(
                f"the expression has more than {MOST_NODES:,} nodes",
                where=f"at column {operation.start + 1}",
                fix="Break it into smaller expressions",
            )
        self.finished.append(_span((len(self.operations), operation.start, operation.end)))
        self.operations.append(operation)

    def settle(self, newcomer: Binding | None) -> None:
        """Carry out what waits on the stack and binds tighter than the newcomer (None: everything)."""
        waiting = self.waiting
        while waiting:
            top = waiting[-1].binding
            if top is None:
                return
            if newcomer is not None and (
                top.tightness < newcomer.tightness or (top.tightness == newcomer.tightness and newcomer.is_from_right)
            ):
                return
            start = waiting.pop().start
            right = self.finished.pop()
            if top is SIGN:
                self.emit(_operation((NEGATE, (right.place,), 0.0, "", start, right.end)))
            else:
                left = self.finished.pop()
                self.emit(_operation((top.rule, (left.place, right.place), 0.0, "", left.start, right.end)))

    def close(self, word: Token) -> None:
        self.settle(None)
        if not self.waiting:
            raise self.error("this bracket was never opened", word.start, "Take it away, or add ( before it")
        bracket = self.waiting.pop()
        if bracket.function is None:
            inner = self.finished.pop()
            self.finished.append(_span((inner.place, bracket.start, word.end)))
            return
        arguments = self.finished[bracket.depth :]
        del self.finished[bracket.depth :]
        rule = bracket.function
        if rule.arity is not None and len(arguments) != rule.arity:
            raise self.error(
                f"{rule.symbol} wants {rule.arity} argument{'s' * (rule.arity > 1)} and got {len(arguments)}",
                bracket.start,
                f"Write {rule.symbol}({', '.join('abc'[: rule.arity])})",
            )
        self.emit(_operation((rule, tuple(a.place for a in arguments), 0.0, "", bracket.start, word.end)))

    def comma(self, word: Token) -> None:
        self.settle(None)
        if not self.waiting or self.waiting[-1].function is None:
            digit_before = self.text[word.start - 1 : word.start].isdigit()
            digit_after = self.text[word.end : word.end + 1].isdigit()
            raise self.error(
                "a comma stands outside the brackets of a function",
                word.start,
                "Write decimals with a point, as 1.5" if digit_before and digit_after else "Take it away",
            )

    # What can be wrong, each with the column to look at and one repair.

    def error(self, what: str, start: int, fix: str) -> ExpressionError:
        return ExpressionError(what, text=self.text, column=start + 1, fix=fix)

    def missing_operand(self, word: Token) -> ExpressionError:
        if not self.text.strip():
            return self.error("the expression is empty", 0, 'Write one, as "x^2 + 1"')
        if word.kind == "=":
            return self.error("a name is missing before =", word.start, "Write name = expression")
        before = self.waiting[-1] if self.waiting else None
        if word.kind == ")" and before and before.binding is None:
            what = f"{before.function.symbol} has no argument" if before.function else "these brackets are empty"
            return self.error(what, before.start, "Put an expression between them")
        found = "the expression ends" if word.kind == "end" else f"{quoted(word.text)} stands"
        return self.error(
            f"{found} where a number or a name is wanted",
            word.start,
            "Add the missing part, or take the sign before it away",
        )

    def missing_sign(self, word: Token) -> ExpressionError:
        left = self.finished[-1]
        before = self.text[max(left.start, left.end - 20) : left.end]
        after = "(...)" if word.kind == "(" else word.text[:20]
        return self.error(
            f"a sign is missing between {quoted(before, 20)} and {quoted(after, 20)}",
            word.start,
            f"To multiply, write {before}*{after}",
        )

    def not_a_function(self, word: Token) -> ExpressionError:
        meant = nearest(word.text, FUNCTIONS)
        known = word.text in self.known or word.text in CONSTANTS or not meant
        return self.error(
            f"{quoted(word.text)} is not a function",
            word.start,
            f"To multiply, write {word.text[:20]}*(...)" if known else f"Perhaps you meant {meant}",
        )
