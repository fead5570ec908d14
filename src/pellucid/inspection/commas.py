"""Commas that someone's Python file lacks: found where Python stops reading, and put there in memory, never on disk."""

from __future__ import annotations

import ast
import io
import tokenize
from typing import NamedTuple

from pellucid.errors import ExpressionError, quoted

MOST_COMMAS = 50


class Source(NamedTuple):
    """A file that can be read by Python, with the mistakes that were mended for that."""

    text: str
    mistakes: tuple[ExpressionError, ...]


def readable(text: str, name: str) -> Source:
    """The source with missing commas in their places; any other mistake is raised, with its line and a caret.

    >>> source = readable("net = [1 2]", "net.py")
    >>> source.text, str(source.mistakes[0])
    ('net = [1, 2]', "a comma is missing after 'net = [1' in net.py:1. Write 'net = [1,' there.")
    """
    mistakes: list[ExpressionError] = []
    for _ in range(MOST_COMMAS):
        error = _error_in(text)
        if error is None:
            return Source(text, tuple(mistakes))
        place = _comma_for(text, error) if "forgot a comma" in str(error.msg) else None
        if place is None:
            break
        line, column = place
        lines = text.splitlines(keepends=True)
        before = lines[line - 1]
        word = _last_word(before[:column])
        mistakes.append(_mistake(f"a comma is missing after {quoted(word)}", name, before, line, column, f"'{word},'"))
        lines[line - 1] = before[:column] + "," + before[column:]
        text = "".join(lines)
    assert error is not None, "the loop ends where there is none"
    raise _syntax(error, name, text)


def _error_in(text: str) -> SyntaxError | None:
    try:
        ast.parse(text)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:  # a null byte, or thousands of brackets
        return SyntaxError(str(error) or type(error).__name__)
    return None


def _comma_for(text: str, error: SyntaxError) -> tuple[int, int] | None:
    """The line and column after which a comma brings Python farther: tried after every word of what it points at."""
    first, last = error.lineno or 1, (error.end_lineno or error.lineno or 1)
    reached = (first, error.offset or 0)
    for end_line, end_column in _ends_of_words(text):
        if not first <= end_line <= last:
            continue
        lines = text.splitlines(keepends=True)
        line = lines[end_line - 1]
        lines[end_line - 1] = line[:end_column] + "," + line[end_column:]
        again = _error_in("".join(lines))
        if again is None or (again.lineno or 0, again.offset or 0) > _behind(reached, error):
            return end_line, end_column
    return None


def _behind(reached: tuple[int, int], error: SyntaxError) -> tuple[int, int]:
    """A comma that helps moves the error behind all that it pointed at, or it is only another mistake."""
    end = (error.end_lineno or reached[0], error.end_offset or reached[1])
    return max(reached, end)


def _ends_of_words(text: str) -> list[tuple[int, int]]:
    """Where every closing bracket, name, number and string ends."""
    found = []
    try:
        for word in tokenize.generate_tokens(io.StringIO(text).readline):
            is_end = word.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING) or word.string in (")", "]", "}")
            if is_end:
                found.append(word.end)
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass  # what was read up to there is enough
    return found


def _syntax(error: SyntaxError, name: str, text: str) -> ExpressionError:
    lines = text.splitlines() or [""]
    number = min(max(error.lineno or 1, 1), len(lines))
    column = max((error.offset or 1) - 1, 0)
    said = str(error.msg or "it cannot be read")
    return _mistake(f"Python cannot read this: {said}", name, lines[number - 1], number, column, "")


def _mistake(what: str, name: str, line: str, number: int, column: int, writes: str) -> ExpressionError:
    """A mistake in a line of a file."""
    fix = f"Write {writes} there" if writes else "Mend the line, and run it again"
    error = ExpressionError(what, text=line.rstrip("\r\n"), column=column + 1, fix=fix)
    error.where = f"in {name}:{number}"
    return error


def _last_word(text: str) -> str:
    """What stands before a place, as far as it fits: the last call or word."""
    words = text.strip()
    return words if len(words) <= 30 else f"…{words[-29:]}"
