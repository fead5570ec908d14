"""Expressions as people write them, read without recursion and without Python's own parser.

    statements   statement { ";" statement }
    statement    [ name "=" ] expression
    expression   operand { operator operand }
    operand      { "-" | "+" } ( number | name | function "(" list ")" | "(" expression ")" | "[" list "]" ) [ index ]
    list         expression { "," expression }
    index        "[" [ "-" ] digits "]"
    number       digits [ "." [ digits ] ] [ ("e" | "E") [ "+" | "-" ] digits ]
    name         a letter or "_", then at most 31 letters, digits or "_"

    binds        operator      grouping                   so that
    tightest     ^  **         from the right             2^3^2 is 2^9
                 - +  (sign)   from the right             -2^2 is -4 and 2^-1 is 0.5
                 * /           from the left              a/b/c is (a/b)/c
    loosest      + -           from the left              a-b-c is (a-b)-c

The reader is a shunting yard (Dijkstra 1961): one pass, two stacks, work and memory in proportion to the text.
Numbers are float64 from the first digit, so 9^9^9^9 is infinite at once.

A vector [a, b, c] is a row of numbers and nothing more: operators and functions are written out element by element, and
a number beside a vector meets each of them. max, min, sum and prod of one vector go over its elements.
"""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from pellucid.autograd.expression import CALLED, CONSTANTS, Operation, Output, Program, require_free_name
from pellucid.autograd.rules import ADD, CONSTANT, DIVIDE, INPUT, MULTIPLY, NEGATE, POWER, SUBTRACT, Rule
from pellucid.autograd.tokens import Token, split_tokens
from pellucid.autograd.vector_functions import Emitter, VectorFunction
from pellucid.errors import ExpressionError, TooLarge, nearest, quoted

MOST_NODES = 1_000_000
MOST_CHARACTERS = 10_000_000
MOST_ARGUMENTS = 4_000_000  # of all calls together: sum(v) is five characters, whatever v holds


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
    function: "Rule | VectorFunction | None"  # the function whose bracket it is; LIST: a vector is listed in it
    start: int
    depth: int  # how many operands were finished before it


LIST = VectorFunction("[", 1, True, "", lambda emit, a: list(a))


class Span(NamedTuple):
    """A finished operand: where its number will be, and the text it came from."""

    place: int  # below 0: that of a vector, counted from the end of the reader's vectors
    start: int
    end: int


# Made by their own `__new__`, these would cost three times as much as the tuples that they are.
_operation: Callable[[tuple[Rule, tuple[int, ...], float, str, int, int]], Operation] = functools.partial(
    tuple.__new__, Operation
)
_waiting: Callable[[tuple[Binding | None, Rule | VectorFunction | None, int, int]], Waiting] = functools.partial(
    tuple.__new__, Waiting
)
_output: Callable[[tuple[str, int, int, int]], Output] = functools.partial(tuple.__new__, Output)
_span: Callable[[tuple[int, int, int]], Span] = functools.partial(tuple.__new__, Span)


def parse(text: str, lengths: Mapping[str, int] = MappingProxyType({})) -> Program:
    """The expression as a flat list of operations, each after the ones that it needs.

    lengths: of the inputs that are vectors. Such an input z is the inputs z[0], z[1], ...

    >>> [operation.rule.name for operation in parse("2*x + 1").operations]
    ['constant', 'input', 'multiply', 'constant', 'add']
    >>> list(parse("sum(2*z)", {"z": 3}).inputs)
    ['z[0]', 'z[1]', 'z[2]']
    """
    if len(text) > MOST_CHARACTERS:
        raise TooLarge(
            f"the expression has {len(text):,} characters and at most {MOST_CHARACTERS:,} are read",
            fix="Break it into smaller expressions",
        )
    return _Reader(text, lengths).program()


class _Reader:
    """The two stacks of the shunting yard, and the program that grows beside them."""

    def __init__(self, text: str, lengths: Mapping[str, int]) -> None:
        self.text = text
        self.lengths = lengths
        self.vectors: list[Sequence[int]] = []  # the places of their elements
        self.read_vectors: set[str] = set()
        self.n_arguments = 0
        self.operations: list[Operation] = []
        self.waiting: list[Waiting] = []
        self.finished: list[Span] = []
        self.inputs: dict[str, int] = {}
        self.known: dict[str, int] = {}  # inputs and defined names, and where their numbers will be
        self.defined: dict[str, Output] = {}
        self.unnamed: list[Output] = []

    def program(self) -> Program:
        words = split_tokens(self.text)
        word = next(words)
        while True:
            word = self.statement(word, words)
            if word.kind == "end":
                break
            word = next(words)
        statements = [*self.defined.values(), *self.unnamed]
        if not self.vectors:
            return Program(self.text, self.operations, self.inputs, statements)
        elements = [element for statement in statements for element in self.elements(statement)]
        read = frozenset(self.read_vectors)
        return Program(self.text, self.operations, self.inputs, elements, read).without_unused()

    def elements(self, statement: Output) -> list[Output]:
        """The statement, or one for each element of its vector."""
        if statement.place >= 0:
            return [statement]
        places = self.vectors[-statement.place - 1]
        name = statement.name or "output"
        return [statement._replace(name=f"{name}[{i}]", place=place) for i, place in enumerate(places)]

    def statement(self, word: Token, words: Iterator[Token]) -> Token:
        """Read one statement from its first word on, and give back the word that ended it."""
        name: Token | None = None
        if word.kind == "name" and word.text not in CALLED:
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
            place = self.known[name.text]
            first = self.operations[place if place >= 0 else self.vectors[-place - 1][0]].start
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
                        place = known[text]
                        if place < 0:
                            self.read_vectors.add(text)
                        finished.append(_span((place, start, end)))
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
                elif kind == "[":
                    waiting.append(_waiting((None, LIST, start, len(finished))))
                elif kind != "+":
                    raise self.missing_operand(word)
            elif kind in INFIX:
                binding = INFIX[kind]
                if waiting:
                    self.settle(binding)
                waiting.append(_waiting((binding, None, start, len(finished))))
                wants_operand = True
            elif kind in (")", "]"):
                self.close(word)
            elif kind == "[":
                self.index(word, words)
            elif kind == ",":
                self.comma(word)
                wants_operand = True
            elif kind in ("end", ";"):
                self.settle(None)
                if waiting:
                    sign = "]" if waiting[-1].function is LIST else ")"
                    raise self.error(
                        "this bracket is never closed", waiting[-1].start, f"Add {sign} where its part ends"
                    )
                return word
            elif kind == "=":
                raise self.error("only a name can stand before =", start, "Write name = expression")
            else:
                raise self.missing_sign(word)
            word = next(words)

    def operand_name(self, word: Token, following: Token) -> bool:
        """Take a name as an operand; True when it opened a call, so that an operand is wanted next."""
        if word.text in CALLED:
            if following.kind != "(":
                raise self.error(
                    f"{word.text} is a function and wants its argument in brackets",
                    word.start,
                    f"Write {word.text}(x)",
                )
            self.waiting.append(_waiting((None, CALLED[word.text], word.start, len(self.finished))))
            return True
        if following.kind == "(":
            raise self.not_a_function(word)
        if word.text in self.known:
            if self.known[word.text] < 0:
                self.read_vectors.add(word.text)
            self.finished.append(_span((self.known[word.text], word.start, word.end)))
        elif word.text in CONSTANTS:
            self.emit(_operation((CONSTANT, (), CONSTANTS[word.text], word.text, word.start, word.end)))
        elif word.text in self.lengths:
            self.vector_input(word)
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
            operands = (right,) if top is SIGN else (self.finished.pop(), right)
            if right.place < 0 or operands[0].place < 0:
                self.emit_each(top.rule, operands, min(start, operands[0].start), right.end)
            elif top is SIGN:
                self.emit(_operation((NEGATE, (right.place,), 0.0, "", start, right.end)))
            else:
                left = operands[0]
                self.emit(_operation((top.rule, (left.place, right.place), 0.0, "", left.start, right.end)))

    def close(self, word: Token) -> None:
        self.settle(None)
        if not self.waiting:
            sign = "[" if word.kind == "]" else "("
            raise self.error("this bracket was never opened", word.start, f"Take it away, or add {sign} before it")
        bracket = self.waiting.pop()
        if (bracket.function is LIST) != (word.kind == "]"):
            opened, fitting = ("[", "]") if bracket.function is LIST else ("(", ")")
            raise self.error(
                f"{word.kind} closes the {opened} of column {bracket.start + 1}", word.start, f"Write {fitting} here"
            )
        if bracket.function is None:
            inner = self.finished.pop()
            self.finished.append(_span((inner.place, bracket.start, word.end)))
            return
        arguments = self.finished[bracket.depth :]
        del self.finished[bracket.depth :]
        if isinstance(bracket.function, VectorFunction):
            self.call_vector_function(bracket.function, arguments, bracket.start, word.end)
            return
        rule = bracket.function
        if rule.arity is not None and len(arguments) != rule.arity:
            raise self.error(
                f"{rule.symbol} wants {rule.arity} argument{'s' * (rule.arity > 1)} and got {len(arguments)}",
                bracket.start,
                f"Write {rule.symbol}({', '.join('abc'[: rule.arity])})",
            )
        if all([a.place >= 0 for a in arguments]):
            self.emit(_operation((rule, tuple([a.place for a in arguments]), 0.0, "", bracket.start, word.end)))
        elif rule.arity is not None:
            self.emit_each(rule, arguments, bracket.start, word.end)
        else:
            self.emit_over(rule, self.one_vector(rule.symbol, arguments), bracket.start, word.end)

    # Vectors. The reader knows how long each is, and the program that comes out of it knows none.

    def vector_input(self, word: Token) -> None:
        require_free_name(word.text, self.text, word.start + 1)
        places = []
        for i in range(self.lengths[word.text]):
            name = f"{word.text}[{i}]"
            self.inputs[name] = len(self.operations)
            places.append(self.add(_operation((INPUT, (), 0.0, name, word.start, word.end))))
        self.finish_vector(places, word.start, word.end)
        self.known[word.text] = self.finished[-1].place

    def add(self, operation: Operation) -> int:
        """An operation that is no operand by itself, but an element or a step on the way to one."""
        self.emit(operation)
        return self.finished.pop().place

    def finish_vector(self, places: Sequence[int], start: int, end: int) -> None:
        self.vectors.append(places)
        self.finished.append(_span((-len(self.vectors), start, end)))

    def places(self, operand: Span) -> Sequence[int]:
        return (operand.place,) if operand.place >= 0 else self.vectors[-operand.place - 1]

    def emit_over(self, rule: Rule, places: Sequence[int], start: int, end: int) -> None:
        """A rule on all elements of a vector at once."""
        self.n_arguments += len(places)
        if self.n_arguments > MOST_ARGUMENTS:
            raise TooLarge(
                f"the functions of the expression take more than {MOST_ARGUMENTS:,} numbers",
                where=f"at column {start + 1}",
                fix="Name what is used often, as s = sum(v)",
            )
        self.emit(_operation((rule, tuple(places), 0.0, "", start, end)))

    def emit_each(self, rule: Rule, operands: Sequence[Span], start: int, end: int) -> None:
        """A rule element by element; a number meets every element."""
        vectors = [operand for operand in operands if operand.place < 0]
        self.require_one_length(vectors)
        n = len(self.places(vectors[0]))
        columns = [self.places(operand) if operand.place < 0 else (operand.place,) * n for operand in operands]
        elements = [self.add(_operation((rule, inputs, 0.0, "", start, end))) for inputs in zip(*columns, strict=True)]
        self.finish_vector(elements, start, end)

    def require_one_length(self, vectors: Sequence[Span]) -> None:
        lengths = [len(self.places(vector)) for vector in vectors]
        for vector, n in zip(vectors, lengths, strict=True):
            if n != lengths[0]:
                raise self.error(
                    f"a vector of {n} stands beside one of {lengths[0]}", vector.start, "Make them equally long"
                )

    def one_vector(self, symbol: str, arguments: Sequence[Span]) -> Sequence[int]:
        """The elements of one vector, or of several numbers in its place."""
        if len(arguments) == 1:
            return self.places(arguments[0])
        for argument in arguments:
            if argument.place < 0:
                raise self.error(
                    f"{symbol} takes one vector or several numbers, and got both",
                    argument.start,
                    f"Write {symbol}(v), or its elements {symbol}(v[0], v[1])",
                )
        return [argument.place for argument in arguments]

    def call_vector_function(self, function: VectorFunction, arguments: Sequence[Span], start: int, end: int) -> None:
        if function is LIST:
            inner = next((argument for argument in arguments if argument.place < 0), None)
            if inner is not None:
                raise self.error("a vector stands inside a vector", inner.start, "List numbers, as [1, 2, 3]")
            self.finish_vector([argument.place for argument in arguments], start, end)
            return
        is_list = function.arity == 1 and len(arguments) > 1
        number = next((argument for argument in arguments if argument.place >= 0), None)
        if not is_list and (len(arguments) != function.arity or number is not None):
            n = len(arguments)
            is_number = n == function.arity and number is not None
            wanted = "a vector" if function.arity == 1 else f"{function.arity} vectors"
            got = "a number" if is_number else f"{n} argument{'s' * (n > 1)}"
            example = ", ".join(["[a, b]", "[c, d]"][: function.arity])
            raise self.error(
                f"{function.symbol} wants {wanted} and got {got}",
                number.start if is_number and number else start,
                f"Write {function.symbol}({example}), or give a name a vector, as z=[4,3,2,1]",
            )
        if is_list:
            vectors = [self.one_vector(function.symbol, arguments)]
        else:
            self.require_one_length(arguments)
            vectors = [self.places(argument) for argument in arguments]

        def apply(rule: Rule, inputs: Sequence[int]) -> int:
            self.emit_over(rule, inputs, start, end)
            return self.finished.pop().place

        emit = Emitter(apply, lambda number: self.add(_operation((CONSTANT, (), number, "", start, end))))
        result = function.expand(emit, *vectors)
        if function.is_vector:
            self.finish_vector(result, start, end)
        else:
            self.finished.append(_span((result[0], start, end)))

    def index(self, word: Token, words: Iterator[Token]) -> None:
        """One element of the vector that was just read: v[0], or v[-1] from its end."""
        vector = self.finished.pop()
        if vector.place >= 0:
            name = self.text[vector.start : vector.end]
            is_input = name in self.inputs
            raise self.error(
                f"{quoted(name, 20)} is a number and has no elements",
                word.start,
                f"Give it a vector, as {name}=[4,3,2,1]" if is_input else "Take the index away",
            )
        following = next(words)
        is_from_end = following.kind == "-"
        digits = next(words) if is_from_end else following
        places = self.places(vector)
        if not digits.text.isdigit():
            raise self.error("an index is a whole number", digits.start, f"Choose 0 to {len(places) - 1}")
        # Digits beyond any vector are not made into a number: that could take very long.
        i = int(digits.text[:18]) * (-1 if is_from_end else 1)
        if not -len(places) <= i < len(places):
            raise self.error(
                f"there is no element {i} in a vector of {len(places)}",
                following.start,
                f"Elements are counted from 0: choose 0 to {len(places) - 1}",
            )
        end = next(words)
        if end.kind != "]":
            raise self.error("the index is not closed", end.start, "Write ] behind one whole number")
        self.finished.append(_span((places[i], vector.start, end.end)))

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
        if word.kind in (")", "]") and before and before.binding is None:
            function = None if before.function is LIST else before.function
            what = f"{function.symbol} has no argument" if function else "these brackets are empty"
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
        bracket = next((one for one in reversed(self.waiting) if one.binding is None), None)
        is_in_list = bracket is not None and bracket.function is LIST
        return self.error(
            f"a sign is missing between {quoted(before, 20)} and {quoted(after, 20)}",
            word.start,
            f"Write {before}, {after} in a vector" if is_in_list else f"To multiply, write {before}*{after}",
        )

    def not_a_function(self, word: Token) -> ExpressionError:
        meant = nearest(word.text, CALLED)
        known = word.text in self.known or word.text in CONSTANTS or not meant
        return self.error(
            f"{quoted(word.text)} is not a function",
            word.start,
            f"To multiply, write {word.text[:20]}*(...)" if known else f"Perhaps you meant {meant}",
        )
