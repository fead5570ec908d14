"""Position encodings: the numbers that each position has, and how any two positions meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.errors import PellucidError, require_one_of
from pellucid.figures.charts.matrix import Rows, balance_key, balanced_colours, heat_map
from pellucid.figures.charts.svg import INK, QUIET, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import join_words, percent, rough
from pellucid.lessons.lesson import TINY_TRANSFORMER, Lesson, seed_knob, train_small_run
from pellucid.options import check_options, option
from pellucid.records.answers import Matrix, as_matrix

if TYPE_CHECKING:
    from pellucid.layers.positions.encodings import Positions

SIDE, LABELS, GAP = 196.0, 26.0, 30.0
SAME = 1e-5  # of the largest number: what single precision makes of equal ones
NARROWEST = 640.0  # so that the key and the captions have room beside a single kind
TICKS = 4  # of so many positions one is numbered


KINDS = ("index", "sinusoidal", "learned", "rotary", "relative", "alibi")
LEARNED = ("learned", "relative")  # these say nothing before they are trained


class PositionEncoding(NamedTuple):
    """One kind of positions: the numbers that each position has, and how any two of them meet.

    For positions that are added or that turn, `products` are the dot products of the encodings; for those that act on
    the scores it is what they add there, in the first head, and there are no encodings.
    """

    kind: str
    acts_on: str
    encodings: Matrix  # a row for each position, or none
    products: Matrix


class PositionEncodings(NamedTuple):
    """Kinds of positions side by side, over equally many tokens."""

    source: str
    kinds: tuple[PositionEncoding, ...]


@dataclass(frozen=True)
class PositionKnobs:
    seed: int = seed_knob()
    length: int = option(14, "Positions that are shown.", minimum=2, maximum=16)
    width: int = option(16, "Numbers of each position that is not learned; an even number.", minimum=2, maximum=512)
    steps: int = option(
        TINY_TRANSFORMER["steps"], "Steps of the transformers whose positions are learned.", maximum=5000
    )

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: PositionKnobs) -> PositionEncodings:
    """Every kind of positions over equally many tokens; those that are learned come from a small transformer."""
    kinds = [
        _trained_encoding(kind, knobs) if kind in LEARNED else new_encoding(kind, knobs.length, knobs.width)
        for kind in KINDS
    ]
    trained = f"{' and '.join(LEARNED)} are those of a transformer of names after {knobs.steps} steps"
    return PositionEncodings(f"{knobs.length} positions; {trained}, seed {knobs.seed}", tuple(kinds))


def _trained_encoding(kind: str, knobs: PositionKnobs) -> PositionEncoding:
    from pellucid.models.sequences.transformer import Transformer
    from pellucid.runs import open_run
    from pellucid.training.checkpoints import load_network

    # From scratch: standing on counts, a network need not ask where a token is, and its positions say little.
    asked = {**TINY_TRANSFORMER, "network": {"positions": kind}, "steps": knobs.steps, "start": "scratch"}
    with train_small_run(asked, knobs.seed) as (_, run):
        model = load_network(open_run(run))[0].double().for_inference().core
    assert isinstance(model, Transformer)
    return encoding_of(kind, model.positions, knobs.length)


def encoding_of(kind: str, positions: Positions, length: int) -> PositionEncoding:
    """What these positions give the first `length` tokens; a trained network's can be shown as well as new ones.

    >>> from pellucid.layers.positions.encodings import IndexPositions
    >>> encoding_of("index", IndexPositions(width=2), 3).products
    ((0.0, 0.0, 0.0), (0.0, 1.0, 2.0), (0.0, 2.0, 4.0))
    """
    import torch

    with torch.no_grad():
        bias, added, angles = (
            positions.bias(length, length),
            positions.embeddings(0, length),
            positions.angles(0, length),
        )
        if bias is not None:
            return PositionEncoding(kind, positions.acts_on, encodings=(), products=as_matrix(bias[0]))
        if added is not None:
            encodings = added
        elif angles is not None:
            encodings = angles.flatten(1)
        else:
            encodings = torch.zeros(length, 1)
        products = encodings.double() @ encodings.double().t()
        return PositionEncoding(kind, positions.acts_on, as_matrix(encodings), as_matrix(products))


def new_encoding(kind: str, length: int, width: int, seed: int = 0) -> PositionEncoding:
    """The same for positions as they begin, in a causal network with a single head.

    >>> new_encoding("rotary", length=4, width=8).acts_on
    'queries and keys'
    """
    import torch

    from pellucid.layers.positions import POSITIONS, build_positions

    require_one_of("position encoding", kind, POSITIONS)
    if kind == "rotary" and width % 2:
        raise PellucidError(f"rotary positions turn pairs, and {width} is odd", fix=f"Choose width {width + 1}")
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(seed)
        positions = build_positions(kind, length=length, width=width, n_heads=1, is_causal=True)
    return encoding_of(kind, positions, length)


def draw(record: PositionEncodings) -> Picture:
    """A column for each kind: its encodings above, and below what any two positions give."""
    marks = balance_key("below 0", "above 0; deepest at each map's largest")
    left = height = 0.0
    for kind in record.kinds:
        column, height = _column(kind)
        marks += move_marks(column, left, 44)
        left += LABELS + SIDE + GAP
    return picture(
        "Where a token stands: kinds of positions", _captions(record), marks, max(left - GAP, NARROWEST), 44 + height
    )


def _column(kind: PositionEncoding) -> tuple[list[str], float]:
    places = [str(i) if i % TICKS == 0 else "" for i in range(len(kind.products))]
    acts = "acts on nothing" if kind.acts_on == "nothing" else f"acts on {kind.acts_on}"
    marks = [svg_text(LABELS, 18, kind.kind, INK, is_bold=True, size=19), svg_text(LABELS, 42, acts, QUIET)]
    top = 74.0
    if kind.encodings:
        marks.append(svg_text(LABELS, top, f"{len(kind.encodings[0])} numbers for each", INK))
        marks += _map(kind.encodings, places, (), top + 10)
    else:
        marks.append(svg_text(LABELS, top, "no numbers of its own", QUIET))
    top += SIDE + 44
    marks.append(svg_text(LABELS, top, "products of any two" if kind.encodings else "added to the scores", INK))
    marks += _map(kind.products, places, places, top + 10)
    low, high = _ends(kind.products)
    marks.append(svg_text(LABELS, top + SIDE + 54, f"from {rough(low)} to {rough(high)}".replace("-", "−"), QUIET))
    return marks, top + SIDE + 62


def _map(values: Rows, rows: Sequence[str], columns: Sequence[str], top: float) -> list[str]:
    """The deepest colour is the map's own largest number."""
    low, high = _ends(values)
    cell = SIDE / max(len(values), len(values[0]))
    drawn = heat_map(values, balanced_colours(max(abs(low), abs(high))), cell, rows, columns)
    return move_marks(drawn.marks, LABELS - drawn.left, top)


def _ends(values: Rows) -> tuple[float, float]:
    return min([min(row) for row in values]), max([max(row) for row in values])


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


def _captions(record: PositionEncodings) -> list[str]:
    said = [f"{record.source}. Rows are positions, from 0, and below so are columns."]
    alike = [kind.kind for kind in record.kinds if by_distance(kind.products) <= SAME]
    if alike:
        said.append(f"What two positions give depends on their distance alone, as measured, for {join_words(alike)}.")
    others = [
        f"{kind.kind} {percent(spread)}" for kind in record.kinds if (spread := by_distance(kind.products)) > SAME
    ]
    if others:
        said.append(f"At one distance it differs by this much of the largest number: {', '.join(others)}.")
    said += [
        f"In {kind.kind}, what lies ahead has the number of distance 0: there a mask hides it."
        for kind in record.kinds
        if not kind.encodings and _is_one_ahead(kind.products)
    ]
    return said


def _is_one_ahead(products: Rows) -> bool:
    """Whether all that lies ahead of a position gives what the position gives with itself."""
    return len(products) > 2 and all([value == row[i] for i, row in enumerate(products) for value in row[i:]])


LESSON = Lesson(
    name="positions",
    summary="Position encodings of every kind, and the dot product or the score that any two positions give.",
    measure=measure,
    draw=draw,
    knobs=PositionKnobs,
)
