"""Options: what a user may set, declared once as the fields of a dataclass.

From one declaration come the option of the command line, its help, the check of its value and the parameter in Python:

    @dataclass(frozen=True)
    class SomeConfig:
        width: int = option(64, "Embedding (model) dimension; hidden size of an RNN.", minimum=1)
        positions: str = option("rotary", "Position encoding.", choices=("rotary", "learned"))

        def __post_init__(self) -> None:
            check_options(self)

Nothing heavy is loaded, so that a value that cannot be is refused before anything is read.
"""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from pellucid.errors import PellucidError, require_one_of

LARGEST = 1 << 20  # of a width, a depth or a context: past it a slip of the finger is likelier than a wish
_KEY = "option"


@dataclass(frozen=True)
class Option:
    """What is known of one option beside its name, its type and its default, which are the field's own."""

    help: str
    noun: str = ""  # of a value in a message, where it is not the field's name: "kind of tokens" of tokens
    minimum: float | None = None
    maximum: float | None = None
    is_minimum_open: bool = False  # the minimum itself is refused
    choices: tuple[str, ...] = ()
    flag: str = ""  # on the command line, where it is not the field's name with dashes: heads for n_heads
    aliases: tuple[str, ...] = ()  # older spellings of the flag, still taken and not shown
    kinds: tuple[str, ...] = ()  # the kinds of data that it concerns; () is all of them
    is_common: bool = False  # shown by --help; the others by --help-all
    example: str = ""  # a value that is mostly right
    value_name: str = ""  # what stands for the value in the help: COLUMN of --target COLUMN

    def check(self, noun: str, value: object, type_: type) -> None:
        """Refuse a value that cannot be, with the nearest that can."""
        if self.choices:
            require_one_of(noun, str(value), self.choices)
        elif type_ is int:
            require_whole(noun, value, int(1 if self.minimum is None else self.minimum), int(self.maximum or LARGEST))
        elif type_ is float:
            self._require_number(noun, value)
        elif typing.get_origin(type_) is tuple:
            self._require_numbers(noun, value)

    def _require_number(self, noun: str, value: object) -> None:
        low = -math.inf if self.minimum is None else self.minimum
        high = math.inf if self.maximum is None else self.maximum
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        number = float(value) if is_number else math.nan  # type: ignore[arg-type]  # a number, as was just seen
        if not math.isfinite(number) or not low <= number <= high or (self.is_minimum_open and number == low):
            above = "above" if self.is_minimum_open else "from"
            such = f", such as {self.example}" if self.example else ""
            came = f"{number:g}" if is_number else repr(value)
            raise PellucidError(f"{noun} is {came}", fix=f"Choose a number {above} {low:g} to {high:g}{such}")

    def _require_numbers(self, noun: str, value: object) -> None:
        if not isinstance(value, Sequence) or isinstance(value, str) or not value:
            such = f", such as {self.example}" if self.example else ""
            raise PellucidError(f"{noun} are {value!r}", fix=f"Choose one or more numbers{such}")
        for number in value:
            self._require_number(f"one of the {noun}", number)


def option(
    default: Any = dataclasses.MISSING,
    help: str = "",
    *,
    noun: str = "",
    minimum: float | None = None,
    maximum: float | None = None,
    is_minimum_open: bool = False,
    choices: tuple[str, ...] = (),
    flag: str = "",
    aliases: tuple[str, ...] = (),
    kinds: tuple[str, ...] = (),
    is_common: bool = False,
    example: str = "",
    value_name: str = "",
) -> Any:
    """A field of a dataclass that a user may set."""
    declared = Option(
        help, noun, minimum, maximum, is_minimum_open, choices, flag, aliases, kinds, is_common, example, value_name
    )
    return dataclasses.field(default=default, metadata={_KEY: declared})


def options_of(config: type) -> dict[str, Option]:
    """The fields of a dataclass that a user may set, by their names, in their order."""
    return {field.name: field.metadata[_KEY] for field in dataclasses.fields(config) if _KEY in field.metadata}


def types_of(config: type) -> Mapping[str, type]:
    """The plain type of each field: int, float, str, bool or tuple[float, ...]; if it may be None, what it else is."""
    return _read_types(config)


@cache  # a server asks for each request, and to read the hints anew was most of the work of checking it
def _read_types(config: type) -> Mapping[str, type]:
    return {name: _plain_type(hint) for name, hint in typing.get_type_hints(config).items()}


def _plain_type(hint: Any) -> type:
    parts = [one for one in typing.get_args(hint) if one is not type(None)]
    plain: type = parts[0] if type(None) in typing.get_args(hint) else hint
    return plain


def given_options(config: Any) -> dict[str, Any]:
    """The options of a config that are not at their defaults, by name: what was asked for.

    >>> @dataclass(frozen=True)
    ... class Example:
    ...     width: int = option(64, "")
    ...     depth: int = option(2, "")
    >>> given_options(Example(depth=3))
    {'depth': 3}
    """
    fields = {field.name: field for field in dataclasses.fields(config)}
    values = {name: getattr(config, name) for name in options_of(type(config))}
    return {name: value for name, value in values.items() if value != fields[name].default}


def flag_of(name: str, declared: Option) -> str:
    """How an option is spelled on the command line, without its dashes.

    >>> flag_of("n_heads", Option("", flag="heads")), flag_of("weight_decay", Option(""))
    ('heads', 'weight-decay')
    """
    return declared.flag or name.replace("_", "-")


def check_options(config: Any, *, without: Sequence[str] = ()) -> None:
    """Refuse a config one of whose values cannot be. A default that means "not said" (None, 0, "") is always well.

    without: fields that whoever calls has checked.

    >>> @dataclass(frozen=True)
    ... class Example:
    ...     width: int = option(64, "", minimum=1)
    ...     def __post_init__(self):
    ...         check_options(self)
    >>> Example(width=0)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: width is 0. The nearest that can be is 1.
    """
    types = types_of(type(config))
    for field in dataclasses.fields(config):
        declared, value = field.metadata.get(_KEY), getattr(config, field.name)
        if field.name in without:
            continue
        if declared is not None and not (value == field.default and field.default in (None, "", 0, 0.0)):
            declared.check(declared.noun or field.name.replace("_", " "), value, types[field.name])


def require_whole(noun: str, value: object, least: int = 1, most: int = LARGEST) -> None:
    """Refuse what is no whole number from `least` to `most`.

    >>> require_whole("depth", 0)
    Traceback (most recent call last):
    pellucid.errors.PellucidError: depth is 0. The nearest that can be is 1.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise PellucidError(
            f"{noun} is {value!r}, which is no whole number", fix=f"Choose one from {least} to {most:,}"
        )
    if not least <= value <= most:
        raise PellucidError(f"{noun} is {value:,}", fix=f"The nearest that can be is {min(max(value, least), most):,}")
