"""Smoothing: what adding s to every bigram count does to the next symbol's probabilities and to the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pellucid.data.options import boundary_option, require_used
from pellucid.errors import PellucidError, quoted
from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, LINE, ORANGE, QUIET, SIZE, escape_text, move_marks, svg_text
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import most_frequent, percent, rough, short, spoken_label, symbol_labels
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option
from pellucid.records import Statement, make_note

if TYPE_CHECKING:
    from pellucid.data import ListData, TextData
    from pellucid.models.counting.count_model import FloatArray, IntArray, Stream

MOST_SYMBOLS = 32
ROW_HEIGHT, ROW_GAP, STEP = 74, 12, 21
LOSS_WIDTH = 640.0
BARS_LEFT, TOP = 165.0, 66.0  # for the words beside and above the bars

SHOWN = (0.0, 1.0, 10.0, 100.0, 1_000.0, 10_000.0, 100_000.0)
TRIED = (0.0, *[digit * 10.0**power for power in range(-2, 7) for digit in (1, 2, 5)], 1e7)
SPOKEN = {"space": " ", "newline": "\n", "tab": "\t"}


class SmoothedRow(NamedTuple):
    """The probabilities of the next symbol after one symbol, with s added to every count."""

    s: float
    probabilities: tuple[float, ...]


class SmoothedLoss(NamedTuple):
    """What add-s smoothing does to the loss, in nats per predicted symbol; infinite where the unseen came."""

    s: float
    train: float
    dev: float


class SmoothingStudy(NamedTuple):
    """A bigram model counted on the training side, smoothed by adding ever more to every count."""

    source: str
    symbols: tuple[str, ...]
    has_boundary: bool
    after: int  # the symbol whose row is shown
    n_after: int  # how often it is followed by any in train
    n_train: int  # predicted symbols
    n_dev: int
    n_dev_unseen: int  # of these, those whose bigram never occurs in train
    rows: tuple[SmoothedRow, ...]
    losses: tuple[SmoothedLoss, ...]  # s grows from 0
    notes: tuple[Statement, ...] = ()  # what the data were taken for


@dataclass(frozen=True)
class SmoothingKnobs:
    source: str = "names"
    after: str = option("", "Symbol whose next ones are shown; by default the boundary.", value_name="SYMBOL")
    added: tuple[float, ...] = option(SHOWN, "What is added to every count, in the rows that are shown.", minimum=0)
    kind: str = option("", "Read the data as list or text, whatever they look like.")
    encoding: str = option("utf-8", "Character encoding of the file.")
    boundary: str = boundary_option()

    def __post_init__(self) -> None:
        check_options(self)


def measure(knobs: SmoothingKnobs) -> SmoothingStudy:
    """The same for data by their name or file: see `smooth_counts`."""
    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ListData, TextData

    data = open_data(knobs.source, kind=knobs.kind, encoding=knobs.encoding)
    require_kind(data, "list", "text")
    assert isinstance(data, ListData | TextData)
    require_used(knobs, data.kind)
    return smooth_counts(data, knobs.after, knobs.added, knobs.boundary)


def smooth_counts(
    data: ListData | TextData, after: str = "", added: Sequence[float] = SHOWN, boundary: str = "one"
) -> SmoothingStudy:
    """Count pairs on the train side and add ever more to each count: one symbol's row, and the loss on both sides.

    after: the symbol whose row is shown; "" is the boundary of a list and the most frequent symbol of a text.
    """
    import numpy as np

    from pellucid.data.prepare.tokens import split_sequences
    from pellucid.models.counting.counts import count
    from pellucid.models.counting.simple_models import counted_pairs

    sides = split_sequences(data, boundary=boundary)
    vocab_size = len(sides.vocabulary)
    if len(sides.train.tokens) < 2 or len(sides.dev.tokens) < 2:
        raise PellucidError(f"nothing of {data.name} falls to the dev side to measure on", fix="Give it more items")
    train = count(sides.train, vocab_size, order=2)
    level = train.levels[1]
    sums = np.zeros(vocab_size, np.int64)
    codes, counts = counted_pairs(train)
    np.add.at(sums, codes // vocab_size, counts)
    place = _place(after, sides.vocabulary.tokens, sides.vocabulary.has_boundary, sums, data.name)
    row = np.zeros(vocab_size, np.int64)
    is_in_row = codes // vocab_size == place
    row[codes[is_in_row] % vocab_size] = counts[is_in_row]

    def seen_in_train(side: Stream) -> tuple[IntArray, IntArray, IntArray]:
        """For each pair of a side: how often it stands there, how often in train, and how often its first does."""
        found, n = counted_pairs(count(side, vocab_size, order=2))
        return n, np.append(level.counts, 0)[level.find(found)], sums[found // vocab_size]

    measured = [seen_in_train(side) for side in (sides.train, sides.dev)]
    n_dev, in_train, _ = measured[1]
    return SmoothingStudy(
        source=data.name,
        symbols=tuple(sides.vocabulary.tokens),
        has_boundary=sides.vocabulary.has_boundary,
        after=place,
        n_after=int(sums[place]),
        n_train=int(measured[0][0].sum()),
        n_dev=int(n_dev.sum()),
        n_dev_unseen=int(n_dev[in_train == 0].sum()),
        rows=tuple([SmoothedRow(s, tuple(_add_s(row, sums[place], s, vocab_size).tolist())) for s in added]),
        losses=tuple([SmoothedLoss(s, *[_loss(*side, s, vocab_size) for side in measured]) for s in TRIED]),
        notes=(make_note("drawn-of-data", description=data.description), *data.notes),
    )


def _add_s(counts: IntArray, sums: IntArray, s: float, vocab_size: int) -> FloatArray:
    """Add-s probabilities of pairs. After what was never followed by any, each is as likely, as where s → 0 leads."""
    import numpy as np

    even = np.full(np.shape(counts), 1 / vocab_size)
    totals = np.broadcast_to(sums + s * vocab_size, np.shape(counts))
    found: FloatArray = np.divide(counts + s, totals, out=even, where=totals > 0)
    return found


def _loss(n: IntArray, counts: IntArray, sums: IntArray, s: float, vocab_size: int) -> float:
    """The mean surprise over every pair of a side, in nats."""
    import numpy as np

    probabilities = _add_s(counts, sums, s, vocab_size)
    with np.errstate(divide="ignore"):
        return float(-(n * np.log(probabilities)).sum() / n.sum())


def _place(after: str, tokens: Sequence[str], has_boundary: bool, sums: IntArray, name: str) -> int:
    if not after:
        return 0 if has_boundary else int(sums.argmax())
    symbol = after if after in tokens else SPOKEN.get(after, after)
    if symbol not in tokens:
        known = "".join([token for token in tokens if token.isprintable()][:40])
        raise PellucidError(f"{quoted(after)} never occurs in {name}", fix=f"Choose one character of {quoted(known)}")
    return list(tokens).index(symbol)


def draw(record: SmoothingStudy) -> Picture:
    """On the left one row of bars for each s, on the right the loss against s."""
    names = symbol_labels(record.symbols, has_boundary=record.has_boundary)
    title = "Smoothing: add s to every count, and the model forgets what it counted"
    shown = most_frequent([_weight(record, place) for place in range(len(names))], MOST_SYMBOLS)
    height = max(300.0, len(record.rows) * (ROW_HEIGHT + ROW_GAP) - ROW_GAP)
    left = BARS_LEFT + max(len(shown) * STEP, 420.0) + 20
    marks = [
        *_bars(record, [(place, names[place]) for place in shown], spoken_label(names[record.after])),
        *move_marks(_losses(record, height), left, 0),
    ]
    return picture(title, _captions(record), marks, left + LEFT + LOSS_WIDTH + 20, TOP + height + BOTTOM)


def _weight(record: SmoothingStudy, place: int) -> int:
    """A symbol's rank among the bars; a probability as a whole number, for ties to keep their order."""
    return round(1e9 * record.rows[0].probabilities[place])


def best(record: SmoothingStudy) -> SmoothedLoss:
    """The s with the smallest dev loss among those tried."""
    return min(record.losses, key=lambda loss: loss.dev)


def _captions(record: SmoothingStudy) -> tuple[str, ...]:
    n = len(record.symbols)
    lowest = best(record)
    lines = [
        f"A bigram model of {record.source}: counted on {record.n_train:,} bigrams of train, "
        f"measured on {record.n_dev:,} of dev; {n:,} symbols.",
    ]
    unseen = record.losses[0]
    if unseen.s == 0.0:
        said = f"With s = 0 the dev loss is {short(unseen.dev)}"
        if math.isinf(unseen.dev):
            said = "With s = 0 the dev loss is infinite"
        part = percent(record.n_dev_unseen, record.n_dev)
        lines.append(
            f"{said}: {record.n_dev_unseen:,} of the {record.n_dev:,} dev bigrams ({part}) never occur in train."
        )
    lines.append(
        f"Of {len(record.losses)} values tried, s = {rough(lowest.s)} has the lowest dev loss, {lowest.dev:.4f} nats; "
        f"as s grows, both losses go to ln {n:,} = {math.log(n):.4f}."
    )
    return tuple(lines)


def _bars(record: SmoothingStudy, shown: list[tuple[int, str]], after: str) -> list[str]:
    """One row of bars for each s, all on one scale, with the line of equal chances."""
    equal = 1 / len(record.symbols)
    left_out = "" if len(shown) == len(record.symbols) else f", the {len(shown)} most likely at s = 0"
    said = f"seen {record.n_after:,} times in train; dashed: 1/{len(record.symbols):,} = {equal:.4f}"
    marks = [
        svg_text(BARS_LEFT, 18, f"What comes after {after}{left_out}", INK, is_bold=True, size=20),
        svg_text(BARS_LEFT, 42, said, QUIET),
    ]
    highest = max([row.probabilities[place] for row in record.rows for place, _ in shown])
    axis = axis_spanning([0.0, highest], "", margin=0.0)
    width = len(shown) * STEP
    for i, row in enumerate(record.rows):
        one = [svg_text(-62, ROW_HEIGHT / 2 + 6, f"s = {row.s:,g}", INK, is_bold=True, align="end", size=17)]
        for tick in axis.ticks(3):
            y = ROW_HEIGHT * (1 - axis.part(tick))
            one.append(f'<path d="M0 {y:.1f}H{width}" stroke="{LINE}"/>')
            one.append(svg_text(-6, y + 5, f"{100 * tick:g} %", INK, align="end", size=13))
        for j, (place, label) in enumerate(shown):
            probability = row.probabilities[place]
            bar = ROW_HEIGHT * axis.part(probability)
            words = escape_text(f"{label}, s = {row.s:,g}: {probability:.5f}")
            one.append(
                f'<rect x="{j * STEP + 2.5:.1f}" y="{ROW_HEIGHT - bar:.1f}" width="{STEP - 5}" height="{bar:.1f}" '
                f'fill="{BLUE}"><title>{words}</title></rect>'
            )
        y = ROW_HEIGHT * (1 - axis.part(equal))
        one.append(f'<path d="M0 {y:.1f}H{width}" stroke="{ORANGE}" stroke-width="2" stroke-dasharray="6 4"/>')
        marks += move_marks(one, BARS_LEFT, TOP + i * (ROW_HEIGHT + ROW_GAP))
    below = TOP + len(record.rows) * (ROW_HEIGHT + ROW_GAP) + 10
    for j, (_, label) in enumerate(shown):
        # Below a narrow bar there is room for one letter, or for a few small ones.
        size = SIZE if len(label) == 1 else 1.4 * STEP / len(label)
        marks.append(svg_text(BARS_LEFT + (j + 0.5) * STEP, below, label, INK, is_bold=True, align="middle", size=size))
    return marks


def _losses(record: SmoothingStudy, height: float) -> list[str]:
    """The two curves on a logarithmic axis; s = 0 has no place on it and stands in the caption."""
    limit, lowest = math.log(len(record.symbols)), best(record)
    tried = [loss for loss in record.losses if loss.s > 0]
    x = axis_spanning([loss.s for loss in tried], "s, added to every count", is_log=True, margin=0.0)
    y = axis_spanning(
        [limit, *[value for loss in tried for value in (loss.train, loss.dev)]], "loss, nats a symbol", margin=0.06
    )
    panel = Panel(x, y, LOSS_WIDTH, height)
    panel.across(limit)
    panel.words(
        LOSS_WIDTH,
        panel.at(x.low, limit)[1] - 8,
        f"ln {len(record.symbols):,} = {limit:.4f}: guessing",
        QUIET,
        align="end",
    )
    for side, points, colour, dash in (
        ("dev", [(loss.s, loss.dev) for loss in tried], ORANGE, ""),
        ("train", [(loss.s, loss.train) for loss in tried], BLUE, "7 4"),
    ):
        # Told apart by the dash too, where colours are not.
        panel.line(points, colour, width=3.5, dash=dash, says=side)
        for s, loss in points:
            if math.isfinite(loss):
                panel.dot(s, loss, colour, size=3.0, says=f"{side}, s = {s:g}: {loss:.4f}")
    for i, (side, colour) in enumerate((("dev", ORANGE), ("train", BLUE))):
        dash = ' stroke-dasharray="7 4"' * (side == "train")
        panel.mark_at(16, 24 + 26 * i, f'<path d="M0 -5h36" stroke="{colour}" stroke-width="3.5"{dash}/>')
        panel.words(60, 24 + 26 * i, side, INK)
    if lowest.s > 0 and math.isfinite(lowest.dev):
        left, top = panel.at(lowest.s, lowest.dev)
        panel.mark_at(left, top, f'<circle r="9" fill="none" stroke="{INK}" stroke-width="2.5"/>')
        # The words stand in the corner that stays free, because both curves rise to the limit.
        panel.words(LOSS_WIDTH - 10, height - 30, f"ring: lowest on dev, s = {rough(lowest.s)}", INK, align="end")
    return [
        svg_text(LEFT, 18, "What it costs", INK, is_bold=True, size=20),
        svg_text(LEFT, 42, "train is what was counted, dev is what was not", QUIET),
        *panel.draw(0, TOP),
    ]


LESSON = Lesson(
    name="smoothing",
    summary="What adding s to every bigram count does to the next symbol's probabilities and to the loss.",
    measure=measure,
    draw=draw,
    knobs=SmoothingKnobs,
    argument="source",
    notes=lambda record: record.notes,
)
