"""`pellucid draw`: any picture by name, from data, from a run, or from something that is trained for it."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path
from typing import Any

import click

from pellucid.api.draw import Card, argument_of, draw, drawable, find_drawable, knobs_of, lesson_knobs
from pellucid.api.drawn_records import DrawOptions
from pellucid.cli.contract import say_written
from pellucid.cli.options import StrictCommand, command_named, given_flags, json_option, options_from
from pellucid.errors import PellucidError
from pellucid.options import options_of

FIGURE = "pellucid.figure"


class DrawCommand(StrictCommand):
    """`draw`, whose options are those of the picture that is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Kept with this call and not with the command, which may be asked again for another picture.
        ctx.meta[FIGURE] = _named_figure(args)
        return super().parse_args(ctx, args)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """For a lesson its knobs in place of the options of figures. Those that the picture has no use for stay known
        and are not shown, so that whoever gives one is told."""
        params, figure = super().get_params(ctx), figure_of(ctx)
        if figure is None:
            return params
        config = knobs_of(figure)
        knobs = _click_options(config) if config else []
        useless = {*options_of(DrawOptions)} - (set() if config else {"kind", "encoding", *figure.options})
        params = [param for param in params if param.name not in {knob.name for knob in knobs}]
        shown = [_hide(param) if param.name in useless else param for param in params]
        known = {param.name for param in [*shown, *knobs]}
        shown += [_unused_option(name) for name in lesson_knobs() if name not in known and name != "source"]
        last = next((i for i, param in enumerate(shown) if param.name == "as_json"), len(shown))
        return [*shown[:last], *knobs, *shown[last:]]

    def format_usage(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        figure = figure_of(ctx)
        if figure is None:
            super().format_usage(ctx, formatter)
            return
        argument = argument_of(figure)
        formatter.write_usage(ctx.command_path, f"{figure.name} [{argument}] [OPTIONS]".replace(" []", ""))

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        figure = figure_of(ctx)
        if figure is None:
            super().format_help_text(ctx, formatter)
            return
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(figure.summary)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if figure_of(ctx) is None:
            super().format_epilog(ctx, formatter)


def figure_of(ctx: click.Context) -> Card | None:
    """The picture that this call names."""
    found: Card | None = ctx.meta.get(FIGURE)
    return found


def _hide(param: click.Parameter) -> click.Parameter:
    hidden = copy.copy(param)
    assert isinstance(hidden, click.Option)
    hidden.hidden = True
    return hidden


def _unused_option(name: str) -> click.Option:
    """A knob of other lessons."""
    return click.Option([f"--{name.replace('_', '-')}", name], hidden=True)


def _click_options(config: type) -> list[click.Option]:
    """The options of a config as click has them."""

    def holder() -> None: ...

    made = click.command()(options_from(config)(holder))
    return [param for param in made.params if isinstance(param, click.Option)]


def _named_figure(args: list[str]) -> Card | None:
    """The picture that is named first, wherever options stand; None where none is, or an unknown one."""
    names = [word for before, word in zip(["", *args], args, strict=False) if not _takes_value(before)]
    first = next((word for word in names if not word.startswith("-")), "")
    return drawable().get(first) if first else None


def _takes_value(word: str) -> bool:
    """Whether the next word is the value of this one. `draw` is written with the name first; this is for the others."""
    return word.startswith("--") and "=" not in word and word not in ("--list", "--json", "--help")


LONGEST_LINE = 400  # of a list in a pipe


@command_named(
    "draw",
    "pellucid draw --list",
    "pellucid draw bigram-matrix names --out names.svg",
    "pellucid draw bigram-graph --word emma --out emma.png",
    "pellucid draw smoothing names --after q --out smoothing.html",
    "pellucid draw saturation --help",
    "pellucid draw saturation --scale 3 --batch 32 --activation tanh --out saturation.svg",
    "pellucid draw loss-curves my-run --out curves.svg",
    "pellucid draw hockey-stick --seed 3 --out hockey.png",
    "pellucid draw attention-maps my-run --input isabella --out heads.svg",
    cls=DrawCommand,
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
    A lesson has knobs of its own, which pellucid draw FIGURE --help lists.
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
        from pellucid.figures.words.notes import plain_with_notes

        document = {
            "figure": drawn.name,
            "title": drawing.title,
            "caption": drawing.caption,
            "notes": drawn.notes,
            "data": drawn.record,
        }
        click.echo(json.dumps(plain_with_notes(document), ensure_ascii=False, allow_nan=False))
        return
    from pellucid.figures.tables import show_lines

    show_lines([repr(drawn)])
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
