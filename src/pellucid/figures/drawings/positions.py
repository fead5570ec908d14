"""Kinds of positions: the numbers that each position has, and how any two positions meet."""

from collections.abc import Sequence

from pellucid.figures.charts.matrix import Rows, balance_key, balanced, heat
from pellucid.figures.charts.svg import INK, QUIET, lettered, moved
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.text import listed
from pellucid.records import PositionKinds, PositionsShown

SIDE, LABELS, GAP = 196.0, 26.0, 30.0
SAME = 1e-5  # of the largest number: what single precision makes of equal ones
NARROWEST = 640.0  # so that the key and the captions have room beside a single kind
TICKS = 4  # of so many positions one is numbered


def draw_positions(seen: PositionKinds) -> Picture:
    """A column for each kind: its encodings above, and below what any two positions give."""
    marks = balance_key("below 0", "above 0; deepest at each map's largest")
    left = height = 0.0
    for kind in seen.kinds:
        column, height = _column(kind)
        marks += moved(column, left, 44)
        left += LABELS + SIDE + GAP
    return picture(
        "Where a token stands: kinds of positions", _captions(seen), marks, max(left - GAP, NARROWEST), 44 + height
    )


def _column(kind: PositionsShown) -> tuple[list[str], float]:
    places = [str(i) if i % TICKS == 0 else "" for i in range(len(kind.products))]
    acts = "acts on nothing" if kind.acts_on == "nothing" else f"acts on {kind.acts_on}"
    marks = [lettered(LABELS, 18, kind.kind, INK, is_bold=True, size=19), lettered(LABELS, 42, acts, QUIET)]
    top = 74.0
    if kind.encodings:
        marks.append(lettered(LABELS, top, f"{len(kind.encodings[0])} numbers for each", INK))
        marks += _map(kind.encodings, places, (), top + 10)
    else:
        marks.append(lettered(LABELS, top, "no numbers of its own", QUIET))
    top += SIDE + 44
    marks.append(lettered(LABELS, top, "products of any two" if kind.encodings else "added to the scores", INK))
    marks += _map(kind.products, places, places, top + 10)
    low, high = _ends(kind.products)
    marks.append(lettered(LABELS, top + SIDE + 54, f"from {_number(low)} to {_number(high)}", QUIET))
    return marks, top + SIDE + 62


def _map(values: Rows, rows: Sequence[str], columns: Sequence[str], top: float) -> list[str]:
    """The deepest colour is the map's own largest number."""
    low, high = _ends(values)
    cell = SIDE / max(len(values), len(values[0]))
    drawn = heat(values, balanced(max(abs(low), abs(high))), cell, rows, columns)
    return moved(drawn.marks, LABELS - drawn.left, top)


def _ends(values: Rows) -> tuple[float, float]:
    return min([min(row) for row in values]), max([max(row) for row in values])


def _number(x: float) -> str:
    """
    >>> _number(-0.0), _number(12.345), _number(-3.0)
    ('0', '12.3', '−3')
    """
    return (f"{x:.3g}" if x else "0").replace("-", "−")


def by_distance(products: Rows) -> float:
    """How much the numbers of one distance differ, at most, beside the largest number of all; 0: they are the same.

    >>> by_distance([[2.0, 1.0], [1.0, 2.0]]), by_distance([[0.0, 0.0], [0.0, 4.0]])
    (0.0, 1.0)
    """
    low, high = _ends(products)
    most = max(abs(low), abs(high))
    diagonals: dict[int, list[float]] = {}
    for i, row in enumerate(products):
        for j, value in enumerate(row):
            diagonals.setdefault(i - j, []).append(value)
    return max([max(values) - min(values) for values in diagonals.values()]) / most if most else 0.0


def _captions(seen: PositionKinds) -> list[str]:
    said = [f"{seen.source}. Rows are positions, from 0, and below so are columns."]
    alike = [kind.kind for kind in seen.kinds if by_distance(kind.products) <= SAME]
    if alike:
        said.append(f"What two positions give depends on their distance alone, as measured, for {listed(alike)}.")
    others = [
        f"{kind.kind} {100 * spread:.0f} %" for kind in seen.kinds if (spread := by_distance(kind.products)) > SAME
    ]
    if others:
        said.append(f"At one distance it differs by this much of the largest number: {', '.join(others)}.")
    said += [
        f"In {kind.kind}, what lies ahead has the number of distance 0: there a mask hides it."
        for kind in seen.kinds
        if not kind.encodings and _is_one_ahead(kind.products)
    ]
    return said


def _is_one_ahead(products: Rows) -> bool:
    """Whether all that lies ahead of a position gives what the position gives with itself."""
    return len(products) > 2 and all([value == row[i] for i, row in enumerate(products) for value in row[i:]])


FIGURE = FigureCard(
    name="positions",
    says="Position encodings of every kind, and the dot product or the score that any two positions give.",
    needs=PositionKinds,
    draw=draw_positions,
    options=("--seed",),
    tiny=PositionKinds(
        source="2 positions",
        kinds=(
            PositionsShown("index", "input", ((0.0, 0.0), (1.0, 0.0)), ((0.0, 0.0), (0.0, 1.0))),
            PositionsShown("alibi", "scores", (), ((0.0, -0.5), (-0.5, 0.0))),
        ),
    ),
)
