"""The source of a class with everything that it needs, as one file that imports no pellucid.

It is taken from the very files that pellucid runs, with their comments, never from a copy that is kept beside them.
From a class it goes to all names that its code uses, and takes what they stand for, in whichever file that is. Of each
class it takes the methods that are called by the name of some attribute in what was taken before; so what trains, folds
or draws maps stays behind. Then a few things are said otherwise:

    raise PellucidError(what, fix=...)      raise ValueError(what)
    width: int = setting("width", 64)       width: int = 64
    examples in docstrings                  left out

A function whose answer is known before may be given as another text (`instead`), as one that chooses a class by a name.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import importlib
import inspect
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from types import ModuleType
from typing import Any, NamedTuple

from pellucid.models.contracts import Network

PACKAGE = "pellucid"
ALWAYS = {"__init__", "__call__", "forward"}  # methods that are called without being named
DECLARING = {"setting", "option"}
Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign
Edit = tuple[int, int, str]  # from, to (both in characters of the file), and what stands there instead


@dataclass(frozen=True)
class Place:
    """A definition at the top of one of our files."""

    module: str
    name: str


@dataclass
class SourceFile:
    """One of our files: what stands at its top, by name, and where its names come from."""

    module: ModuleType
    text: str
    tree: ast.Module
    definitions: dict[str, Definition] = field(default_factory=dict)
    ours: dict[str, Place] = field(default_factory=dict)  # imported from our other files
    others: dict[str, str] = field(default_factory=dict)  # imported from elsewhere: the line that does so

    def __post_init__(self) -> None:
        self._lines = self.text.splitlines(keepends=True)
        self._starts = [0, *accumulate(map(len, self._lines))]

    def slice(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends in the text."""
        assert isinstance(node, ast.stmt | ast.expr | ast.arg)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _at(self, line: int, column: int) -> int:
        # Columns count bytes.
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


@cache
def source_file(module: str) -> SourceFile:
    """A file of ours, read."""
    imported = importlib.import_module(module)
    text = inspect.getsource(imported)
    file = SourceFile(imported, text, ast.parse(text))
    for node in _top_level(file.tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            file.definitions[node.name] = node
        elif isinstance(node, ast.Assign):
            first, *rest = [one.id for one in ast.walk(node.targets[0]) if isinstance(one, ast.Name)]
            file.definitions[first] = node
            file.ours |= {name: Place(module, first) for name in rest}  # of several in one line, by the first
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            file.definitions[node.target.id] = node
        elif isinstance(node, ast.Import):
            for one in node.names:
                file.others[one.asname or one.name.split(".")[0]] = f"import {_renamed(one)}"
        elif isinstance(node, ast.ImportFrom) and node.module and node.module != "__future__":
            for one in node.names:
                if node.module.split(".")[0] == PACKAGE:
                    file.ours[one.asname or one.name] = Place(node.module, one.name)
                else:
                    file.others[one.asname or one.name] = f"from {node.module} import {_renamed(one)}"
    return file


def _top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a file, those for type checkers alone included."""
    for node in tree.body:
        if isinstance(node, ast.If):
            yield from node.body
        else:
            yield node


def _renamed(one: ast.alias) -> str:
    return f"{one.name} as {one.asname}" if one.asname else one.name


class Instead(NamedTuple):
    """Another text for a function, and the classes that it names; the rest of what it needs is imported anyway."""

    text: str
    needs: tuple[Any, ...]


def gather_source(
    *roots: Any,
    instead: Mapping[str, Instead] | None = None,
    more: Sequence[str] = (),
    called: Sequence[str] = (),
) -> str:
    """All that these classes and functions need, the parts first.

    instead: of some functions, another text, by their names. more: lines that import what is written behind it.
    called: methods that whoever has the file will call.
    """
    return _Gathering(dict(instead or {}), more, called).run([_place_of(one) for one in roots])


class _Gathering:
    def __init__(self, instead: dict[str, Instead], more: Sequence[str], called: Sequence[str]) -> None:
        self.instead, self.more = instead, more
        self.called: set[str] = {*ALWAYS, *called}  # names of attributes in what was taken
        self.called_on_self: set[str] = set(ALWAYS)  # those of a network's own, in its own methods
        self.taken: dict[Place, set[Place]] = {}  # and what each needs
        self.imports: set[str] = set()
        self.names: dict[str, Place] = {}

    def run(self, roots: list[Place]) -> str:
        while True:  # until nothing calls a method that was left out before
            n_called = len(self.called) + len(self.called_on_self)
            self.taken.clear()
            self.imports.clear()
            self.names.clear()
            for root in roots:
                self._take(root)
            if len(self.called) + len(self.called_on_self) == n_called:
                break
        parts = [self._write(place) for place in self._in_order(roots)]
        return "\n".join(_import_lines(self.imports | set(self.more))) + "\n\n\n" + _joined(parts)

    def _take(self, place: Place) -> None:
        place = _origin(place)
        if place in self.taken:
            return
        known = self.names.setdefault(place.name, place)
        assert known == place, f"{place.name} of {place.module} and of {known.module} cannot stand in one file"
        needs: set[Place] = set()
        self.taken[place] = needs
        file = source_file(place.module)
        if place.name in self.instead:
            needs |= {_place_of(one) for one in self.instead[place.name].needs}
            attributes = ast.walk(ast.parse(self.instead[place.name].text))
            self.called |= {node.attr for node in attributes if isinstance(node, ast.Attribute)}
        for name in () if place.name in self.instead else self._names_in(file, place):
            if name in file.others:
                self.imports.add(file.others[name])
            elif name in file.definitions or name in file.ours:
                needs.add(_origin(file.ours.get(name, Place(place.module, name))))
            else:
                assert hasattr(builtins, name) or self._is_local(file, place, name), f"what is {name} of {place}?"
        for one in sorted(needs, key=lambda one: (one.module, one.name)):
            self._take(one)

    def _is_local(self, file: SourceFile, place: Place, name: str) -> bool:
        """Whether a name is given its value inside: a parameter, a variable, a part of a pattern."""
        inside: list[str] = []
        for node in ast.walk(file.definitions[place.name]):
            if isinstance(node, ast.arg):
                inside.append(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                inside.append(node.id)
            elif isinstance(node, ast.MatchAs | ast.MatchStar | ast.ExceptHandler) and node.name:
                inside.append(node.name)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                inside += [one.asname or one.name for one in node.names]
        return name in inside

    def _names_in(self, file: SourceFile, place: Place) -> set[str]:
        """The names that the live part of a definition uses; the attributes that it calls are remembered."""
        nodes = list(self._live(file, file.definitions[place.name]))
        found: set[str] = set()
        is_network = _is_network(file, place.name)
        while nodes:
            node = nodes.pop()
            if isinstance(node, ast.Raise) and _is_our_error(node):
                nodes.append(_first_argument(node))
                continue
            if isinstance(node, ast.Attribute):
                is_own = is_network and isinstance(node.value, ast.Name) and node.value.id == "self"
                (self.called_on_self if is_own else self.called).add(node.attr)
            if isinstance(node, ast.Name):
                found.add(node.id)
            nodes.extend(child for child in ast.iter_child_nodes(node) if not _is_annotation(node, child))
        return found - {place.name}

    def _live(self, file: SourceFile, node: Definition) -> Iterator[ast.AST]:
        """The parts of a definition that are taken."""
        if not isinstance(node, ast.ClassDef):
            yield node
            return
        yield from [*node.bases, *node.decorator_list, *(word.value for word in node.keywords)]
        for part in node.body:
            if isinstance(part, ast.FunctionDef):
                if self._is_called(file, node, part):
                    yield part
            elif isinstance(part, ast.AnnAssign):
                if part.value is not None and not _is_declaration(part.value):
                    yield part.value
            else:
                yield part

    def _is_called(self, file: SourceFile, owner: ast.ClassDef, method: ast.FunctionDef) -> bool:
        """A network's own methods are called by itself: reading token by token has names that others have too."""
        return method.name in (self.called_on_self if _is_network(file, owner.name) else self.called)

    def _in_order(self, roots: list[Place]) -> list[Place]:
        """Whatever is needed stands before what needs it, as far as that can be."""
        order: list[Place] = []
        seen: set[Place] = set()

        def visit(place: Place) -> None:
            if place in seen:
                return
            seen.add(place)
            for one in sorted(self.taken[place], key=lambda one: (one.module, self._line(one))):
                visit(one)
            order.append(place)

        for root in roots:
            visit(_origin(root))
        return order

    def _line(self, place: Place) -> int:
        return source_file(place.module).definitions[place.name].lineno

    def _write(self, place: Place) -> str:
        if place.name in self.instead:
            return self.instead[place.name].text.strip("\n")
        file = source_file(place.module)
        node = file.definitions[place.name]
        start, end = file.slice(node)
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.decorator_list:
            start = file.slice(node.decorator_list[0])[0] - 1  # the @ before it
        end = file.text.find("\n", end)  # with what is said of it on its last line
        start = _with_comments(file.text, start)
        edits = sorted(self._edits(file, node))
        text, at = [], start
        for begins, ends, new in edits:
            assert begins >= at, f"two changes overlap in {place}"
            text += [file.text[at:begins], new]
            at = ends
        text.append(file.text[at:end])
        return _tidied("".join(text))

    def _edits(self, file: SourceFile, node: Definition) -> Iterator[Edit]:
        left_out: list[tuple[int, int]] = []
        if isinstance(node, ast.ClassDef):
            for part in node.body:
                if isinstance(part, ast.FunctionDef) and not self._is_called(file, node, part):
                    first = part.decorator_list[0] if part.decorator_list else part
                    begins = file.text.rfind("\n", 0, _with_comments(file.text, file.slice(first)[0]))
                    left_out.append((begins, file.slice(part)[1]))
            yield from ((begins, ends, "") for begins, ends in left_out)
        for inner in ast.walk(node):
            if not isinstance(inner, ast.stmt | ast.expr | ast.arg) or _is_inside(file, inner, left_out):
                continue
            if isinstance(inner, ast.Raise) and _is_our_error(inner):
                begins, ends = file.slice(_first_argument(inner))
                yield (*file.slice(inner), f"raise ValueError({file.text[begins:ends].strip()})")
                left_out.append(file.slice(inner))
            if isinstance(inner, ast.AnnAssign) and inner.value is not None and _is_declaration(inner.value):
                yield self._plain_default(file, node, inner)
            yield from self._annotations(file, inner, left_out)
            yield from _without_examples(file, inner)

    def _plain_default(self, file: SourceFile, owner: Definition, part: ast.AnnAssign) -> Edit:
        assert isinstance(owner, ast.ClassDef)
        assert isinstance(part.target, ast.Name)
        assert part.value is not None
        config = getattr(file.module, owner.name)
        default = next(one.default for one in dataclasses.fields(config) if one.name == part.target.id)
        begins, ends = file.slice(part.annotation)[1], file.slice(part.value)[1]
        return begins, ends, "" if default is dataclasses.MISSING else f" = {default!r}"

    def _annotations(self, file: SourceFile, node: ast.AST, left_out: list[tuple[int, int]]) -> Iterator[Edit]:
        """Types that are not taken along are any; those from elsewhere are imported."""
        found = [getattr(node, "annotation", None), getattr(node, "returns", None)]
        for annotation in found:
            if not isinstance(annotation, ast.expr) or _is_inside(file, annotation, left_out):
                continue
            names = {one.id for one in ast.walk(annotation) if isinstance(one, ast.Name)}
            is_missing = any(self._is_ours(file, name) and name not in self.names for name in names)
            if is_missing:
                self.imports.add("from typing import Any")
                yield (*file.slice(annotation), "Any")
            else:
                self.imports |= {file.others[name] for name in names if name in file.others}

    def _is_ours(self, file: SourceFile, name: str) -> bool:
        return name in file.definitions or name in file.ours


def _place_of(one: Any) -> Place:
    return Place(one.__module__, one.__qualname__)


def _is_network(file: SourceFile, name: str) -> bool:
    found = getattr(file.module, name)
    return isinstance(found, type) and issubclass(found, Network)


def _origin(place: Place) -> Place:
    """Where a name is really defined, and not only imported again."""
    file = source_file(place.module)
    if place.name in file.definitions:
        return place
    assert place.name in file.ours, f"{place.name} is not defined in {place.module}"
    return _origin(file.ours[place.name])


def _is_our_error(node: ast.Raise) -> bool:
    is_call = isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name)
    return is_call and node.exc.func.id in ("PellucidError", "TooLarge")  # type: ignore[union-attr]  # it is a call


def _first_argument(node: ast.Raise) -> ast.expr:
    assert isinstance(node.exc, ast.Call)
    return node.exc.args[0]


def _is_declaration(value: ast.expr) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in DECLARING


def _is_annotation(node: ast.AST, child: ast.AST) -> bool:
    return child is getattr(node, "annotation", None) or child is getattr(node, "returns", None)


def _is_inside(file: SourceFile, node: ast.AST, spans: list[tuple[int, int]]) -> bool:
    begins, ends = file.slice(node)
    return any(first <= begins and ends <= last and (begins, ends) != (first, last) for first, last in spans)


def _with_comments(text: str, start: int) -> int:
    """Where the comments begin that stand right above."""
    line = text.rfind("\n", 0, start) + 1
    indent = text[line:start]
    while True:
        above = text.rfind("\n", 0, max(0, line - 1)) + 1
        if line and text[above : line - 1].startswith(f"{indent}#"):
            line, start = above, above + len(indent)
        else:
            return start


def _without_examples(file: SourceFile, node: ast.AST) -> Iterator[Edit]:
    """A docstring up to its first example."""
    told = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.ClassDef) else None
    if told is None or ">>>" not in told:
        return
    assert isinstance(node, ast.FunctionDef | ast.ClassDef)
    begins, ends = file.slice(node.body[0])
    text = file.text[begins:ends]
    head = text[: text.find(">>>")].rstrip()
    yield begins, ends, f'{head}\n{" " * node.body[0].col_offset}"""' if "\n" in head else f'{head}"""'


def _import_lines(imports: set[str]) -> list[str]:
    """Standard library first, then what has to be installed; one line for each module."""
    named: dict[str, list[str]] = {}
    for line in imports:
        source, _, name = line.removeprefix("from ").partition(" import ")
        if line.startswith("from"):
            named.setdefault(source, []).append(name)
    lines = [line for line in imports if line.startswith("import")]
    lines += [f"from {source} import {', '.join(sorted(names))}" for source, names in named.items()]
    groups: tuple[list[str], list[str]] = ([], [])
    for line in sorted(lines, key=lambda line: (line.startswith("from"), line)):
        groups[line.split()[1].split(".")[0] not in sys.stdlib_module_names].append(line)
    return [*groups[0], *[""] * bool(groups[0] and groups[1]), *groups[1]]


def _tidied(text: str) -> str:
    """Without the gaps that parts left behind, and with something in a class that nothing is left of."""
    text = re.sub(r"\n\s*\n(\s*\n)+", "\n\n", text.rstrip())
    text = re.sub(r"[ \t]+\n", "\n", text)
    last = text.splitlines()[-1]
    return text + "\n    pass" if text.lstrip().startswith(("class ", "@")) and last.rstrip().endswith(":") else text


def _joined(parts: list[str]) -> str:
    """Definitions two lines apart, and constants in a row."""
    text = ""
    for before, part in zip(["", *parts], parts, strict=False):
        is_small = all("\n" not in one or one.lstrip().startswith("#") for one in (before, part)) and before
        text += part if not text else ("\n" if is_small else "\n\n\n") + part
    return text + "\n"
