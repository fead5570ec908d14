"""`pellucid draw`: measure what a figure needs, draw it, and write it as SVG, PNG or a page."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid.cli.files import require_output_path, write_whole
from pellucid.cli.measured import Asked
from pellucid.cli.measuring import MEASURES
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    from pellucid.figures.picture import FigureCard

SUFFIXES = (".svg", ".png", ".html")
LONGEST_WORD = 60  # whose arrows can still be told apart


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
    from pellucid.figures.picture import all_figures, figure_called

    if is_list:
        _show_list(list(all_figures().values()), as_json)
        return
    if not figure:
        raise PellucidError("FIGURE is missing", fix="Choose one of pellucid draw --list")
    card = figure_called(figure)
    _require_options(card, {"--word": word, "--after": after, "--input": read}, has_data=source is not None)
    _require_numbers(card, {"--seed": seed, "--patch": patch})
    if out:
        if out.suffix.lower() not in SUFFIXES:
            raise PellucidError(
                f"{quoted(str(out))} does not end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}",
                fix=f"Call it {quoted(out.stem + SUFFIXES[0])}",
            )
        require_output_path(out, SUFFIXES)
    elif not as_json:
        raise PellucidError("--out is missing", fix=f"Add --out {card.name}.svg, or --json for the numbers")

    measured = MEASURES[card.needs.__name__](Asked(card.name, source, kind, encoding, word, after, seed, read, patch))
    drawing = card.draw(measured.seen)
    if out:
        from pellucid.figures.rendering import rendered

        write_whole(out, rendered(drawing, out.suffix.lower()))
    if as_json:
        from pellucid.records import as_plain

        document = {
            "figure": card.name,
            "title": drawing.title,
            "caption": drawing.caption,
            "notes": measured.said,
            "data": measured.seen,
        }
        click.echo(json.dumps(as_plain(document), ensure_ascii=False, allow_nan=False))
        return
    click.echo("\n".join([*measured.said, drawing.title, *[f"  {line}" for line in drawing.caption]]))
    click.echo(f"\nWritten: {quoted(str(out), 80)}")


def _show_list(figures: "list[FigureCard[Any]]", as_json: bool) -> None:
    if as_json:
        rows = [{"name": card.name, "says": card.says, "options": card.options} for card in figures]
        click.echo(json.dumps(rows, ensure_ascii=False))
        return
    widest = max([len(card.name) for card in figures])
    for card in figures:
        click.echo(f"{card.name:<{widest}}  {card.says}")


def _require_options(card: "FigureCard[Any]", given: dict[str, str | None], *, has_data: bool) -> None:
    """Refuse what would change nothing, and what cannot be drawn."""
    for option, value in given.items():
        if value is None:
            continue
        if option not in card.options:
            raise PellucidError(f"{option} changes nothing in {card.name}", fix="Leave it out")
        if not value:
            raise PellucidError(f"{option} is empty", fix=f"Give it something, as in {option} e")
    word = given["--word"]
    if word and has_data:
        raise PellucidError("--word is drawn in place of DATA, and both are given", fix="Leave one of them out")
    if word and len(word) > LONGEST_WORD:
        raise PellucidError(
            f"--word has {len(word):,} characters, and {LONGEST_WORD} can be drawn",
            fix="Put it into a file and draw that",
        )


def _require_numbers(card: "FigureCard[Any]", given: dict[str, int | None]) -> None:
    for option, value in given.items():
        if value is not None and option not in card.options:
            raise PellucidError(f"{option} changes nothing in {card.name}", fix="Leave it out")
    seed, patch = given["--seed"], given["--patch"]
    if seed is not None:
        from pellucid.decoding.limits import require_seed

        require_seed(seed)
    if patch is not None and patch < 1:
        raise PellucidError(f"a patch of {patch} pixels has none", fix="Choose 1 or more")
