"""`pellucid compare`: the whole ladder on one split with one budget, in one table."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pellucid.cli.networks import data_options, data_wishes, require_early, training_wishes
from pellucid.errors import PellucidError

if TYPE_CHECKING:
    from pellucid.records import Ladder
    from pellucid.training.wishes import TrainingWishes


@click.command(
    "compare",
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid compare
      pellucid compare names.txt --minutes 1
      pellucid compare book.txt --models mlp,gru,transformer --steps 500
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
@data_options
@click.option("--json", "as_json", is_flag=True, help="The ladder as JSON, for machines.")
@click.pass_context
def command(ctx: click.Context, /, models: str, name: str, as_json: bool, **_: object) -> None:
    """Climb the whole ladder on DATA, from guessing to transformers, on one split.

    Every network gets the same time or the same steps. The table is sorted by the loss on dev, by which everything was
    chosen; test was read once for each.
    """
    wishes = _wishes(ctx, models)
    ladder = _compared(ctx, wishes, name)
    if as_json:
        from pellucid.figures.ladder import ladder_json

        click.echo(ladder_json(ladder))
    else:
        from pellucid.figures.ladder import show_ladder

        click.echo("")
        show_ladder(ladder)


def _wishes(ctx: click.Context, models: str) -> list[TrainingWishes]:
    from pellucid.models.wishes import NETWORKS
    from pellucid.training.wishes import require_network

    names = list(NETWORKS) if models == "all" else [word.strip() for word in models.split(",")]
    for name in names:
        require_network(name)
    if len(set(names)) < len(names):
        raise PellucidError("--models names one of them twice", fix="Name each once")
    context = ctx.params.pop("context")
    try:
        # The context is that of the text's windows; how far a network of windows looks back is its own affair.
        return [training_wishes(ctx, name) for name in names]
    finally:
        ctx.params["context"] = context


def _compared(ctx: click.Context, wishes: list[TrainingWishes], name: str) -> Ladder:
    reading = data_wishes(ctx, "transformer")

    from pathlib import PurePath

    from pellucid.runs import place_for

    folder = place_for(name, f"compare-{PurePath(reading.source).stem or 'data'}")
    require_early(reading)

    from pellucid.cli.telling import Teller
    from pellucid.figures.report_page import report_html
    from pellucid.training.comparison import compare
    from pellucid.training.signals import stop_requests

    is_quiet = bool(ctx.params["as_json"])
    tellers: list[Teller] = []

    def climbing(model: str) -> Teller:
        for before in tellers:
            before.close()
        print(f"\n{model} ({len(tellers) + 1} of {len(wishes)})", file=sys.stderr, flush=True)
        tellers.append(Teller(is_quiet=True, with_samples=False))
        return tellers[-1]

    with stop_requests() as stop:
        try:
            return compare(reading, wishes, folder, Teller(is_quiet=is_quiet), climbing, stop, report_html)
        finally:
            for teller in tellers:
                teller.close()
