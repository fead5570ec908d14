"""`pellucid sweep`: the best of several settings by successive halving, and a run with them."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pellucid.cli.contract import say_written, show_answer
from pellucid.cli.options import (
    FIRST,
    SectionedCommand,
    command_named,
    data_option,
    given_flags,
    json_option,
    options_from,
    source_of,
    training_options,
)
from pellucid.errors import PellucidError, quoted
from pellucid.options import options_of
from pellucid.records import SweepTrial
from pellucid.training.options import Setting, TrainOptions, all_options, network_settings
from pellucid.training.workers import WorkerOptions


@command_named(
    "sweep",
    "pellucid sweep names --over learning_rate=0.003,0.01,0.03 --over width=32,64 --minutes 10",
    "pellucid sweep penguins --target species --over depth=1,2,3 --over dropout=0,0.2 --steps 400",
    "pellucid sweep book.txt --over context=32,64,128 --on ray --address ray://head:10001",
    cls=SectionedCommand,
)
@click.argument("data", required=False)
@click.option("--over", multiple=True, metavar="NAME=VALUES", help="A setting and its values, with commas; repeatable.")
@options_from(TrainOptions, only=FIRST, minutes=10.0)
@click.option("--trials", type=int, default=32, show_default=True, help="Most combinations that are tried.")
@click.option("--name", default="", help="Name of the folder under ./runs for the run with the best settings.")
@options_from(WorkerOptions)
@training_options
@data_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, over: tuple[str, ...], trials: int, name: str, as_json: bool, **_: object) -> None:
    """Search settings of a network on DATA by successive halving, and train a run with the best.

    Every combination of the values is trained for a few steps, the better half by dev for twice as many, and so on
    until one is left. It then trains a run that is ready to use, and test is read for that one alone. Trials run at
    the same time in processes of this machine, or on a Ray cluster; what is found does not depend on where.
    """
    workers = WorkerOptions(**given_flags(ctx, options_of(WorkerOptions)))
    if not 2 <= trials <= 4096:
        raise PellucidError(f"--trials is {trials}", fix="Choose a number from 2 to 4,096")
    given = given_flags(ctx, all_options())
    if "minutes" not in given and "steps" not in given:
        given["minutes"] = 10.0
    searched = read_over(over)

    from pellucid.api.sweep import SWEEP_PICTURE, search_folder, sweep
    from pellucid.cli.train import console
    from pellucid.figures.words.sweep import trial_words

    def say(trial: SweepTrial, round_: int, n: int, of: int) -> None:
        print(trial_words(trial, round_, n, of), file=sys.stderr, flush=True)

    with console(is_quiet=True) as callbacks:
        found = sweep(
            source_of(ctx, default="names"),
            over=searched,
            trials=trials,
            name=name,
            workers=workers,
            callbacks=callbacks,
            on_trial=say,
            **given,
        )
    show_answer(found.record, as_json=as_json)
    if not as_json:
        say_written(search_folder(Path(found.record.best_run)) / SWEEP_PICTURE)


def read_over(words: tuple[str, ...]) -> dict[str, list[Setting]]:
    """The settings that are searched over, each with its values in the type that it has.

    >>> read_over(("learning-rate=0.1,0.01", "width=32,64"))
    {'learning_rate': [0.1, 0.01], 'width': [32, 64]}
    """
    types = {name: type_ for name, (_, type_) in network_settings().items()}
    found: dict[str, list[Setting]] = {}
    for word in words:
        name, equals, values = word.partition("=")
        if not name.strip() or not equals or not values:
            raise PellucidError(f"{quoted(word)} is no setting with values", fix="Write --over width=32,64")
        key = _full_name(name.strip())
        if key in found:
            raise PellucidError(f"{quoted(name)} is searched over twice", fix="Give all its values at once")
        found[key] = [_read_value(value.strip(), types.get(key)) for value in values.split(",")]
    return found


def _full_name(word: str) -> str:
    """The field that a flag, an alias or a name means."""
    name = word.removeprefix("--").replace("-", "_")
    for field, declared in all_options().items():
        if name in (field, declared.flag.replace("-", "_"), *(one.replace("-", "_") for one in declared.aliases)):
            return field
    return name


def _read_value(word: str, type_: type | None) -> Setting:
    """As a whole number, a number, or a word, whichever it is."""
    for kind in (int, float):
        if type_ in (None, kind, float):
            try:
                return kind(word)
            except ValueError:
                continue
    return word
