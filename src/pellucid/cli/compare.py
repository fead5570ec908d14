"""`pellucid compare`: the whole ladder on one split with one budget, in one table."""

from __future__ import annotations

import click

from pellucid.cli.contract import say_written, show_answer
from pellucid.cli.options import (
    FIRST,
    SectionedCommand,
    command_named,
    data_option,
    declared_option,
    given_flags,
    json_option,
    options_from,
    source_of,
)
from pellucid.data.options import DataOptions
from pellucid.errors import PellucidError, quoted
from pellucid.options import options_of
from pellucid.training.options import TrainOptions, all_options, network_settings
from pellucid.training.workers import WorkerOptions

N_SIZES = 3  # of the training side, where none are named


@command_named(
    "compare",
    "pellucid compare",
    "pellucid compare names.txt --minutes 1",
    "pellucid compare book.txt --models mlp,gru,transformer --steps 500",
    "pellucid compare digits --sizes 100,400,1400",
    "pellucid compare digits --models cnn,vit --seeds 3",
    cls=SectionedCommand,
)
@click.argument("data", required=False)
@click.option(
    "--models", default="all", show_default=True, help="Networks to compare, with commas; baselines always are."
)
@options_from(TrainOptions, only=FIRST[1:], minutes=0.5)
@click.option("--sizes", default="", help="Numbers of training examples, with commas; by default three of images.")
@click.option(
    "--seeds", type=int, default=1, show_default=True, help="Trainings of each network at each size, for intervals."
)
@options_from(WorkerOptions)
@click.option("--name", default="", help="Name of the folder under ./runs that gets a run for each network.")
@options_from(DataOptions, "The data")
@data_option
@declared_option("context", *network_settings()["context"], section="The training")
@options_from(TrainOptions, "The training", only=["threads", "start"])
@json_option
@click.pass_context
def command(ctx: click.Context, /, models: str, name: str, sizes: str, seeds: int, as_json: bool, **_: object) -> None:
    """Climb the whole ladder on DATA, from guessing to transformers, on one split.

    Every network gets the same time or the same steps. The table is sorted by dev, by which everything was chosen;
    test was read once for each. On images every network is trained at several sizes of the training side, and a
    picture shows accuracy against size; with several seeds each size is trained on other examples from other first
    weights, and the means have 95 % intervals.
    """
    names = [] if models == "all" else [word.strip() for word in models.split(",")]
    wanted = _sizes(sizes)

    from pellucid.api.train import SIZE_PICTURE, request_comparison, run_comparison

    given = given_flags(ctx, all_options())
    asked = WorkerOptions(**given_flags(ctx, options_of(WorkerOptions)))
    # With one worker one after another, in this process, and each with all threads.
    workers = asked if asked.on == "ray" or asked.n_at_once(2) > 1 else None
    request = request_comparison(source_of(ctx, default="names"), names, given, workers)
    is_by_size = bool(wanted) or request.data.kind == "images"

    from pellucid.cli.console import ComparisonCallbacks
    from pellucid.figures.report_page import report_html
    from pellucid.training.callbacks import stop_requests

    n_runs = len(request.trainings) * ((len(wanted) or N_SIZES) * max(1, seeds) if is_by_size else 1)
    with stop_requests() as stop:
        callbacks = ComparisonCallbacks(n_runs, stop, report_html, is_quiet=as_json)
        try:
            ladder, folder = run_comparison(request, wanted, name, callbacks, seeds=seeds, workers=workers)
        finally:
            callbacks.close()
    if not as_json:
        click.echo("")
    show_answer(ladder, as_json=as_json)
    if is_by_size and not as_json:
        say_written(folder / SIZE_PICTURE)


def _sizes(words: str) -> list[int]:
    """The numbers of training examples that were asked for."""
    found = []
    for word in [word.strip() for word in words.split(",")] if words else ():
        if not (word.isascii() and word.isdigit() and int(word[:9]) >= 1 and len(word) <= 9):
            raise PellucidError(
                f"--sizes has {quoted(word)}", fix="Give whole numbers with commas, such as 100,400,1400"
            )
        found.append(int(word))
    return found
