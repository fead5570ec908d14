"""`pellucid rate`: train briefly while the learning rate climbs, and read from the loss which rate to take."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from pellucid.api.results import require_output_path, write_output
from pellucid.cli.contract import say_written, show_answer
from pellucid.cli.options import (
    SectionedCommand,
    command_named,
    data_option,
    given_flags,
    json_option,
    options_from,
    source_of,
    training_options,
)
from pellucid.options import options_of
from pellucid.records import LearningRateSearch
from pellucid.training.options import RateOptions, TrainOptions, all_options
from pellucid.training.workers import WorkerOptions


@command_named(
    "rate",
    "pellucid rate",
    "pellucid rate names.txt --model mlp --optimizer sgd --seeds 5",
    "pellucid rate book.txt --out rate.svg",
    "pellucid rate names --model neural-ngram --n 2 --optimizer sgd",
    "pellucid rate names --model mlp --optimizer sgd --lowest 0.001 --highest 1 --steps 1000 --rule flattest",
    cls=SectionedCommand,
)
@click.argument("data", required=False)
@options_from(TrainOptions, only=["model", "size"])
@options_from(RateOptions)
@click.option("--seeds", type=int, default=3, show_default=True, help="Number of sweeps, each with its own weights.")
@click.option("--seed", type=int, default=1, show_default=True, help="The first of the random seeds.")
@options_from(WorkerOptions)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Write a picture: .svg, .png or .html.")
@training_options
@data_option
@json_option
@click.pass_context
def command(ctx: click.Context, /, seeds: int, seed: int, out: Path | None, as_json: bool, **_: object) -> None:
    """Search the learning rate for a network on DATA, and say how sure the answer is.

    The rate climbs by a fixed factor at each step, from far too low until the loss turns, and the loss is watched. A
    rule reads it; several seeds must agree. Where they do not, or where nothing falls, there is no answer, and it says
    so.
    """
    from pellucid.api.train import rate

    if out:
        require_output_path(out)
    given = given_flags(ctx, [name for name in {**all_options(), **options_of(RateOptions)} if name != "seed"])
    workers = WorkerOptions(**given_flags(ctx, options_of(WorkerOptions)))
    found = rate(
        source_of(ctx, default="names"),
        seeds=range(seed, seed + max(0, seeds)),
        workers=workers,
        on_seed=say_seed,
        **given,
    )

    if out:
        from pellucid.figures.drawings.learning_rate import draw_learning_rate
        from pellucid.figures.picture import picture_file

        write_output(out, picture_file(draw_learning_rate(found.record), out.suffix.lower()))
    show_answer(found.record, as_json=as_json)
    if not as_json:
        say_written(out)


def say_seed(search: LearningRateSearch, n: int, of: int) -> None:
    answer = search.answers[0]
    found = "no answer" if answer is None else f"a rate of {answer:.2g}"
    print(f"seed {search.seeds[0]}: {found}, {n} of {of} seeds", file=sys.stderr, flush=True)


for _parameter in command.params:
    if isinstance(_parameter, click.Option) and _parameter.name == "learning_rate":
        _parameter.hidden = True  # given, it is refused: it is what is searched for
