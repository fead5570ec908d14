"""`pellucid draw`: any picture by name, from data, from a run, or from something that is trained for it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from pellucid.api.draw import Card, DrawOptions, draw, drawable, find_drawable
from pellucid.cli.contract import say_written
from pellucid.cli.options import command_named, given_flags, json_option, options_from
from pellucid.errors import PellucidError

LONGEST_LINE = 400  # of a list in a pipe


@command_named(
    "draw",
    "pellucid draw --list",
    "pellucid draw bigram-matrix names --out names.svg",
    "pellucid draw bigram-graph --word emma --out emma.png",
    "pellucid draw smoothing names --after q --out smoothing.html",
    "pellucid draw loss-curves my-run --out curves.svg",
    "pellucid draw hockey-stick --seed 3 --out hockey.png",
    "pellucid draw attention-maps my-run --input isabella --out heads.svg",
)
@click.argument("figure", required=False)
@click.argument("source", metavar="[DATA|RUN]", required=False)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Ends in .svg, .png or .html.")
@click.option("--list", "is_list", is_flag=True, help="All figures, with a sentence each.")
@options_from(DrawOptions)
@json_option
@click.pass_context
def command(
    ctx: click.Context,
    /,
    figure: str | None,
    source: str | None,
    out: Path | None,
    is_list: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Draw FIGURE from DATA, or from a RUN of pellucid train.

    DATA is a file (a list with one item a line, running text, an image) or a set that comes with pellucid; without it,
    names or digits.
    RUN is a folder, or a name under ./runs; without it, a small network is trained to have something to draw.
    A page holds everything it needs, opens without a network, and tells the numbers under the pointer.
    """
    if is_list:
        _show_list(drawable(), as_json)
        return
    if not figure:
        raise PellucidError("FIGURE is missing", fix="Choose one of pellucid draw --list")
    find_drawable(figure)
    if not out and not as_json:
        raise PellucidError("--out is missing", fix=f"Add --out {figure}.svg, or --json for the numbers")
    drawn = draw(figure, source, out=out, **given_flags(ctx, options))
    drawing = drawn.drawing
    if as_json:
        from pellucid.records import as_plain

        document = {
            "figure": drawn.name,
            "title": drawing.title,
            "caption": drawing.caption,
            "notes": drawn.notes,
            "data": drawn.record,
        }
        click.echo(json.dumps(as_plain(document), ensure_ascii=False, allow_nan=False))
        return
    from pellucid.figures.tables import show_lines

    show_lines([*drawn.notes, drawing.title, *[f"  {line}" for line in drawing.caption]])
    say_written(out)


def _show_list(cards: dict[str, Card], as_json: bool) -> None:
    if as_json:
        rows = [{"name": card.name, "summary": card.summary, "options": card.options} for card in cards.values()]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    from pellucid.figures.tables import Table, TableColumn, parts_text, show_parts

    listed = Table("", TableColumn("", "wrap"))
    for name, card in cards.items():
        listed.add(name, card.summary)
    # In a pipe each has one line, however long.
    show_parts([listed]) if sys.stdout.isatty() else click.echo(parts_text([listed], width=LONGEST_LINE))
