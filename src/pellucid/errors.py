"""What can go wrong for a user, and how it is said.

    PellucidError            your input or your machine; nothing was changed        exit 2
    ├── ExpressionError      a mistake in an expression, with its column            exit 2
    ├── NotReal              the mathematics has no real answer there               exit 2
    ├── TooLarge             past a documented limit                                exit 2
    ├── DataChanged          the data became other data while they were read        exit 3
    ├── NotWritten           a run could not be written on; what was there is intact exit 3
    ├── NotFinite            a number of a network became nan or inf; not updated    exit 3
    ├── Stopped              a signal asked to stop; a run was saved first   exit 129, 130, 131, 143
    └── GraphChanges         a replay would not be the same graph                   exit 2

Every message says what came, where, and one way to mend it, in one line.
"""

import difflib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

LONGEST_LINE = 240
PREFIX = "pellucid: "


class PellucidError(Exception):
    """A mistake that a user can mend: what is wrong, where, and one fix.

    >>> str(PellucidError("the value of x is empty", fix="Write x=2"))
    'the value of x is empty. Write x=2.'
    >>> str(PellucidError("1 argument came where 2 are wanted", where="at column 3", fix="Write max(a, b)"))
    '1 argument came where 2 are wanted at column 3. Write max(a, b).'

    What a user may set is spelled by whoever shows the error: `kind="table"` in Python, `--kind table` in a shell. The
    texts name it in braces, and `options` has its value; None where only the name is meant.

    >>> error = PellucidError("three columns came", fix="Try {kind}", options={"kind": "table"})
    >>> str(error)
    "three columns came. Try kind='table'."
    >>> error.line(lambda name, value: f"--{name} {value}")
    'three columns came. Try --kind table.'
    """

    exit_code = 2

    def __init__(
        self, what: str, *, where: str = "", fix: str, options: Mapping[str, object] = MappingProxyType({})
    ) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix
        self.options = options

    def __reduce__(self) -> tuple[object, ...]:
        # Other processes send their errors back, and what Exception does by itself knows no keyword.
        return _restore_error, (type(self), self.args, {**vars(self), "options": dict(self.options)})

    def __str__(self) -> str:
        return self.line(python_spelling)

    def line(self, spell: Callable[[str, object], str]) -> str:
        """The whole message in one line, every option spelled by `spell(name, value)`."""
        place = f" {self.where}" if self.where else ""
        return one_line(self.spelled(f"{self.what}{place}. {self.fix}.", spell))

    def spelled(self, text: str, spell: Callable[[str, object], str]) -> str:
        """A text of this error with its options spelled."""
        for name, value in self.options.items():
            text = text.replace(f"{{{name}}}", spell(name, value))
        return text


def _restore_error(of: type[PellucidError], args: tuple[object, ...], state: dict[str, object]) -> PellucidError:
    error = of.__new__(of, *args)
    vars(error).update(state)
    return error


class ExpressionError(PellucidError):
    """A mistake in an expression, at a column counted from 1."""

    def __init__(self, what: str, *, text: str, column: int, fix: str) -> None:
        super().__init__(what, where=f"at column {column}", fix=fix)
        self.text = text
        self.column = column

    def excerpt(self, reach: int = 36) -> str:
        """Two lines: the expression around the column, and a caret under it."""
        start = max(0, self.column - 1 - reach)
        end = self.column - 1 + reach
        before = ("…" if start else "") + printable(self.text[start : self.column - 1])
        after = printable(self.text[self.column - 1 : end]) + ("…" if end < len(self.text) else "")
        return f"  {before}{after}\n  {' ' * len(before)}^"


class NotReal(ExpressionError):
    """The expression is well formed but has no real value at this point, such as log(-1)."""


class TooLarge(PellucidError):
    """More than a documented limit allows."""


class DataChanged(PellucidError):
    """The data are no longer what they were when the work began; what was done so far is intact."""

    exit_code = 3


class NotWritten(PellucidError):
    """A run could not be written on, because of the disk; everything up to its last checkpoint is intact."""

    exit_code = 3

    def __init__(self, what: str, *, run: str) -> None:
        super().__init__(what, fix=f"Make room and go on with pellucid train --resume {run}")


class NotFinite(PellucidError):
    """A loss or a gradient is no number any more. It was noticed before the update, so the weights are as they were.

    layer: the path of the first layer that it was seen in, as "blocks.2.feed_forward"; cause: what stands before it.
    """

    exit_code = 3

    def __init__(
        self, what: str, *, step: int, layer: str, learning_rate: float, highest: float, cause: str = ""
    ) -> None:
        where = f"at step {step} in {layer} (learning rate {learning_rate:.3g})"
        where += f"; {cause}" if cause else ""
        options = {"learning_rate": float(f"{highest / 10:.2g}")}
        super().__init__(what, where=where, fix="Try {learning_rate}", options=options)
        self.step = step
        self.layer = layer
        self.cause = cause


class Stopped(PellucidError):
    """A signal asked to stop. A run was saved before it did; run: which, or "" where there is none yet.

    >>> str(Stopped("stopped by Ctrl-C at step 120", run="names", exit_code=130))
    'stopped by Ctrl-C at step 120. Go on with pellucid train --resume names.'
    """

    def __init__(self, what: str, *, run: str, exit_code: int) -> None:
        again = f"Go on with pellucid train --resume {run}" if run else "Run the same command to start again"
        super().__init__(what, fix=again)
        self.exit_code = exit_code


class GraphChanges(PellucidError):
    """A recorded graph cannot stand for other numbers, because Python decided something by looking at these."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that `name` was most likely meant to be, or "" when none is near. Only its case may differ.

    >>> nearest("sigmid", ["sigmoid", "sin", "tanh"]), nearest("ID", ["id", "IDs"])
    ('sigmoid', 'id')
    """
    names = list(known)
    same = next((one for one in names if one.lower() == name.strip().lower()), "")
    return same or next(iter(difflib.get_close_matches(name, names, n=1, cutoff=0.6)), "")


def did_you_mean(name: str, known: Iterable[str], otherwise: str = "", *, show: Callable[[str], str] = str) -> str:
    """The fix for an unknown name: the nearest known one, as `show` writes it, else `otherwise`, else all there are.

    >>> did_you_mean("sigmid", ["sigmoid", "tanh"]), did_you_mean("q", ["sigmoid", "tanh"])
    ('Perhaps you meant sigmoid', 'Choose one of sigmoid, tanh')
    """
    names = list(known)
    meant = nearest(name, names)
    return f"Perhaps you meant {show(meant)}" if meant else otherwise or f"Choose one of {', '.join(names)}"


def require_one_of(noun: str, word: str, known: Iterable[str]) -> None:
    """Refuse a word that is none of the known ones, with the nearest of them.

    >>> require_one_of("optimizer", "adam", ("adamw", "sgd"))
    Traceback (most recent call last):
    pellucid.errors.PellucidError: there is no optimizer called 'adam'. Perhaps you meant adamw.
    """
    names = tuple(known)
    if word not in names:
        raise PellucidError(f"there is no {noun} called {quoted(word)}", fix=did_you_mean(word, names))


def python_spelling(name: str, value: object) -> str:
    """An option as a Python user writes it: `kind='table'`, or only its name where the value is None."""
    return name if value is None else f"{name}={value!r}"


def printable(text: str) -> str:
    """The text with every character that could move a terminal's cursor written as its code.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def quoted(text: str, longest: int = 40) -> str:
    """The text between quotes, safe to print, and cut in the middle when long.

    >>> quoted("x" * 100, longest=9)
    "'xxxx…xxxx'"
    """
    half = (longest - 1) // 2
    return f"'{printable(text if len(text) <= longest else f'{text[:half]}…{text[-half:]}')}'"


def one_line(text: str) -> str:
    """The text as one printable line that still fits the contract behind the prefix."""
    line = printable(" ".join(text.split()))
    room = LONGEST_LINE - len(PREFIX)
    return line if len(line) <= room else line[: room - 2] + "…."
