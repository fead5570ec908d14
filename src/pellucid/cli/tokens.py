"""`pellucid tokens`: a text of one's own as symbols and indices, without a model."""

from __future__ import annotations

from typing import Any

import click

from pellucid.api.tokens import READING, TokenOptions
from pellucid.cli.contract import show_answer
from pellucid.cli.options import command_named, given_flags, json_option, options_from
from pellucid.data.options import DataOptions


@command_named(
    "tokens",
    'pellucid tokens "bad dab" --vocabulary "abd "',
    "pellucid tokens emma --kind list --context 3",
    "pellucid tokens names.txt --tokens bpe --count 40",
    'pellucid tokens "the capital of France is Paris" --tokens words',
)
@click.argument("text", metavar="TEXT|FILE")
@options_from(DataOptions, only=["tokens"])
@options_from(TokenOptions)
@options_from(DataOptions, only=[name for name in READING if name != "tokens"])
@json_option
@click.pass_context
def command(ctx: click.Context, /, text: str, as_json: bool, **options: Any) -> None:
    """Show a text as tokens: symbols with their indices, what is predicted from what, shapes, and costs.

    TEXT|FILE is a file, - for standard input, a set that comes with pellucid such as names, or else the text itself. A
    list, with one item a line, has a boundary before and after every item; with --kind list a text is such items.
    Contexts of a list are its items up to each token, or with --context n the n tokens before it; of a text, windows of
    n predictions that follow one another. The costs are those of reading the text as one sequence, cut in each way, by
    a transformer of --layers and --width.
    """
    from pellucid.api.tokens import tokens

    listing = tokens(text, **given_flags(ctx, options))
    show_answer(listing.record, as_json=as_json)
