"""Options of the command line, made from what the library declares: `DataOptions`, `TrainOptions`, networks' configs.

From a field come the flag, its type, its default and its help. Nothing heavy is loaded.
"""

from __future__ import annotations

import copy
import dataclasses
import textwrap
import typing
from collections.abc import Callable, Iterable
from typing import Any

import click

from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError, quoted
from pellucid.models.counting import CountOptions
from pellucid.options import Option, flag_of, options_of, types_of
from pellucid.training.options import COUNTING, TrainOptions, network_settings

MAY_BE_EMPTY = ("prompt", "text")  # what a network is to go on from, or to answer
SETTINGS = {"help_option_names": ["--help"], "max_content_width": 100}  # of every command
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

json_option = click.option("--json", "as_json", is_flag=True, help="Everything as JSON, for machines.")


class NumbersType(click.ParamType[Any]):
    """Several numbers with commas between them, as 0.5,1,1.5."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return tuple([float(part) for part in value.split(",")])
        except ValueError:
            self.fail(f"{value!r} is no list of numbers with commas between them, as 0.5,1", param, ctx)


class DeclaredOption(click.Option):
    """An option made from a declaration. Older spellings of its flag are taken and not shown."""

    def __init__(self, *args: Any, section: str = "", is_common: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section
        self.is_common = is_common

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        shown = copy.copy(self)
        shown.opts = [word for word in self.opts if not word.startswith("--")] + self.opts[:1]
        return super(DeclaredOption, shown).get_help_record(ctx)


class StrictCommand(click.Command):
    """A command that refuses an option which is given and empty, and numbers in other digits than 0 to 9.

    Python would read ٣ as 3 and 1_0 as 10, and an empty --resume would be none: neither was meant, or nobody knows.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        raw, _, _ = self.make_parser(ctx).parse_args(list(args))
        for parameter in self.get_params(ctx):
            given = raw.get(parameter.name or "")
            for word in given if isinstance(given, list | tuple) else [given]:
                if isinstance(parameter, click.Option) and isinstance(word, str):
                    _require_plain(parameter, word)
        return super().parse_args(ctx, args)


def _require_plain(option: click.Option, word: str) -> None:
    flag = option.opts[0]
    if not word and option.name not in MAY_BE_EMPTY:
        raise PellucidError(f"{flag} is empty", fix="Give it a value, or leave it out")
    is_number = isinstance(option.type, NumbersType | type(click.INT) | type(click.FLOAT))
    if is_number and (not word.isascii() or "_" in word or word != word.strip()):
        raise PellucidError(f"{flag} is {quoted(word)}", fix="Write numbers with the digits 0 to 9 alone")


class SectionedCommand(StrictCommand):
    """A command with many options: --help shows those that matter, and --help-all every one under its heading."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        show_all = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all_help,
            help="Show every option and exit.",
        )
        *own, last = super().get_params(ctx)  # the last one is --help
        return [*own, show_all, last]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        shows_all = bool(ctx.meta.get("pellucid.help_all"))
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            is_rare = isinstance(parameter, DeclaredOption) and not parameter.is_common
            if record is None or not isinstance(parameter, click.Option) or (is_rare and not shows_all):
                continue
            section = parameter.section if isinstance(parameter, DeclaredOption) and shows_all else ""
            sections.setdefault(section or "Options", []).append(record)
        for heading, records in sections.items():
            with formatter.section(heading):
                formatter.write_dl(records)


def _show_all_help(ctx: click.Context, parameter: click.Parameter, is_asked: bool) -> None:
    if is_asked:
        ctx.meta["pellucid.help_all"] = True
        click.echo(ctx.get_help())
        ctx.exit()


def command_named(
    name: str, *examples: str, more: str = "", cls: type[click.Command] = StrictCommand, **settings: Any
) -> Callable[[Callable[..., Any]], click.Command]:
    """A command whose help ends with examples, and with more that is to be said. settings: of its click context."""
    paragraphs = ["Examples:\n" + "\n".join([f"  {line}" for line in examples]), textwrap.dedent(more).strip("\n")]
    return click.command(
        name,
        cls=cls,
        context_settings={**SETTINGS, **settings},
        epilog="\n\n".join([f"\b\n{text}" for text in paragraphs if text]),
    )


def declared_option(name: str, declared: Option, type_: type, default: Any = None, section: str = "") -> Decorator:
    """The option of a declaration; without a default it is not given."""
    flags = [f"--{flag_of(name, declared)}", *(_alias(word) for word in declared.aliases)]
    metavar = declared.value_name or ("NAME" if declared.choices else None)
    is_unset = default is dataclasses.MISSING or default in (None, "", 0, 0.0, False)
    if typing.get_origin(type_) is tuple:
        type_, metavar = NumbersType(), metavar or "NUMBERS"  # type: ignore[assignment]  # click takes either
        default = ",".join([f"{number:g}" for number in default])
    return click.option(
        *flags,
        name,
        cls=DeclaredOption,
        section=section,
        is_common=declared.is_common or not section,
        help=help_of(declared),
        **({"is_flag": True} if type_ is bool else {"type": type_, "metavar": metavar}),
        **({} if is_unset else {"default": default, "show_default": True}),
    )


def _alias(word: str) -> str:
    return word if word.startswith("-") else f"--{word}"


def help_of(declared: Option) -> str:
    """The help text, with the choices behind what is chosen.

    >>> help_of(Option("Size of the network; by default it follows from the data", choices=("tiny", "small", "large")))
    'Size of the network: tiny, small or large; by default it follows from the data.'
    """
    head, semicolon, tail = declared.help.rstrip(".").partition(";")
    if declared.choices:
        *some, last = declared.choices
        head += f": {', '.join(some)} or {last}" if some else f": {last}"
    return f"{head}{semicolon}{tail}."


def options_from(config: type, section: str = "", *, only: Iterable[str] = (), **defaults: Any) -> Decorator:
    """Every option of a config, or those named; a default may be the command's own."""
    types, fields = types_of(config), {field.name: field for field in dataclasses.fields(config)}
    names = list(only) or list(options_of(config))
    return together(
        declared_option(name, options_of(config)[name], types[name], defaults.get(name, fields[name].default), section)
        for name in names
    )


def together(decorators: Iterable[Decorator]) -> Decorator:
    """Several options, shown in this order."""
    options = list(decorators)

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for one in reversed(options):
            command = one(command)
        return command

    return decorate


# What the commands that train share.
FIRST = ("model", "minutes", "steps", "size", "seed")
ONLY_TRAIN = ("from_run",)  # not of a comparison or a search
data_option = click.option(
    "--data",
    "data_option",
    cls=DeclaredOption,
    section="The data",
    is_common=False,
    metavar="DATA",
    help="Another way to name DATA; with --resume, where it is now.",
)


def training_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """What is read, which network, and how it is trained; but for what each command shows first."""
    rest = [name for name in options_of(TrainOptions) if name not in (*FIRST, *ONLY_TRAIN)]
    return together(
        [
            options_from(DataOptions, "The data"),
            together(
                declared_option(name, declared, type_, section="The network")
                for name, (declared, type_) in network_settings().items()
            ),
            options_from(CountOptions, "A model that counts", only=COUNTING),
            options_from(TrainOptions, "The training", only=rest),
        ]
    )(command)


def given_flags(ctx: click.Context, names: Iterable[str]) -> dict[str, Any]:
    """The options among these that stood on the command line."""
    source = click.core.ParameterSource.COMMANDLINE
    return {name: ctx.params[name] for name in names if name in ctx.params and ctx.get_parameter_source(name) is source}


def source_of(ctx: click.Context, default: str) -> str:
    """What DATA names, or --data does."""
    argument, option = ctx.params["data"], ctx.params["data_option"]
    if argument and option:
        raise PellucidError("the data are named twice, with --data and without", fix="Leave one of them out")
    return str(argument or option or default)


def refuse_given(ctx: click.Context, names: Iterable[str], why: str) -> None:
    """Refuse an option that stands on the command line and would change nothing."""
    for name in given_flags(ctx, names):
        raise PellucidError(f"{{{name}}} changes nothing {why}", fix="Leave it out", options={name: None})
