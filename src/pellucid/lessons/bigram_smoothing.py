"""Smoothing: what adding s to every bigram count does to the next symbol's probabilities and to the loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pellucid.errors import PellucidError, quoted
from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, chart_specification
from pellucid.figures.picture import Chart
from pellucid.figures.words.numbers import rough, short
from pellucid.figures.words.text import labels, most_frequent, share, spoken
from pellucid.lessons.lesson import Lesson

if TYPE_CHECKING:
    from pellucid.data import ListData, TextData
    from pellucid.models.counting.count_model import FloatArray, IntArray, Stream

MOST_SYMBOLS = 32
ROW_HEIGHT, ROW_GAP, STEP = 74, 12, 21
LOSS_WIDTH = 640


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
    notes: tuple[str, ...] = ()  # what the data were taken for


def measure(source: str = "names", after: str = "", kind: str = "", encoding: str = "utf-8") -> SmoothingStudy:
    """The same for data by their name or file: see `smooth_counts`."""
    from pellucid.data import open_data, require_kind
    from pellucid.data.kinds import ListData, TextData

    data = open_data(source, kind=kind, encoding=encoding)
    require_kind(data, "list", "text")
    assert isinstance(data, ListData | TextData)
    return smooth_counts(data, after)


def smooth_counts(data: ListData | TextData, after: str = "") -> SmoothingStudy:
    """Count pairs on the train side and add ever more to each count: one symbol's row, and the loss on both sides.

    after: the symbol whose row is shown; "" is the boundary of a list and the most frequent symbol of a text.
    """
    import numpy as np

    from pellucid.data.prepare.tokens import split_sequences
    from pellucid.models.counting.counts import count
    from pellucid.models.counting.tables import counted_pairs

    sides = split_sequences(data)
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
        rows=tuple([SmoothedRow(s, tuple(_smoothed(row, sums[place], s, vocab_size).tolist())) for s in SHOWN]),
        losses=tuple([SmoothedLoss(s, *[_loss(*side, s, vocab_size) for side in measured]) for s in TRIED]),
        notes=(data.said, *data.notes),
    )


def _smoothed(counts: IntArray, sums: IntArray, s: float, vocab_size: int) -> FloatArray:
    """Add-s probabilities of pairs. After what was never followed by any, each is as likely, as where s → 0 leads."""
    import numpy as np

    even = np.full(np.shape(counts), 1 / vocab_size)
    totals = np.broadcast_to(sums + s * vocab_size, np.shape(counts))
    found: FloatArray = np.divide(counts + s, totals, out=even, where=totals > 0)
    return found


def _loss(n: IntArray, counts: IntArray, sums: IntArray, s: float, vocab_size: int) -> float:
    """The mean surprise over every pair of a side, in nats."""
    import numpy as np

    probabilities = _smoothed(counts, sums, s, vocab_size)
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


def draw(record: SmoothingStudy) -> Chart:
    """On the left one row of bars for each s, on the right the loss against s."""
    names = labels(record.symbols, has_boundary=record.has_boundary)
    after = spoken(names[record.after])
    title = "Smoothing: add s to every count, and the model forgets what it counted"
    caption = _captions(record)
    shown = most_frequent([_weight(record, place) for place in range(len(names))], MOST_SYMBOLS)
    left = _bars(record, [(place, names[place]) for place in shown], after)
    specification = chart_specification(
        title, caption, hconcat=[left, _losses(record)], spacing=70, resolve={"scale": {"color": "independent"}}
    )
    return Chart(title, caption, specification)


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
        part = share(record.n_dev_unseen, record.n_dev)
        lines.append(
            f"{said}: {record.n_dev_unseen:,} of the {record.n_dev:,} dev bigrams ({part}) never occur in train."
        )
    lines.append(
        f"Of {len(record.losses)} values tried, s = {rough(lowest.s)} has the lowest dev loss, {lowest.dev:.4f} nats; "
        f"as s grows, both losses go to ln {n:,} = {math.log(n):.4f}."
    )
    return tuple(lines)


def _bars(record: SmoothingStudy, shown: list[tuple[int, str]], after: str) -> dict[str, Any]:
    """One row of bars for each s, all on one scale, with the line of equal chances."""
    rows = [f"s = {row.s:,g}" for row in record.rows]
    values = [
        {"s": name, "next": label, "p": row.probabilities[place], "n": i}
        for i, (name, row) in enumerate(zip(rows, record.rows, strict=True))
        for place, label in shown
    ]
    equal = 1 / len(record.symbols)
    x = {
        "field": "next",
        "type": "nominal",
        "scale": {"domain": [label for _, label in shown]},
        "axis": {"title": None, "labelAngle": 0, "ticks": False, "labelFontWeight": 600, "labelPadding": 6},
    }
    y = {
        "field": "p",
        "type": "quantitative",
        "axis": {"title": None, "format": ".0%", "tickCount": 2, "labelFontSize": 13, "domain": False, "ticks": False},
    }
    bars = {
        "mark": {"type": "bar", "color": BLUE, "width": STEP - 5},
        "encoding": {
            "x": x,
            "y": y,
            "tooltip": [
                {"field": "s", "title": "smoothing"},
                {"field": "next", "title": "next symbol"},
                {"field": "p", "title": "probability", "format": ".5f"},
            ],
        },
    }
    line = {
        "mark": {"type": "rule", "color": ORANGE, "strokeWidth": 2, "strokeDash": [6, 4]},
        "encoding": {"y": {"datum": equal}},
    }
    header = {
        "title": None,
        "labelAngle": 0,
        "labelAlign": "left",
        "labelFontSize": 17,
        "labelFontWeight": 600,
        "labelColor": INK,
        "labelPadding": 12,
    }
    left_out = "" if len(shown) == len(record.symbols) else f", the {len(shown)} most likely at s = 0"
    return {
        "title": {
            "text": f"What comes after {after}{left_out}",
            "subtitle": f"seen {record.n_after:,} times in train; dashed: 1/{len(record.symbols):,} = {equal:.4f}",
            **_SMALL_TITLE,
        },
        "data": {"values": values},
        "facet": {"row": {"field": "s", "type": "nominal", "sort": rows, "header": header}},
        "spacing": ROW_GAP,
        "spec": {"width": {"step": STEP}, "height": ROW_HEIGHT, "layer": [bars, line]},
    }


def _losses(record: SmoothingStudy) -> dict[str, Any]:
    """The two curves on a logarithmic axis; s = 0 has no place on it and stands in the caption."""
    values: list[dict[str, Any]] = [
        {"s": loss.s, "loss": value, "side": side}
        for loss in record.losses
        if loss.s > 0
        for side, value in (("dev", loss.dev), ("train", loss.train))
        if math.isfinite(value)
    ]
    limit, lowest = math.log(len(record.symbols)), best(record)
    height = max(300, len(record.rows) * (ROW_HEIGHT + ROW_GAP) - ROW_GAP)  # that of the bars beside it
    heights = [limit, *[value["loss"] for value in values]]
    top = max(heights) + 0.06 * (max(heights) - min(heights))  # room for words above the limit
    colour = {
        "field": "side",
        "type": "nominal",
        "scale": {"domain": ["dev", "train"], "range": [ORANGE, BLUE]},
        "legend": {"title": None, "orient": "top-left", "labelFontSize": 17, "symbolStrokeWidth": 4, "symbolSize": 300},
    }
    x = {
        "field": "s",
        "type": "quantitative",
        "scale": {"type": "log"},
        "axis": {
            "title": "s, added to every count",
            "format": ",.12~g",
            "grid": False,
            "values": [0.01, 1, 100, 1e4, 1e6],
        },
    }
    y = {
        "field": "loss",
        "type": "quantitative",
        "scale": {"zero": False, "domainMax": top},
        "axis": {"title": "loss, nats per predicted symbol", "tickCount": 6},
    }
    tooltip = [
        {"field": "side", "title": "side"},
        {"field": "s", "title": "s", "format": "~g"},
        {"field": "loss", "title": "nats", "format": ".4f"},
    ]
    dashes = {"field": "side", "scale": {"domain": ["dev", "train"], "range": [[1, 0], [7, 4]]}, "legend": None}
    layers: list[dict[str, Any]] = [
        {
            "mark": {"type": "rule", "color": QUIET, "strokeWidth": 2, "strokeDash": [6, 4]},
            "encoding": {"y": {"datum": limit}},
        },
        {
            "data": {"values": [{"loss": limit, "says": f"ln {len(record.symbols):,} = {limit:.4f}: guessing"}]},
            "mark": {"type": "text", "align": "right", "dx": LOSS_WIDTH, "dy": -12, "fontSize": 17, "color": QUIET},
            "encoding": {"x": {"value": 0}, "y": y, "text": {"field": "says"}},
        },
        {
            "data": {"values": values},
            "mark": {"type": "line", "strokeWidth": 3.5, "point": {"size": 46}},
            "encoding": {
                "x": x,
                "y": y,
                "color": colour,
                # Told apart by the dash too, where colours are not.
                "strokeDash": dashes,
                "tooltip": tooltip,
            },
        },
    ]
    if lowest.s > 0 and math.isfinite(lowest.dev):
        ring = {"s": lowest.s, "loss": lowest.dev}
        # The words stand in the corner that stays free, because both curves rise to the limit.
        words = {"says": f"ring: lowest on dev, s = {rough(lowest.s)}"}
        layers += [
            {
                "data": {"values": [ring]},
                "mark": {"type": "point", "size": 260, "color": INK, "strokeWidth": 2.5},
                "encoding": {"x": x, "y": y},
            },
            {
                "data": {"values": [words]},
                "mark": {"type": "text", "align": "right", "fontSize": 17, "color": INK},
                "encoding": {"x": {"value": LOSS_WIDTH - 10}, "y": {"value": height - 30}, "text": {"field": "says"}},
            },
        ]
    return {
        "title": {
            "text": "What it costs",
            "subtitle": "train is what was counted, dev is what was not",
            **_SMALL_TITLE,
        },
        "width": LOSS_WIDTH,
        "height": height,
        "layer": layers,
    }


_SMALL_TITLE = {
    "anchor": "start",
    "frame": "group",
    "fontSize": 20,
    "fontWeight": 600,
    "color": INK,
    "subtitleFontSize": 16,
    "subtitleColor": QUIET,
    "subtitlePadding": 6,
    "offset": 16,
}

LESSON = Lesson(
    name="smoothing",
    summary="What adding s to every bigram count does to the next symbol's probabilities and to the loss.",
    measure=measure,
    draw=draw,
    notes=lambda record: record.notes,
    tiny=SmoothingStudy(
        source="two words",
        symbols=("·", "a"),
        has_boundary=True,
        after=0,
        n_after=2,
        n_train=4,
        n_dev=2,
        n_dev_unseen=1,
        rows=(SmoothedRow(0.0, (0.0, 1.0)), SmoothedRow(2.0, (1 / 3, 2 / 3))),
        losses=(SmoothedLoss(0.0, 0.35, math.inf), SmoothedLoss(1.0, 0.5, 0.6), SmoothedLoss(2.0, 0.6, 0.65)),
    ),
)
