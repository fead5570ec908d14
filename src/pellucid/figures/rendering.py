"""Pictures as files: SVG as it is, PNG by resvg, and pages of their own that need no network."""

from importlib.resources import as_file, files

from markupsafe import Markup

from pellucid.figures.html import render_page
from pellucid.figures.picture import Picture

SUFFIXES = (".svg", ".png", ".html")
SCALE = 2.0  # pixels for each unit of a picture, so that it stays sharp on a wall
# A part of DejaVu Sans Condensed, for machines without the fonts that pictures ask for: as wide as those are.
FALLBACK_FONT = "Pellucid Sans"


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
    return render_page("drawing.html", title=picture.title, picture=Markup(picture.svg))
