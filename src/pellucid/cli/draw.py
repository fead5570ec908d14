"""`pellucid draw`: measure what a figure needs, draw it, and write it as SVG, PNG or a page."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pellucid.cli.files import require_output_path, write_whole
from pellucid.errors import PellucidError, quoted

if TYPE_CHECKING:
    from pellucid.data import ListData, TextData
    from pellucid.figures.card import Drawing, FigureCard

SUFFIXES = (".svg", ".png", ".html")
LONGEST_WORD = 60  # whose arrows can still be told apart


class Asked(NamedTuple):
    """What the measuring of a figure may listen to."""

    data: str
    kind: str
    encoding: str
    word: str | None
    after: str | None


class Measured(NamedTuple):
    seen: Any  # the record that the figure needs
    said: tuple[str, ...]  # how the data were read


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
    """,
)
@click.argument("figure", required=False)
@click.argument("data", required=False)
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="Ends in .svg, .png or .html.")
@click.option("--list", "is_list", is_flag=True, help="All figures, with a sentence each.")
@click.option("--word", metavar="WORD", help="Of one word, in place of DATA.")
@click.option("--after", metavar="SYMBOL", help="The symbol whose next ones are shown; else the boundary.")
@click.option("--kind", default="", help="Read DATA as list or as text, whatever it looks like.")
@click.option("--encoding", default="utf-8", show_default=True, help="How the file is encoded.")
@click.option("--json", "as_json", is_flag=True, help="The numbers behind the picture, for machines.")
def command(
    figure: str | None,
    data: str | None,
    out: Path | None,
    is_list: bool,
    word: str | None,
    after: str | None,
    kind: str,
    encoding: str,
    as_json: bool,
) -> None:
    """Draw FIGURE from DATA.

    DATA is a file (a list with one item a line, or running text) or a set that comes with pellucid; without it, names.
    A page holds everything it needs, opens without a network, and tells the numbers under the pointer.
    """
    from pellucid.figures.card import all_figures, figure_called

    if is_list:
        _show_list(list(all_figures().values()), as_json)
        return
    if not figure:
        raise PellucidError("FIGURE is missing", fix="Choose one of pellucid draw --list")
    card = figure_called(figure)
    _require_options(card, {"--word": word, "--after": after}, has_data=data is not None)
    if out:
        if out.suffix.lower() not in SUFFIXES:
            raise PellucidError(
                f"{quoted(str(out))} does not end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}",
                fix=f"Call it {quoted(out.stem + SUFFIXES[0])}",
            )
        require_output_path(out, SUFFIXES)
    elif not as_json:
        raise PellucidError("--out is missing", fix=f"Add --out {card.name}.svg, or --json for the numbers")

    measured = MEASURES[card.needs.__name__](Asked(data or "names", kind, encoding, word, after))
    drawing = card.draw(measured.seen)
    if out:
        write_whole(out, _rendered(drawing, out.suffix.lower()))
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


def _rendered(drawing: "Drawing", suffix: str) -> str | bytes:
    from pellucid.figures.rendering import drawing_html, drawing_png, drawing_svg

    ways: dict[str, Callable[[Drawing], str | bytes]] = {
        ".svg": drawing_svg,
        ".png": drawing_png,
        ".html": drawing_html,
    }
    return ways[suffix](drawing)


def _opened(asked: Asked) -> "ListData | TextData":
    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ListData, TextData

    data = open_data(asked.data, kind=asked.kind, encoding=asked.encoding)
    require_kind(data, "list", "text")
    assert isinstance(data, ListData | TextData)
    return data


def _bigram_counts(asked: Asked) -> Measured:
    if asked.word is not None:
        from pellucid.models.bigram_records import word_counts

        return Measured(word_counts(asked.word), ())
    data = _opened(asked)
    from pellucid.models.bigram_records import bigram_counts

    return Measured(bigram_counts(data), (data.said, *data.notes))


def _smoothing(asked: Asked) -> Measured:
    data = _opened(asked)
    from pellucid.models.bigram_records import smoothing_study

    return Measured(smoothing_study(data, asked.after or ""), (data.said, *data.notes))


# How each record that a figure may need is measured.
MEASURES: dict[str, Callable[[Asked], Measured]] = {"BigramCounts": _bigram_counts, "Smoothing": _smoothing}
