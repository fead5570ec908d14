"""`pellucid rate`: train briefly while the learning rate climbs, and read from the loss which rate to take."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.cli.files import require_output_path, write_whole
from pellucid.cli.networks import Sectioned, data_options, data_wishes, network_options, opened_early, training_wishes
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.records import RateSearch

SUFFIXES = (".svg", ".png", ".html")
MOST_SEEDS = 20
SWEEP_STEPS = 100


@click.command(
    "rate",
    cls=Sectioned,
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid rate
      pellucid rate names.txt --model mlp --optimizer sgd --seeds 5
      pellucid rate book.txt --out rate.svg
    """,
)
@click.argument("data", required=False)
@click.option("--model", default="", help="The network; without it, one that suits the data.")
@click.option("--seeds", type=int, default=3, show_default=True, help="How many sweeps, each with weights of its own.")
@click.option("--seed", type=int, default=1, show_default=True, help="The first of the seeds.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="A picture: .svg, .png or .html.")
@data_options
@network_options
@click.option("--json", "as_json", is_flag=True, help="Every sweep as JSON, for machines.")
@click.pass_context
def command(ctx: click.Context, /, seeds: int, seed: int, out: Path | None, as_json: bool, **_: object) -> None:
    """Search the learning rate for a network on DATA, and say how sure the answer is.

    The rate climbs by a fixed factor at each step, from far too low to far too high, and the loss is watched. Two rules
    read it; several seeds must agree. Where they do not, or where nothing falls, the answer is that there is none.
    """
    if not 1 <= seeds <= MOST_SEEDS:
        raise PellucidError(f"--seeds is {seeds}", fix=f"Choose a number from 1 to {MOST_SEEDS}")
    if ctx.params["rate"] is not None:
        raise PellucidError("--rate is what is searched for", fix="Leave it out")
    if out:
        require_output_path(out, SUFFIXES)
    found = _searched(ctx, range(seed, seed + seeds))
    if out:
        write_whole(out, _picture(found, out.suffix.lower()))
    if as_json:
        from pellucid.figures.show import record_json

        click.echo(record_json(found))
        return
    from pellucid.figures.show import show

    show(found)
    if out:
        click.echo(f"\nWritten: {out}")


def _searched(ctx: click.Context, seeds: range) -> RateSearch:
    ctx.params.update(minutes=1.0, steps=SWEEP_STEPS)
    training_wishes(ctx, kind="")
    reading = data_wishes(ctx)
    data = opened_early(ctx, reading)
    wishes = training_wishes(ctx, data.kind)

    from pellucid.training.learning_rate import search_learning_rate

    return search_learning_rate(reading, wishes, seeds, read=data)


def _picture(found: RateSearch, suffix: str) -> str | bytes:
    from pellucid.figures.drawings.learning_rate import draw_learning_rate
    from pellucid.figures.rendering import picture_file

    return picture_file(draw_learning_rate(found), suffix)
