"""What stands round the picture of a graph: the expression above it, the key to its colours and a caption below."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from pellucid.errors import printable
from pellucid.figures.graph.folding import MOST_DRAWN
from pellucid.figures.words.formulas import cut
from pellucid.figures.words.numbers import counted, short
from pellucid.records import BackwardPass, Derivation

MARGIN = 28.0
SWATCHES = 9 * 22 + 10.0


def framed(derivation: Derivation, marks: Sequence[str], picture_width: float, picture_height: float) -> str:
    """The marks as a picture on its own."""
    back = derivation.passes[-1]
    colours = f"raise it and {called(back)} falls (blue) or rises (orange)"
    inner = max(picture_width, SWATCHES + text_width(colours, 12))
    width = inner + 2 * MARGIN
    result = f" = {short(derivation.value)}" if len(derivation.passes) == 1 else ""
    text = printable(cut(" ".join(derivation.text.split()), max(20, int(inner / (15 * 0.61)) - len(result))))
    caption = _captions(derivation, back, inner)
    top = MARGIN + 34
    legend = top + picture_height + 34
    height = legend + 20 + 18 * len(caption) + MARGIN / 2
    left = MARGIN + max(0.0, (inner - picture_width) / 2)
    lines = [
        f'<text class="caption words" x="{MARGIN}" y="{legend + 34 + 18 * i:.1f}">{safe(line)}</text>'
        for i, line in enumerate(caption)
    ]
    heading = f'<text class="heading" x="{MARGIN}" y="{MARGIN + 10}">{safe(text + result)}</text>'
    picture = [heading, *_moved(marks, left, top), key(colours, MARGIN, legend), *lines]
    return _svg(f"The graph of {cut(text, 200)}", picture, width, height)


def bare(marks: Sequence[str], picture_width: float, picture_height: float) -> str:
    """The marks as a picture for a page that says everything else itself."""
    picture = _moved(marks, MARGIN, MARGIN)
    return _svg("The graph", picture, picture_width + 2 * MARGIN, picture_height + 2 * MARGIN)


def _moved(marks: Sequence[str], left: float, top: float) -> list[str]:
    return [f'<g transform="translate({left:.1f} {top:.1f})">', *marks, "</g>"]


def _svg(title: str, marks: Sequence[str], width: float, height: float) -> str:
    style = files("pellucid.figures").joinpath("assets/graph.css").read_text(encoding="utf-8")
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="pellucid-graph" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" role="img">',
            f"<title>{safe(title)}</title>",
            f"<style>{style}</style>",
            f'<rect class="paper" width="{width:.0f}" height="{height:.0f}"/>',
            *marks,
            "</svg>",
        ]
    )


def key(words: str, x: float, y: float) -> str:
    """The colours in their order, and what they mean."""
    shades = [f"minus-{level}" for level in (4, 3, 2, 1)] + ["none"] + [f"plus-{level}" for level in (1, 2, 3, 4)]
    swatches = [
        f'<rect class="strip {shade}" x="{x + 22 * i:.1f}" y="{y:.1f}" width="22" height="13"/>'
        for i, shade in enumerate(shades)
    ]
    return (
        f'<g class="legend">{"".join(swatches)}'
        f'<text class="caption words" x="{x + SWATCHES}" y="{y + 11:.1f}">{safe(words)}</text></g>'
    )


def _captions(derivation: Derivation, back: BackwardPass, width: float) -> list[str]:
    output = called(back)
    words = f"grad: how fast {output} moves with this number. On each arrow: the local slope."
    if len(derivation.passes) > 1:
        others = ", ".join(printable(each.output) for each in derivation.passes[:-1])
        are = "outputs are" if len(derivation.passes) > 2 else "output is"
        words += f" The gradients are those of {output}; the other {are} {cut(others, 120)}."
    if len(derivation.nodes) > MOST_DRAWN:
        words += f" The graph has {counted(len(derivation.nodes), 'node')}; dashed boxes hold those not drawn."
    lines = [""]
    for word in words.split():
        if text_width(f"{lines[-1]} {word}", 12) > width and lines[-1]:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def called(back: BackwardPass) -> str:
    """The output's name, as it stands in a sentence."""
    return "the output" if back.output == "output" else cut(printable(back.output), 24)


def text_width(text: str, size: float) -> float:
    """A width that the text never exceeds: monospaced fonts are at most 0.61 of their size wide, others unknown."""
    return size * sum([0.61 if ord(c) < 0x250 or c == "…" else 1.1 if ord(c) < 0x10000 else 1.5 for c in text])


def safe(text: str) -> str:
    """Text that can stand in XML and HTML: nothing in it is read as markup or moves a cursor."""
    return escape("\n".join(printable(line) for line in text.split("\n")))
