"""`pellucid score`: how a trained network, or a model that counts, takes a given text, token by token."""

from __future__ import annotations

from typing import Any

import click

from pellucid.cli.contract import show_answer
from pellucid.cli.options import command_named, given_flags, json_option, options_from
from pellucid.cli.sample import count_options
from pellucid.decoding.options import SampleOptions


@command_named(
    "score",
    "pellucid score names emma",
    "pellucid score names xqz --model bigram --s 0",
    "pellucid score first emma",
    'pellucid score story.txt "it was a dark night" --n 4',
)
@click.argument("source", metavar="RUN|DATA")
@click.argument("text")
@options_from(SampleOptions, only=["unknown"])
@count_options
@json_option
@click.pass_context
def command(ctx: click.Context, /, source: str, text: str, as_json: bool, **options: Any) -> None:
    """Show the surprise of every token of TEXT, under the trained network of RUN or a count model of DATA.

    RUN is a folder that pellucid train made, or its name under runs/. DATA is a file or a set that comes with pellucid;
    a count model is fitted on its train side. The surprise of a token is -log of the probability that the model gave it
    after what stood before: in nats, and in bits. In a list the boundary that closes the item is scored as well.
    """
    from pellucid.api.run import score

    scored = score(source, text, **given_flags(ctx, options))
    show_answer(scored.record, as_json=as_json)
