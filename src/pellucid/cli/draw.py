"""`pellucid draw`: measure what a figure needs, draw it, and write it as SVG, PNG or a page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.cli.files import require_output_path, write_whole
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    from pellucid.api.draw import Card

SUFFIXES = (".svg", ".png", ".html")


@click.command(
    "draw",
    context_settings={"help_option_names": ["--help"], "max_content_width": 100},
    epilog="""
    \b
    Examples:
      pellucid draw --list
      pellucid draw bigram-matrix names --out names.svg
      pellucid draw bigram-graph --word emma --out emma.png
      pellucid draw smoothing names --after q --out smoothing.html
      pellucid draw loss-curves my-run --out curves.svg
      pellucid draw hockey-stick --seed 3 --out hockey.png
      pellucid draw attention-maps my-run --input isabella --out heads.svg
    """,
)
@click.argument("figure", required=False)
@click.argument("source", metavar="[DATA|RUN]", required=False)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Ends in .svg, .png or .html.")
@click.option("--list", "is_list", is_flag=True, help="All figures, with a sentence each.")
@click.option("--word", metavar="WORD", help="Of one word, in place of DATA.")
@click.option("--after", metavar="SYMBOL", help="The symbol whose next ones are shown; else the boundary.")
@click.option("--input", "read", metavar="INPUT", help="What a network is to read: a text, or an image file.")
@click.option("--patch", type=int, help="The side of a patch, in pixels; without it, a quarter of the image.")
@click.option("--seed", type=int, help="Of what is trained to be drawn; without it, 1.")
@click.option("--kind", default="", help="Read DATA as list or as text, whatever it looks like.")
@click.option("--encoding", default="utf-8", show_default=True, help="How the file is encoded.")
@click.option("--json", "as_json", is_flag=True, help="The numbers behind the picture, for machines.")
def command(
    figure: str | None,
    source: str | None,
    out: Path | None,
    is_list: bool,
    word: str | None,
    after: str | None,
    read: str | None,
    patch: int | None,
    seed: int | None,
    kind: str,
    encoding: str,
    as_json: bool,
) -> None:
    """Draw FIGURE from DATA, or from a RUN of pellucid train.

    DATA is a file (a list with one item a line, running text, an image) or a set that comes with pellucid; without it,
    names or digits.
    RUN is a folder, or a name under ./runs; without it, a small network is trained to have something to draw.
    A page holds everything it needs, opens without a network, and tells the numbers under the pointer.
    """
    from pellucid.api.draw import DrawOptions, draw, drawable, find_drawable, require_options

    if is_list:
        _show_list(drawable(), as_json)
        return
    if not figure:
        raise PellucidError("FIGURE is missing", fix="Choose one of pellucid draw --list")
    options = DrawOptions(source, word, after, read, patch, seed, kind, encoding)
    require_options(find_drawable(figure), options)
    if out:
        if out.suffix.lower() not in SUFFIXES:
            raise PellucidError(
                f"{quoted(str(out))} does not end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}",
                fix=f"Call it {quoted(out.stem + SUFFIXES[0])}",
            )
        require_output_path(out, SUFFIXES)
    elif not as_json:
        raise PellucidError("--out is missing", fix=f"Add --out {figure}.svg, or --json for the numbers")

    drawn = draw(figure, options)
    drawing = drawn.drawing
    if out:
        from pellucid.figures.rendering import picture_file

        write_whole(out, picture_file(drawing, out.suffix.lower()))
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
    click.echo("\n".join([*drawn.notes, drawing.title, *[f"  {line}" for line in drawing.caption]]))
    click.echo(f"\nWritten: {quoted(str(out), 80)}")


def _show_list(cards: "dict[str, Card]", as_json: bool) -> None:
    if as_json:
        rows = [{"name": card.name, "summary": card.summary, "options": card.options} for card in cards.values()]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    widest = max([len(name) for name in cards])
    for name, card in cards.items():
        click.echo(f"{name:<{widest}}  {card.summary}")
