"""A module out of someone's file, imported as if it were run where it lies; only for the child of `sandbox`."""

from __future__ import annotations

import ast
import inspect
import io
import keyword
import sys
import tokenize
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

from torch import nn

from pellucid.errors import ExpressionError, PellucidError, did_you_mean, one_line, quoted
from pellucid.inspection.instrument.isolation import first_line
from pellucid.inspection.sandbox import memory_bound

UNIQUE = "_looked_at_by_pellucid"  # begins the name of their module, which so is nobody else's
LARGEST_FILE = 16 << 20
_VALUES = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)
MOST_COMMAS = 50  # that are put into a file; in memory, never on disk


class LoadedName(NamedTuple):
    """What a file has under a name."""

    value: Any
    mistakes: tuple[ExpressionError, ...]  # in the file, which were mended to read on


class ModuleWithInputs(NamedTuple):
    """A module, and the inputs where they came with it."""

    model: nn.Module
    inputs: tuple[Any, ...]


def load_name(path: Path, name: str) -> LoadedName:
    """What the file has under that name, after it was run."""
    source = insert_missing_commas(_text_of(path), path.name)
    module = _import_file(path, source.text)
    value: Any = module
    for part in name.split("."):
        with translate_errors(path):
            if not hasattr(value, part):
                raise _no_such(module, path, name)
            value = getattr(value, part)
    return LoadedName(value, source.mistakes)


def as_module(value: Any, name: str, path: Path) -> ModuleWithInputs:
    """The module that a value is, or makes: an instance, a class, or a function without arguments."""
    made = value
    if not isinstance(made, nn.Module) and callable(made):
        _require_no_arguments(made, name)
        with translate_errors(path):
            made = made()
    inputs: tuple[Any, ...] = ()
    if isinstance(made, tuple) and made and isinstance(made[0], nn.Module):
        # (model, inputs, ...), as the doctor takes it
        second = made[1] if len(made) > 1 else ()
        inputs = tuple(second) if isinstance(second, tuple | list) else (second,)
        made = made[0]
    if not isinstance(made, nn.Module):
        how = "is" if made is value else "gives something"
        raise PellucidError(
            f"{quoted(name)} of {quoted(path.name)} {how} of the type {type(made).__name__}, and no nn.Module",
            fix="Name a module, a class of them, or a function that makes one",
        )
    return ModuleWithInputs(made, inputs)


def _require_no_arguments(make: Callable[..., Any], name: str) -> None:
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return
    usual = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [one.name for one in parameters if one.default is one.empty and one.kind not in usual]
    if needed:
        raise PellucidError(
            f"{quoted(name)} needs {', '.join(needed[:6])}",
            fix=f"Add a function without arguments, as def model(): return {name}(...), and name that",
        )


def _no_such(module: ModuleType, path: Path, name: str) -> PellucidError:
    here = [one for one, value in vars(module).items() if not one.startswith("_") and _could_be(value, module)]
    fix = did_you_mean(name, here, (f"It has {', '.join(here[:8])}" if here else "It has none"))
    return PellucidError(f"{quoted(path.name)} has nothing called {quoted(name)}", fix=fix)


def _could_be(value: Any, module: ModuleType) -> bool:
    """Whether it is a module, or a class or function that was made in this file."""
    return isinstance(value, nn.Module) or (callable(value) and getattr(value, "__module__", "") == module.__name__)


def _text_of(path: Path) -> str:
    raw = path.read_bytes()
    if len(raw) > LARGEST_FILE:
        raise PellucidError(
            f"{quoted(path.name)} has {len(raw) >> 20} MB, which is no program", fix="Name another file"
        )
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PellucidError(
            f"{quoted(path.name)} is not UTF-8 text at byte {error.start}", fix="Save it as UTF-8"
        ) from error


def _import_file(path: Path, text: str) -> ModuleType:
    """The file, imported: in its package where it lies in one, so that its relative imports work."""
    root, package = path.parent, ""
    while (root / "__init__.py").is_file() and root.parent != root:
        package = f"{root.name}.{package}" if package else root.name
        root = root.parent
    stem = "".join(one if one.isidentifier() or one.isdigit() else "_" for one in path.stem)
    name = f"{package}.{path.stem}" if package else f"{UNIQUE}_{stem}"
    sys.meta_path.insert(0, _TheirFolder(str(root)))
    spec = spec_from_loader(name, _Mended(name, str(path), text))
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    with translate_errors(path):
        assert spec.loader is not None
        spec.loader.exec_module(module)
    return module


class _TheirFolder(MetaPathFinder):
    """Files beside theirs can be imported; none of them in place of Python's own, or of what is loaded already."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any, target: ModuleType | None = None) -> ModuleSpec | None:
        if path is not None or name in sys.stdlib_module_names:
            return None
        return PathFinder.find_spec(name, [self.folder])


class _Mended(SourceFileLoader):
    """A file whose text is not quite what is on the disk."""

    def __init__(self, name: str, path: str, text: str) -> None:
        super().__init__(name, path)
        self.text = text

    def get_code(self, fullname: str) -> CodeType:
        code = self.source_to_code(self.text.encode(), self.path)
        assert isinstance(code, CodeType)
        return code


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Whatever their code raises inside becomes one line with their file and line."""
    try:
        yield
    except PellucidError:
        raise
    except SystemExit as error:
        raise PellucidError(
            f"{quoted(path.name)} leaves with sys.exit({error.code!r})",
            where=f"in {line_of(error, path)}",
            fix='Put it behind if __name__ == "__main__"',
        ) from error
    except SyntaxError as error:
        name, column = Path(error.filename or path).name, max(0, (error.offset or 1) - 1)
        what = f"Python cannot read this: {error.msg}"
        raise _mistake(what, name, error.text or "", error.lineno or 1, column, "") from error
    except BaseException as error:
        raise PellucidError(_what(error, path), where=f"in {line_of(error, path)}", fix=_fix(error)) from error


def line_of(error: BaseException, path: Path) -> str:
    """The last line of theirs on the way to an error: in their file or beside it."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [one for one in frames if Path(one.filename).parent == path.parent or one.filename == str(path)]
    if not theirs:
        return path.name
    return f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}"


def _what(error: BaseException, path: Path) -> str:
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return f"{quoted(path.name)} asks for more memory than the {memory_bound() >> 30} GB that it may have"
    said = first_line(error)
    return one_line(f"{quoted(path.name)} raised {type(error).__name__}" + f": {said}" * bool(said))


def _fix(error: BaseException) -> str:
    if isinstance(error, ModuleNotFoundError):
        return f"Install {error.name}, or put it beside the file"
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return "Make it smaller"
    return "Mend it there; python alone shows the whole way to it"


class MendedSource(NamedTuple):
    """A file that can be read by Python, with the mistakes that were mended for that."""

    text: str
    mistakes: tuple[ExpressionError, ...]


def insert_missing_commas(text: str, name: str) -> MendedSource:
    """The source with missing commas in their places; any other mistake is raised, with its line and a caret.

    >>> source = insert_missing_commas("net = [1 2]", "net.py")
    >>> source.text, str(source.mistakes[0])
    ('net = [1, 2]', "a comma is missing after 'net = [1' in net.py:1. Write 'net = [1,' there.")
    """
    mistakes: list[ExpressionError] = []
    for _ in range(MOST_COMMAS):
        error = _error_in(text)
        if error is None:
            return MendedSource(text, tuple(mistakes))
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
    """The line and column where a comma is missing: between two values side by side, in what Python points at."""
    begin = (error.lineno or 1, (error.offset or 1) - 1)
    end = (error.end_lineno or begin[0], error.end_offset or len(text))
    before: tokenize.TokenInfo | None = None
    try:
        for word in tokenize.generate_tokens(io.StringIO(text).readline):
            if word.type in (tokenize.NL, tokenize.COMMENT):
                continue
            is_name = not keyword.iskeyword(word.string) or word.string in ("True", "False", "None")
            is_value = word.type in _VALUES and is_name
            if before is not None and is_value and begin <= before.end and word.start <= end:
                are_texts = before.type == word.type == tokenize.STRING  # which Python joins
                if not are_texts:
                    return before.end
            before = word if is_value or word.string in (")", "]", "}") else None
    except (tokenize.TokenError, IndentationError, SyntaxError):
        pass  # what was read up to there is enough
    return None


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
