"""`pellucid train`: a network of your data within minutes, beside everything that only counts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from pellucid.cli.contract import show_answer, steady_output
from pellucid.cli.options import (
    FIRST,
    ONLY_TRAIN,
    DeclaredOption,
    Decorator,
    SectionedCommand,
    command_named,
    data_option,
    given_flags,
    json_option,
    options_from,
    refuse_given,
    source_of,
    training_options,
)
from pellucid.errors import PellucidError
from pellucid.models.counting import COUNT_MODELS
from pellucid.options import options_of
from pellucid.training.launch import LaunchOptions, is_follower, is_worker, launch
from pellucid.training.options import TrainOptions, all_options

if TYPE_CHECKING:
    from pellucid.cli.console import ConsoleCallbacks, SilentCallbacks

RESUMING = ("allow_new_data", "fresh_optimizer")
LAUNCHING = tuple(options_of(LaunchOptions))
MAY_CHANGE = {"resume", "data", "data_option", "threads", "device", "as_json", *RESUMING, *LAUNCHING}


def _resuming(flag: str, help: str) -> Decorator:
    return click.option(flag, cls=DeclaredOption, section="Resuming", is_common=False, is_flag=True, help=help)


@command_named(
    "train",
    "pellucid train",
    "pellucid train names.txt --model mlp --minutes 1",
    "pellucid train book.txt --context 64 --name my-book",
    "pellucid train penguins --target species",
    "pellucid train digits --model vit",
    "pellucid train pairs.txt --minutes 1",
    "pellucid train more.txt --from my-book",
    "pellucid train --resume my-book",
    cls=SectionedCommand,
)
@click.argument("data", required=False)
@options_from(TrainOptions, only=(*FIRST, *ONLY_TRAIN))
@click.option("--name", default="", help="Name of the run's folder under ./runs; by default after data and model.")
@click.option("--runs", metavar="FOLDER", default="runs", help="Folder that runs are kept in; by default ./runs.")
@click.option("--resume", metavar="RUN", default="", help="Go on with a run that was stopped, exactly where it was.")
@training_options
@options_from(LaunchOptions, "Several processes")
@data_option
@_resuming("--allow-new-data", help="With --resume: the data may be other data.")
@_resuming("--fresh-optimizer", help="With --resume: reset the state of the optimizer.")
@json_option
@click.pass_context
def command(ctx: click.Context, /, resume: str, name: str, runs: str, as_json: bool, **_: object) -> None:
    """Train a network on DATA and show what it earns over models that are no network.

    DATA is a file (a list with one item a line, running text, a table, or pairs with a tab between source and target),
    a folder of class folders with images, or a set that comes with pellucid; without it, names. It is split, counted,
    and learned from within the budget. The run's folder holds everything that was seen, and report.html shows it.
    Ctrl-C saves; --resume goes on to the same bits.
    """
    asked = LaunchOptions(**given_flags(ctx, LAUNCHING))
    if asked.is_several and not is_worker():
        ctx.exit(_launch(ctx, asked, resume))

    from pellucid.api import train as api

    if resume:
        _require_nothing_else(ctx)
        was_finished = _is_finished(resume)
        changes = given_flags(ctx, ("threads", "device", *RESUMING))
        with console(is_quiet=as_json) as callbacks:
            run = api.resume(resume, data=source_of(ctx, default=""), callbacks=callbacks, **changes)
        if was_finished and not as_json:
            click.echo(f"{run.folder.name} is finished, so there is nothing to do. This is what it reached:")
    else:
        refuse_given(ctx, RESUMING, "without --resume")
        source, given = source_of(ctx, default="names"), given_flags(ctx, all_options())
        with console(is_quiet=as_json) as callbacks:
            run = api.train(source, name=name, runs=runs, callbacks=callbacks, **given)

    if is_follower():
        return
    if not as_json:
        click.echo("")
    show_answer(run.report, as_json=as_json)


def _launch(ctx: click.Context, asked: LaunchOptions, resume: str) -> int:
    """The same command in several processes; what it cannot mean is refused here, once."""
    if resume:
        _require_nothing_else(ctx)
    else:
        from pellucid.api.train import request_training

        refuse_given(ctx, RESUMING, "without --resume")
        given = given_flags(ctx, all_options())
        if given.get("model") in COUNT_MODELS:
            raise PellucidError(
                f"{given['model']} only counts, which one process does",
                fix="Leave {processes} out",
                options={"processes": None},
            )
        request_training(source_of(ctx, default="names"), given)
    return launch(sys.argv[1:], asked)


@contextmanager
def console(*, is_quiet: bool) -> Iterator[ConsoleCallbacks | SilentCallbacks]:
    """Callbacks that tell a run on the terminal, and stop it at a signal."""
    from pellucid.cli.console import ConsoleCallbacks, SilentCallbacks
    from pellucid.figures.report_page import report_html
    from pellucid.training.callbacks import stop_requests

    with steady_output(), stop_requests() as stop:
        callbacks = SilentCallbacks(stop) if is_follower() else ConsoleCallbacks(stop, report_html, is_quiet=is_quiet)
        try:
            yield callbacks
        finally:
            callbacks.close()


def _is_finished(word: str) -> bool:
    from pellucid.runs import open_run

    return open_run(word).is_finished


def _require_nothing_else(ctx: click.Context) -> None:
    """Refuse what would make a resumed run another run."""
    given = given_flags(ctx, {parameter.name for parameter in ctx.command.params if parameter.name} - MAY_CHANGE)
    flags = [parameter.opts[0] for parameter in ctx.command.params if parameter.name in given]
    if flags:
        raise PellucidError(
            f"a resumed run follows its own plan, so {', '.join(flags)} cannot change",
            fix="Leave it out, or start a new run",
        )
