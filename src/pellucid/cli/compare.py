"""`pellucid compare`: the whole ladder on one split with one budget, in one table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.cli.networks import Sectioned, data_options, data_wishes, opened_early, training_wishes
from pellucid.errors import PellucidError, quoted
from pellucid.models.catalogue import compared_networks

if TYPE_CHECKING:
    from pellucid.cli.telling import ConsoleCallbacks
    from pellucid.data import Data
    from pellucid.data.options import DataOptions
    from pellucid.records import Ladder
    from pellucid.training.options import TrainOptions

PICTURE = "accuracy-by-size.svg"


@click.command(
    "compare",
    cls=Sectioned,
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid compare
      pellucid compare names.txt --minutes 1
      pellucid compare book.txt --models mlp,gru,transformer --steps 500
      pellucid compare digits --sizes 100,400,1400
    """,
)
@click.argument("data", required=False)
@click.option("--models", default="all", show_default=True, help="Which networks, with commas; what counts always is.")
@click.option("--minutes", type=float, default=0.5, show_default=True, help="For each network.")
@click.option("--steps", type=int, default=0, help="So many steps for each, in place of --minutes.")
@click.option("--name", default="", help="Of the folder under ./runs that gets a run for each network.")
@click.option("--seed", type=int, default=1, show_default=True, help="Decides everything that is left to chance.")
@click.option("--size", default="", help="tiny, small, medium or large; without it, by the data.")
@click.option("--context", type=int, help="Tokens in a window of running text.")
@click.option("--threads", type=int, help="Part of the runs: another number gives other last bits.")
@click.option("--sizes", default="", help="Of the training side, with commas; of images, without it, three of them.")
@data_options
@click.option("--json", "as_json", is_flag=True, help="The ladder as JSON, for machines.")
@click.pass_context
def command(ctx: click.Context, /, models: str, name: str, sizes: str, as_json: bool, **_: object) -> None:
    """Climb the whole ladder on DATA, from guessing to transformers, on one split.

    Every network gets the same time or the same steps. The table is sorted by dev, by which everything was chosen;
    test was read once for each. On images every network is trained at several sizes of the training side, and a
    picture shows accuracy against size.
    """
    names = [] if models == "all" else [word.strip() for word in models.split(",")]
    _require_models(names)
    wanted = _sizes(sizes)
    reading = data_wishes(ctx, names[0] if len(names) == 1 else "transformer")
    data = opened_early(ctx, reading)
    wishes = _wishes(ctx, names or list(compared_networks(data.kind)), data.kind)
    if wanted and data.kind not in ("images", "table"):
        raise PellucidError(f"--sizes is for tables and images, and {data.name} is neither", fix="Leave it out")
    if data.kind == "images" or wanted:
        _by_size(ctx, reading, data, wishes, wanted, name, as_json=as_json)
        return
    ladder = _compared(ctx, reading, data, wishes, name)
    if as_json:
        from pellucid.figures.show import record_json

        click.echo(record_json(ladder))
    else:
        from pellucid.figures.show import show

        click.echo("")
        show(ladder)


def _require_models(names: list[str]) -> None:
    from pellucid.training.options import require_network

    for name in names:
        require_network(name, "")
    if len(set(names)) < len(names):
        raise PellucidError("--models names one of them twice", fix="Name each once")


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


def _wishes(ctx: click.Context, names: list[str], kind: str) -> list[TrainOptions]:
    context = ctx.params.pop("context")
    try:
        # The context is that of the text's windows; how far a network of windows looks back is its own affair.
        return [training_wishes(ctx, kind, name) for name in names]
    finally:
        ctx.params["context"] = context


def _compared(ctx: click.Context, reading: DataOptions, data: Data, wishes: list[TrainOptions], name: str) -> Ladder:
    from pellucid.training.comparison import compare

    with _climb(ctx, reading, len(wishes), name) as (folder, callbacks):
        return compare(reading, wishes, folder, callbacks, read=data)


def _by_size(
    ctx: click.Context,
    reading: DataOptions,
    data: Data,
    wishes: list[TrainOptions],
    sizes: list[int],
    name: str,
    *,
    as_json: bool,
) -> None:
    from pellucid.training.comparison import compare_sizes

    n_runs = len(wishes) * (len(sizes) or 3)
    with _climb(ctx, reading, n_runs, name) as (folder, callbacks):
        ladder = compare_sizes(reading, wishes, sizes, folder, callbacks, read=data)
    from pellucid.cli.files import write_whole
    from pellucid.figures.drawings.accuracy_by_size import draw_accuracy_by_size
    from pellucid.figures.rendering import picture_file
    from pellucid.figures.show import record_json, show

    write_whole(folder / PICTURE, picture_file(draw_accuracy_by_size(ladder), ".svg"))
    if as_json:
        click.echo(record_json(ladder))
        return
    click.echo("")
    show(ladder)
    click.echo(f"\nWritten: {quoted(str(folder / PICTURE), 80)}")


@contextmanager
def _climb(ctx: click.Context, reading: DataOptions, n_runs: int, name: str) -> Iterator[tuple[Path, ConsoleCallbacks]]:
    """A folder for the runs, and the callbacks of the comparison."""
    from pellucid.runs import new_run_path
    from pellucid.training.sources import stem_of

    folder = new_run_path(name, f"compare-{stem_of(reading.source)}")

    from pellucid.cli.telling import ComparisonCallbacks
    from pellucid.figures.report_page import report_html
    from pellucid.training.signals import stop_requests

    with stop_requests() as stop:
        callbacks = ComparisonCallbacks(n_runs, stop, report_html, is_quiet=bool(ctx.params["as_json"]))
        try:
            yield folder, callbacks
        finally:
            callbacks.close()
