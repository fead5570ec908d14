"""What add-s smoothing does: the next symbol's probabilities flatten, and the loss goes to that of guessing."""

import math
from typing import Any

from pellucid.figures.charts.svg import BLUE, INK, ORANGE, QUIET, chart_specification
from pellucid.figures.picture import Chart, FigureCard
from pellucid.figures.words.numbers import rough, short
from pellucid.figures.words.text import labels, most_frequent, share, spoken
from pellucid.records import SmoothedLoss, SmoothedRow, Smoothing

MOST_SYMBOLS = 32
ROW_HEIGHT, ROW_GAP, STEP = 74, 12, 21
LOSS_WIDTH = 640


def draw_smoothing(seen: Smoothing) -> Chart:
    """On the left one row of bars for each s, on the right the loss against s."""
    names = labels(seen.symbols, has_boundary=seen.has_boundary)
    after = spoken(names[seen.after])
    title = "Smoothing: add s to every count, and the model forgets what it counted"
    caption = _captions(seen)
    shown = most_frequent([_weight(seen, place) for place in range(len(names))], MOST_SYMBOLS)
    left = _bars(seen, [(place, names[place]) for place in shown], after)
    specification = chart_specification(
        title, caption, hconcat=[left, _losses(seen)], spacing=70, resolve={"scale": {"color": "independent"}}
    )
    return Chart(title, caption, specification)


def _weight(seen: Smoothing, place: int) -> int:
    """A symbol's rank among the bars; a probability as a whole number, for ties to keep their order."""
    return round(1e9 * seen.rows[0].probabilities[place])


def best(seen: Smoothing) -> SmoothedLoss:
    """The s with the smallest dev loss among those tried."""
    return min(seen.losses, key=lambda loss: loss.dev)


def _captions(seen: Smoothing) -> tuple[str, ...]:
    n = len(seen.symbols)
    lowest = best(seen)
    lines = [
        f"A bigram model of {seen.source}: counted on {seen.n_train:,} bigrams of train, "
        f"measured on {seen.n_dev:,} of dev; {n:,} symbols.",
    ]
    unseen = seen.losses[0]
    if unseen.s == 0.0:
        said = f"With s = 0 the dev loss is {short(unseen.dev)}"
        if math.isinf(unseen.dev):
            said = "With s = 0 the dev loss is infinite"
        lines.append(
            f"{said}: {seen.n_dev_unseen:,} of the {seen.n_dev:,} dev bigrams ({share(seen.n_dev_unseen, seen.n_dev)}) "
            f"never occur in train."
        )
    lines.append(
        f"Of {len(seen.losses)} values tried, s = {rough(lowest.s)} has the lowest dev loss, {lowest.dev:.4f} nats; "
        f"as s grows, both losses go to ln {n:,} = {math.log(n):.4f}."
    )
    return tuple(lines)


def _bars(seen: Smoothing, shown: list[tuple[int, str]], after: str) -> dict[str, Any]:
    """One row of bars for each s, all on one scale, with the line of equal chances."""
    rows = [f"s = {row.s:,g}" for row in seen.rows]
    values = [
        {"s": name, "next": label, "p": row.probabilities[place], "n": i}
        for i, (name, row) in enumerate(zip(rows, seen.rows, strict=True))
        for place, label in shown
    ]
    equal = 1 / len(seen.symbols)
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
    left_out = "" if len(shown) == len(seen.symbols) else f", the {len(shown)} most likely at s = 0"
    return {
        "title": {
            "text": f"What comes after {after}{left_out}",
            "subtitle": f"seen {seen.n_after:,} times in train; dashed: 1/{len(seen.symbols):,} = {equal:.4f}",
            **_SMALL_TITLE,
        },
        "data": {"values": values},
        "facet": {"row": {"field": "s", "type": "nominal", "sort": rows, "header": header}},
        "spacing": ROW_GAP,
        "spec": {"width": {"step": STEP}, "height": ROW_HEIGHT, "layer": [bars, line]},
    }


def _losses(seen: Smoothing) -> dict[str, Any]:
    """The two curves on a logarithmic axis; s = 0 has no place on it and stands in the caption."""
    values: list[dict[str, Any]] = [
        {"s": loss.s, "loss": value, "side": side}
        for loss in seen.losses
        if loss.s > 0
        for side, value in (("dev", loss.dev), ("train", loss.train))
        if math.isfinite(value)
    ]
    limit, lowest = math.log(len(seen.symbols)), best(seen)
    height = max(300, len(seen.rows) * (ROW_HEIGHT + ROW_GAP) - ROW_GAP)  # that of the bars beside it
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
            "data": {"values": [{"loss": limit, "says": f"ln {len(seen.symbols):,} = {limit:.4f}: guessing"}]},
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

FIGURE = FigureCard(
    name="smoothing",
    says="What adding s to every bigram count does to the next symbol's probabilities and to the loss, up to uniform.",
    needs=Smoothing,
    draw=draw_smoothing,
    options=("--after",),
    tiny=Smoothing(
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
