"""A picture with its title and caption, the sheet or page that it stands on, and the card of the figure that draws it.

Pages come from templates: every text is escaped as it is filled in, so nothing of the data is ever read as markup.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from typing import Any, Generic, NamedTuple, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pellucid.cards import cards, find
from pellucid.errors import printable
from pellucid.figures.charts.svg import FONT, INK, PAPER, QUIET, WIDE, escape_text
from pellucid.figures.words.notation import wrap_text

Seen = TypeVar("Seen")

PACKAGE = "pellucid.figures.drawings"
MARGIN = 32.0
TITLE_SIZE, CAPTION_SIZE, LINE_HEIGHT = 26.0, 17.0, 24.0
SCALE = 2.0  # pixels of a PNG for each unit of a picture, so that it stays sharp on a wall
# A part of DejaVu Sans Condensed, for machines without the fonts that pictures ask for: as wide as those are.
FALLBACK_FONT = "Pellucid Sans"
# No page asks anyone for anything; scripts of its own only where a template says so.
POLICY = Markup("default-src 'none'; style-src 'unsafe-inline'; img-src data:")
POLICY_WITH_SCRIPT = Markup("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:")

# What report.css does for the pictures inside its page, for those that stand alone in another's.
ON_DARK = (
    "@media (prefers-color-scheme: dark) { svg { filter: invert(.9) hue-rotate(180deg); } "
    "image.photo { filter: invert(1) hue-rotate(180deg); } }"
)


class Picture(NamedTuple):
    """A picture as SVG, with what it shows and what was measured in sentences."""

    title: str
    caption: tuple[str, ...]
    svg: str
    bare: str = ""  # the same without title and caption, for a page that says them itself
    width: float = 0.0  # of the bare one


@dataclass(frozen=True)
class FigureCard(Generic[Seen]):
    """One figure: what it is called, what it shows, which record it is drawn from, and how."""

    name: str
    summary: str  # one sentence for `draw --list`
    needs: type[Seen]  # the record; whoever wants the picture measures one
    draw: Callable[[Seen], Picture]
    options: tuple[str, ...] = ()  # of `draw`, such as word, that mean something here
    takes_tokens: bool = False  # of a run of a list or a text, it is drawn from TokenMistakes in place of the report


def all_figures() -> dict[str, FigureCard[Any]]:
    """Every figure by its name."""
    return cards(PACKAGE, "FIGURE", FigureCard)


def find_figure(name: str) -> FigureCard[Any]:
    """The figure of that name, or an error that brings the nearest one."""
    return find(PACKAGE, "FIGURE", FigureCard, name, "figure")


def sheet(
    title: str, caption: Sequence[str], marks: Sequence[str], width: float, height: float, style: str = ""
) -> str:
    """The picture as SVG; width and height are those of the marks alone."""
    widest = max([len(title) * TITLE_SIZE, *[len(line) * CAPTION_SIZE for line in caption]]) * WIDE
    inner = max(width, widest)
    top = MARGIN + TITLE_SIZE + LINE_HEIGHT * len(caption) + 24
    full_width, full_height = inner + 2 * MARGIN, top + height + MARGIN
    lines = [
        f'<text x="{MARGIN}" y="{MARGIN + TITLE_SIZE * 0.8:.0f}" font-size="{TITLE_SIZE:.0f}" font-weight="600" '
        f'fill="{INK}">{escape_text(title)}</text>'
    ]
    for i, line in enumerate(caption):
        y = MARGIN + TITLE_SIZE + LINE_HEIGHT * (i + 1) - 2
        lines.append(
            f'<text x="{MARGIN}" y="{y:.0f}" font-size="{CAPTION_SIZE:.0f}" fill="{QUIET}">{escape_text(line)}</text>'
        )
    left = MARGIN + (inner - width) / 2
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{full_width:.0f}" height="{full_height:.0f}" '
            f'viewBox="0 0 {full_width:.0f} {full_height:.0f}" font-family="{escape_text(FONT)}" role="img">',
            f"<title>{escape_text(title)}</title>",
            f"<style>{style}</style>" if style else "",
            f'<rect width="{full_width:.0f}" height="{full_height:.0f}" fill="{PAPER}"/>',
            *lines,
            f'<g transform="translate({left:.1f} {top:.1f})">',
            *marks,
            "</g>",
            "</svg>",
        ]
    )


def picture(title: str, caption: Sequence[str], marks: Sequence[str], width: float, height: float) -> Picture:
    """The marks as a picture, both on a sheet of its own and bare; long sentences of the caption are broken."""
    lines = [line for sentence in caption for line in wrap_text(sentence, max(80, int(width / (CAPTION_SIZE * WIDE))))]
    bare = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{escape_text(FONT)}" role="img" '
        f'aria-label="{escape_text(title)}">',
        *marks,
        "</svg>",
    ]
    return Picture(title, tuple(caption), sheet(title, lines, marks, width, height), "\n".join(bare), width)


def follow_page(svg: str) -> str:
    """The same for a page that may be dark: there light becomes dark, each hue stays, and photos stay as they are.

    >>> follow_page('<svg width="4"><g/></svg>').startswith('<svg width="4"><style>@media')
    True
    """
    # Quotes and brackets of texts are escaped, so that the first bracket ends the first tag.
    opening, bracket, marks = svg.partition(">")
    return f"{opening}{bracket}<style>{ON_DARK}</style>{marks}"


def picture_file(picture: Picture, suffix: str) -> str | bytes:
    """The picture as a file that ends so: .svg, .png or .html."""
    if suffix == ".png":
        return picture_png(picture)
    return picture.svg if suffix == ".svg" else picture_html(picture)


def picture_png(picture: Picture, *, has_system_fonts: bool = True) -> bytes:
    """The picture as PNG, two pixels for each unit. Letters appear even where no font is installed."""
    import resvg_py

    with as_file(files("pellucid.figures").joinpath("assets/fonts")) as fonts:
        png = resvg_py.svg_to_bytes(
            svg_string=picture.svg,
            zoom=SCALE,
            skip_system_fonts=not has_system_fonts,
            font_files=[str(fonts / f"PellucidSans-{weight}.ttf") for weight in ("Regular", "Bold")],
            sans_serif_family=FALLBACK_FONT,
            monospace_family=FALLBACK_FONT,
        )
    return bytes(png)


def picture_html(picture: Picture) -> str:
    """The picture as one page, in which titles are told under the pointer. It asks nobody for anything."""
    return render("drawing.html", title=picture.title, picture=Markup(picture.svg))


def render(template: str, **values: Any) -> Markup:
    """A template of `figures/templates` filled in, as markup that may stand in another."""
    return Markup(_environment().get_template(template).render(**values))


@cache
def asset(name: str) -> Markup:
    """A style sheet or a script of ours, as it is."""
    return Markup(files("pellucid.figures").joinpath(f"assets/{name}").read_text(encoding="utf-8"))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("pellucid.figures"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    made.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "separators": (",", ":"), "allow_nan": False}
    made.globals |= {"asset": asset, "policy": POLICY, "policy_with_script": POLICY_WITH_SCRIPT}
    return made


def _printable(value: object) -> object:
    """What is no markup of ours, without letters that could move a cursor."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return "\n".join([printable(line) for line in value.split("\n")])
    return value
