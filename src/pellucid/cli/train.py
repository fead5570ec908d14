"""`pellucid train`: a network of your data within minutes, beside everything that only counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pellucid.cli.networks import Sectioned, data_options, data_wishes, network_options, opened_early, training_wishes
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.records import TrainingReport

MAY_CHANGE = {"resume", "data", "data_option", "allow_new_data", "fresh_optimizer", "threads", "as_json"}


@click.command(
    "train",
    cls=Sectioned,
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid train
      pellucid train names.txt --model mlp --minutes 1
      pellucid train book.txt --context 64 --name my-book
      pellucid train penguins --target species
      pellucid train digits --model vit
      pellucid train pairs.txt --minutes 1
      pellucid train --resume my-book
    """,
)
@click.argument("data", required=False)
@click.option("--model", default="", help="The network; without it, one that suits the data.")
@click.option("--minutes", type=float, default=2.0, show_default=True, help="What the whole of it may take.")
@click.option("--steps", type=int, default=0, help="So many steps, in place of --minutes; the same bits every time.")
@click.option("--name", default="", help="Of the run's folder under ./runs; without it, after data and model.")
@click.option("--resume", metavar="RUN", default="", help="Go on with a run that was stopped, exactly where it was.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides everything that is left to chance.")
@data_options
@network_options
@click.option("--allow-new-data", is_flag=True, help="With --resume: the data may be other data.")
@click.option("--fresh-optimizer", is_flag=True, help="With --resume: forget what the optimizer remembers.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON, for machines.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    data: str | None,
    resume: str,
    name: str,
    allow_new_data: bool,
    fresh_optimizer: bool,
    as_json: bool,
    **_: object,
) -> None:
    """Train a network on DATA and show what it earns over models that are no network.

    DATA is a file (a list with one item a line, running text, a table, or pairs with a tab between source and target),
    a folder of class folders with images, or a set that comes with pellucid; without it, names. It is split, counted,
    and learned from within the budget. The run's folder holds everything that was seen, and report.html shows it.
    Ctrl-C saves; --resume goes on to the same bits.
    """
    if resume:
        _require_nothing_else(ctx)
        report = _resumed(ctx, resume, is_new_data_allowed=allow_new_data, is_optimizer_fresh=fresh_optimizer)
    else:
        for flag, is_given in (("--allow-new-data", allow_new_data), ("--fresh-optimizer", fresh_optimizer)):
            if is_given:
                raise PellucidError(f"{flag} changes nothing without --resume", fix="Leave it out")
        report = _trained(ctx, name)
    if as_json:
        from pellucid.figures.show import record_json

        click.echo(record_json(report))
    else:
        from pellucid.figures.show import show

        click.echo("")
        show(report)


def _trained(ctx: click.Context, name: str) -> TrainingReport:
    import time

    began = time.monotonic()
    training_wishes(ctx, kind="")
    reading = data_wishes(ctx)
    data = opened_early(ctx, reading)
    wishes = training_wishes(ctx, data.kind)

    from pellucid.runs import new_run_path
    from pellucid.training.sources import stem_of

    place = new_run_path(name, f"{stem_of(reading.source)}-{wishes.model}")

    from pellucid.cli.telling import ConsoleCallbacks
    from pellucid.figures.report_page import report_html
    from pellucid.training.run import train
    from pellucid.training.signals import steady_output, stop_requests

    with steady_output(), stop_requests() as stop:
        callbacks = ConsoleCallbacks(stop, report_html, is_quiet=bool(ctx.params["as_json"]))
        try:
            return train(reading, wishes, place, callbacks, read=data, began=began)
        finally:
            callbacks.close()


def _resumed(ctx: click.Context, word: str, *, is_new_data_allowed: bool, is_optimizer_fresh: bool) -> TrainingReport:
    from pellucid.cli.networks import source_of
    from pellucid.runs import find_run, is_finished

    run = find_run(word)
    if is_finished(run) and not ctx.params["as_json"]:
        click.echo(f"{run.name} is finished, so there is nothing to do. This is what it reached:")

    from pellucid.cli.telling import ConsoleCallbacks
    from pellucid.figures.report_page import report_html
    from pellucid.training.run import ResumeOptions, resume
    from pellucid.training.signals import steady_output, stop_requests

    changes = ResumeOptions(
        data=source_of(ctx, default=""),
        is_new_data_allowed=is_new_data_allowed,
        is_optimizer_fresh=is_optimizer_fresh,
        threads=int(ctx.params["threads"] or 0),
    )
    with steady_output(), stop_requests() as stop:
        callbacks = ConsoleCallbacks(stop, report_html, is_quiet=bool(ctx.params["as_json"]))
        try:
            return resume(run, changes, callbacks)
        finally:
            callbacks.close()


def _require_nothing_else(ctx: click.Context) -> None:
    """Refuse what would make a resumed run another run."""
    given = [
        max(parameter.opts, key=len)
        for parameter in ctx.command.params
        if parameter.name and parameter.name not in MAY_CHANGE
        if ctx.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    ]
    if given:
        raise PellucidError(
            f"a resumed run follows its own plan, so {', '.join(given)} cannot change",
            fix="Leave it out, or start a new run",
        )
