"""Drawings to files: SVG and PNG by vl-convert, and pages of their own that need no network."""

import json
import re
from functools import cache
from importlib.resources import files

from pellucid.figures.charts.svg import safe
from pellucid.figures.derivation_page import script_safe
from pellucid.figures.picture import Chart, Drawing

SCALE = 2.0  # pixels for each unit of a picture, so that it stays sharp on a wall

# Charts bring the expressions of their own axes and tooltips; `ast` has them interpreted, so that the page can forbid
# text to become code. No link leads out of it either.
EMBED = """
const specification = JSON.parse(document.getElementById("specification").textContent);
vegaEmbed("#drawing", specification, {renderer: "svg", actions: false, ast: true});
"""


def drawing_svg(drawing: Drawing) -> str:
    """The drawing as one SVG picture."""
    if not isinstance(drawing, Chart):
        return drawing.svg
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(drawing.specification, allowed_base_urls=[])
    # Gradients and clips are numbered through all pictures of a process; from 0 in each, equal ones are equal.
    found = dict.fromkeys(re.findall(r' id="(gradient_\d+|clip\d+)"', svg))
    for i, name in enumerate(found):
        svg = svg.replace(f' id="{name}"', f' id="shared{i}"').replace(f"url(#{name})", f"url(#shared{i})")
    return svg


def drawing_png(drawing: Drawing) -> bytes:
    """The drawing as PNG, two pixels for each unit."""
    import vl_convert

    png: bytes = vl_convert.svg_to_png(drawing_svg(drawing), scale=SCALE)
    return png


def drawing_html(drawing: Drawing) -> str:
    """The drawing as one page: charts tell their numbers under the pointer. It asks nobody for anything."""
    if isinstance(drawing, Chart):
        specification = script_safe(json.dumps(drawing.specification, ensure_ascii=False, allow_nan=False))
        # Not by vegalite_to_html, which lets a text of the data end its script element.
        data = f'<script type="application/json" id="specification">{specification}</script>'
        script = f"{data}\n<script>{_vega()}</script>"
        return _page(drawing.title, "", script)
    return _page(drawing.title, drawing.svg, "")


def rendered(drawing: Drawing, suffix: str) -> str | bytes:
    """The drawing as a file that ends so: .svg, .png or .html."""
    if suffix == ".png":
        return drawing_png(drawing)
    return drawing_svg(drawing) if suffix == ".svg" else drawing_html(drawing)


@cache
def _vega() -> str:
    """All of Vega-Lite, and the lines that start it."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle(EMBED)
    return bundle.replace("</script", "<\\/script")


def _page(title: str, picture: str, script: str) -> str:
    parts = {
        "POLICY": "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:",
        "TITLE": safe(f"{title} · pellucid draw"),
        "STYLE": _asset("drawing.css"),
        "PICTURE": picture,
        "SCRIPT": script,
    }
    # Split once, so that nothing in the parts is ever taken for a place to fill.
    pieces = _asset("drawing.html").split("@@")
    return "".join([parts[piece] if i % 2 else piece for i, piece in enumerate(pieces)])


def _asset(name: str) -> str:
    return files("pellucid.figures").joinpath(f"assets/{name}").read_text(encoding="utf-8")
