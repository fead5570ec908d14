"""Masks side by side: who may be seen, the same as 0 and −∞ ("wei"), and what softmax makes of equal scores."""

import math

from pellucid.figures.charts.matrix import (
    BARRED,
    added_colour,
    added_written,
    difference,
    heat,
    hundredths,
    n_seen,
    weight_colour,
)
from pellucid.figures.charts.svg import INK, QUIET, lettered, moved
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.records import MaskShown, MasksShown

CELL, GAP, NARROWEST = 38.0, 28.0, 190.0
FORMS = ("may it be seen?", "wei", "softmax(wei)")


def draw_masks(seen: MasksShown) -> Picture:
    """A column for each mask, a row for each of its forms."""
    marks: list[str] = []
    left = bottom = 0.0
    for mask in seen.masks:
        numbers = [str(i + 1) for i in range(len(mask.seen))]
        yes_no = [[float(cell) for cell in row] for row in mask.seen]
        forms = (
            heat(yes_no, _yes_no_colour, CELL, numbers, numbers, written=lambda cell: f"{cell:.0f}"),
            heat(mask.added, added_colour, CELL, numbers, numbers, written=added_written),
            heat(mask.weights, weight_colour, CELL, numbers, numbers, written=hundredths),
        )
        indent = left + forms[0].left
        marks.append(lettered(indent, 18, mask.name, INK, is_bold=True, size=19))
        marks.append(lettered(indent, 42, mask.says, QUIET))
        top = 70.0
        for form, drawn in zip(FORMS, forms, strict=True):
            marks.append(lettered(indent, top + 8, form, INK))
            marks += moved(drawn.marks, left, top + 18)
            top += drawn.height + 46
        left, bottom = left + max(forms[0].width, NARROWEST) + GAP, max(bottom, top - 18)
    title = "Masks: what may be seen, and what is left of equal scores"
    return picture(title, _captions(seen), marks, left - GAP, bottom)


def _yes_no_colour(cell: float) -> str:
    return "#c6dcf1" if cell else BARRED


def _captions(seen: MasksShown) -> list[str]:
    said = ["Rows ask, columns are asked. wei is added to the scores; where it is −∞, softmax leaves a weight of 0."]
    counts = [
        f"{mask.name} {sum([sum(row) for row in mask.seen])} of {len(mask.seen) * len(mask.seen[0])}"
        for mask in seen.masks
    ]
    said.append(f"Pairs that may be seen: {', '.join(counts)}.")
    off = max([abs(sum(row) - 1) for mask in seen.masks for row in mask.weights])
    uneven = max([_unevenness(mask) for mask in seen.masks])
    said.append(
        f"Every row of softmax(wei) sums to 1 (off by {difference(off)} at most) and is even over what may "
        f"be seen (off by {difference(uneven)} at most)."
    )
    return said


def _unevenness(mask: MaskShown) -> float:
    """How far a weight is from one over the number of those that may be seen."""
    return max(
        [
            abs(weight - can / n_seen(cans))
            for weights, cans in zip(mask.weights, mask.seen, strict=True)
            for weight, can in zip(weights, cans, strict=True)
        ]
    )


FIGURE = FigureCard(
    name="masks",
    says="Causal, local and padding masks as yes and no, as 0 and −∞ (wei), and as the softmax of that.",
    needs=MasksShown,
    draw=draw_masks,
    options=(),
    tiny=MasksShown(
        (
            MaskShown(
                "causal",
                "nothing later",
                ((True, False), (True, True)),
                ((0.0, -math.inf), (0.0, 0.0)),
                ((1.0, 0.0), (0.5, 0.5)),
            ),
        )
    ),
)
