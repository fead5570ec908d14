"""Masks side by side: who may be seen, the same as 0 and −∞ ("wei"), and what softmax makes of equal scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.matrix import BARRED, added_map, difference, heat_map, n_seen, weight_map
from pellucid.figures.charts.svg import INK, QUIET, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option
from pellucid.records.answers import Matrix, as_matrix

if TYPE_CHECKING:
    from pellucid.layers.masks import Mask

CELL, GAP, NARROWEST = 38.0, 28.0, 190.0
FORMS = ("may it be seen?", "wei", "softmax(wei)")


@dataclass(frozen=True)
class MaskKnobs:
    length: int = option(6, "Positions.", minimum=2, maximum=12)
    before: int = option(1, "Positions before its own that a local mask shows.", minimum=0, maximum=12)
    after: int = option(1, "Positions after its own that a local mask shows.", minimum=0, maximum=12)
    padding: int = option(2, "Positions at the end that are padding.", minimum=0, maximum=11)

    def __post_init__(self) -> None:
        check_options(self)
        if self.padding >= self.length:
            raise PellucidError(
                f"{self.padding} of {self.length} positions are padding, and none is left",
                fix=f"The most {{padding}} that can be is {self.length - 1}",
                options={"padding": None},
            )


class MaskForms(NamedTuple):
    """A mask in its three forms. A row for each position that asks."""

    name: str
    description: str
    seen: tuple[tuple[bool, ...], ...]
    added: Matrix  # "wei": 0 where a key may be seen and -inf where not
    weights: Matrix  # the softmax of that


class MasksCompared(NamedTuple):
    """Masks side by side, of equal size."""

    masks: tuple[MaskForms, ...]


def measure(knobs: MaskKnobs) -> MasksCompared:
    """The masks that attention knows, each with what it adds to the scores and what is left of equal ones.

    >>> [mask.name for mask in measure(MaskKnobs()).masks]
    ['none', 'causal', 'local', 'padding', 'causal and padding']
    """
    import torch

    from pellucid.layers.masks import CAUSAL, EVERYTHING, Local, PaddingMask

    length, n_real = knobs.length, knobs.length - knobs.padding
    padding = PaddingMask(torch.tensor([n_real]))
    return MasksCompared(
        (
            _forms(length, "none", "everyone sees everyone", EVERYTHING),
            _forms(length, "causal", "nothing later", CAUSAL),
            _forms(
                length,
                "local",
                f"{knobs.before} before, {knobs.after} after",
                Local(before=knobs.before, after=knobs.after),
            ),
            _forms(length, "padding", f"{n_real} of {length} are real", padding),
            _forms(length, "causal and padding", "what both leave", CAUSAL & padding),
        )
    )


def _forms(length: int, name: str, description: str, mask: Mask) -> MaskForms:
    import torch

    scores = torch.zeros(1, length, length, dtype=torch.float64)  # of one example, as padding needs it
    seen = mask.visible(scores.shape, scores.device).expand_as(scores)[0]
    added = mask.additive(scores.shape, scores).expand_as(scores)[0]
    weights = (scores[0] + added).softmax(-1)
    return MaskForms(name, description, tuple(map(tuple, seen.tolist())), as_matrix(added), as_matrix(weights))


def draw(record: MasksCompared) -> Picture:
    """A column for each mask, a row for each of its forms."""
    marks: list[str] = []
    left = bottom = 0.0
    for mask in record.masks:
        numbers = [str(i + 1) for i in range(len(mask.seen))]
        yes_no = [[float(cell) for cell in row] for row in mask.seen]
        forms = (
            heat_map(
                yes_no,
                lambda cell: "#c6dcf1" if cell else BARRED,
                CELL,
                numbers,
                numbers,
                written=lambda cell: f"{cell:.0f}",
            ),
            added_map(mask.added, CELL, numbers),
            weight_map(mask.weights, CELL, numbers),
        )
        indent = left + forms[0].left
        marks.append(svg_text(indent, 18, mask.name, INK, is_bold=True, size=19))
        marks.append(svg_text(indent, 42, mask.description, QUIET))
        top = 70.0
        for form, drawn in zip(FORMS, forms, strict=True):
            marks.append(svg_text(indent, top + 8, form, INK))
            marks += move_marks(drawn.marks, left, top + 18)
            top += drawn.height + 46
        left, bottom = left + max(forms[0].width, NARROWEST) + GAP, max(bottom, top - 18)
    title = "Masks: what may be seen, and what is left of equal scores"
    return picture(title, _captions(record), marks, left - GAP, bottom)


def _captions(record: MasksCompared) -> list[str]:
    said = ["Rows ask, columns are asked. wei is added to the scores; where it is −∞, softmax leaves a weight of 0."]
    counts = [
        f"{mask.name} {sum([sum(row) for row in mask.seen])} of {len(mask.seen) * len(mask.seen[0])}"
        for mask in record.masks
    ]
    said.append(f"Pairs that may be seen: {', '.join(counts)}.")
    off = max([abs(sum(row) - 1) for mask in record.masks for row in mask.weights])
    uneven = max([_unevenness(mask) for mask in record.masks])
    said.append(
        f"Every row of softmax(wei) sums to 1 (off by {difference(off)} at most) and is even over what may "
        f"be seen (off by {difference(uneven)} at most)."
    )
    return said


def _unevenness(mask: MaskForms) -> float:
    """How far a weight is from one over the number of those that may be seen."""
    return max(
        [
            abs(weight - can / n_seen(cans))
            for weights, cans in zip(mask.weights, mask.seen, strict=True)
            for weight, can in zip(weights, cans, strict=True)
        ]
    )


LESSON = Lesson(
    name="masks",
    summary="Causal, local and padding masks as yes and no, as 0 and −∞ (wei), and as the softmax of that.",
    measure=measure,
    draw=draw,
    knobs=MaskKnobs,
)
