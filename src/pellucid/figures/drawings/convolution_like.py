"""Attention that is told what to do: the identity, a permutation and a convolution, for several scales."""

from pellucid.figures.charts.matrix import Rows, heat, hundredths, weight_colour, weight_key
from pellucid.figures.charts.svg import INK, QUIET, lettered, moved
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.numbers import rough
from pellucid.records import GivenAttention, GivenShown, GivenWeights

CELL, GAP, ROW_GAP, NARROWEST, INDENT = 38.0, 34.0, 30.0, 190.0, 16.0


def draw_convolution_like(seen: GivenShown) -> Picture:
    """A row for each task: what is wanted, then what attention gives with a scale that grows."""
    marks = weight_key()
    top, widest = 44.0, 560.0
    for attention in seen.attentions:
        marks.append(lettered(INDENT, top + 18, attention.name, INK, is_bold=True, size=19))
        marks.append(lettered(INDENT + 12 * len(attention.name) + 16, top + 18, attention.says, QUIET))
        left, bottom = 0.0, 0.0
        for words, below, weights in _maps(attention):
            numbers = [str(i + 1) for i in range(len(weights))]
            drawn = heat(weights, weight_colour, CELL, numbers, numbers, written=hundredths)
            marks += moved(drawn.marks, left, top + 58)
            marks.append(lettered(left + drawn.left, top + 50, words, INK))
            marks.append(lettered(left + drawn.left, top + 58 + drawn.height + 22, below, QUIET))
            left, bottom = left + max(drawn.width, NARROWEST) + GAP, 58 + drawn.height + 28
        top, widest = top + bottom + ROW_GAP, max(widest, left - GAP)
    title = "Attention as identity, permutation and convolution"
    return picture(title, _captions(seen), marks, widest, top - ROW_GAP)


def _maps(attention: GivenAttention) -> list[tuple[str, str, Rows]]:
    wanted: list[tuple[str, str, Rows]] = [("wanted", "", attention.wanted)]
    return wanted + [
        (f"β = {one.scale:g}", f"off by up to {rough(one.farthest)}", one.weights) for one in attention.tried
    ]


def _captions(seen: GivenShown) -> list[str]:
    said = [f"{seen.source}. Rows ask, columns are asked. Keys are the positions; a query points at those it wants."]
    tried = [one.tried for one in seen.attentions]
    least, most = min([each[0].scale for each in tried]), max([each[-1].scale for each in tried])
    farthest = [max([each[place].farthest for each in tried]) for place in (0, -1)]
    said.append(
        f"With β = {least:g} a weight is off by up to {rough(farthest[0])}, with β = {most:g} by {rough(farthest[1])}."
    )
    return said


FIGURE = FigureCard(
    name="convolution-like",
    says="Attention told to be the identity, a permutation or a convolution, and how near it comes as the scale grows.",
    needs=GivenShown,
    draw=draw_convolution_like,
    options=(),
    tiny=GivenShown(
        "2 positions",
        (
            GivenAttention(
                "identity",
                "each asks for itself",
                ((1.0, 0.0), (0.0, 1.0)),
                (GivenWeights(1.0, ((0.7, 0.3), (0.3, 0.7)), 0.3),),
            ),
        ),
    ),
)
