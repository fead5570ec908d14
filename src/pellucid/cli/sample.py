"""`pellucid sample`: new items from a trained network, or from a model that counts, and how new each of them is."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from pellucid.api.run import READING
from pellucid.cli.contract import show_answer
from pellucid.cli.options import command_named, declared_option, given_flags, json_option, options_from, together
from pellucid.data.options import DataOptions
from pellucid.decoding.options import FILTERS, SampleOptions
from pellucid.models.counting import CountOptions

if TYPE_CHECKING:
    from pellucid.decoding.sampling import Drawn

MANY = 500  # samples; from that many on a bar shows how far they are compared

count_options = together([options_from(CountOptions), options_from(DataOptions, only=READING)])
filter_options = together(declared_option(one.name, one.option, one.type) for one in FILTERS)


@command_named(
    "sample",
    "pellucid sample names",
    "pellucid sample names --n 3 --prompt mar -n 5",
    "pellucid sample first --temperature 0.8 --top-p 0.95",
    "pellucid sample first --beam 4 --prompt mar",
    "pellucid sample story.txt --length 500 --temperature 0.8",
)
@click.argument("source", metavar="RUN|DATA")
@options_from(SampleOptions)
@filter_options
@count_options
@json_option
@click.pass_context
def command(ctx: click.Context, /, source: str, as_json: bool, **options: Any) -> None:
    """Draw from the trained network of RUN, or from a count model of DATA.

    RUN is a folder that pellucid train made, or its name under runs/. DATA is a file (a list with one item a line, or
    running text) or a set that comes with pellucid, such as names; a count model is fitted on its train side. Each
    sample begins at the boundary, draws one token after another and stops at the boundary. Beside it stands whether the
    data have it, the nearest training item and the longest part copied from one.
    """
    from pellucid.api.run import sample

    made = sample(source, track=_with_progress, **given_flags(ctx, options))
    show_answer(made.record, as_json=as_json)


def _with_progress(drawn: Sequence[Drawn]) -> Iterator[Drawn]:
    """What was drawn, with a bar on a terminal while it is compared with the data."""
    is_hidden = len(drawn) < MANY or not sys.stderr.isatty()
    with click.progressbar(drawn, label="comparing", file=sys.stderr, hidden=is_hidden) as shown:
        yield from shown
