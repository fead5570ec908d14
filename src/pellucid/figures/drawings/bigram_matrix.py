"""The bigram count matrix as a heat map: a row for each symbol, a column for what follows it, a number in each cell."""

from typing import Any

from pellucid.figures.charts.svg import INK, PAPER, QUIET, SHADES, chart_specification, depth, depth_marks
from pellucid.figures.picture import Chart, FigureCard
from pellucid.figures.words.text import compact, labels, listed, most_frequent, share, spoken
from pellucid.records import BigramCount, BigramCounts

MOST_SYMBOLS = 40  # rows whose numbers can still be read on a wall
CELL_WIDTH, CELL_HEIGHT = 46, 34
SUM = "sum"


def draw_bigram_matrix(seen: BigramCounts) -> Chart:
    """The heat map, with the sum of every row and column at its edges."""
    names = labels(seen.symbols, seen.has_boundary)
    rows, columns = seen.row_sums(), seen.column_sums()
    shown = most_frequent([max(pair) for pair in zip(rows, columns, strict=True)], MOST_SYMBOLS)
    drawn = [bigram for bigram in seen.bigrams if {bigram.first, bigram.second} <= set(shown)]
    most = max([bigram.n for bigram in drawn], default=1)
    cells = [
        {
            "symbol": names[first],
            "next": names[second],
            "n": n,
            "written": compact(n),
            "share": share(n, rows[first]),
            "is_dark": depth(n, most) > 0.5,
        }
        for first, second, n in drawn
    ]
    sums = [{"symbol": names[i], "next": SUM, "written": compact(rows[i]), "n": rows[i]} for i in shown]
    sums += [{"symbol": SUM, "next": names[i], "written": compact(columns[i]), "n": columns[i]} for i in shown]
    sums += [{"symbol": SUM, "next": SUM, "written": compact(seen.total), "n": seen.total}]
    title, caption = "What follows what: bigram counts", captions(seen, len(shown), sum([bigram.n for bigram in drawn]))
    domain = [*[names[i] for i in shown], SUM]
    specification = chart_specification(title, caption, **_layers(domain, cells, sums, most))
    return Chart(title, caption, specification)


def captions(seen: BigramCounts, n_shown: int, n_drawn: int) -> tuple[str, ...]:
    """What was counted, what is drawn of it, and whether the sums agree, as measured."""
    n_symbols = len(seen.symbols)
    empty = n_symbols**2 - len(seen.bigrams)
    lines = [
        f"{seen.total:,} bigrams in {seen.source}. {n_symbols:,} symbols; "
        f"{empty:,} of {n_symbols**2:,} pairs never occur.",
        sums_line(seen),
    ]
    if n_shown < n_symbols:
        lines.append(
            f"Drawn: the {n_shown} most frequent symbols, which hold {share(n_drawn, seen.total)} of the bigrams."
        )
    return tuple(lines)


def sums_line(seen: BigramCounts) -> str:
    """Whether every symbol is left as often as it is reached.

    >>> sums_line(BigramCounts("emma", ("·", "a"), True, (BigramCount(0, 1, 1), BigramCount(1, 0, 1))))
    'Row sums equal column sums for all 2 symbols: each is left as often as it is reached.'
    """
    names = labels(seen.symbols, seen.has_boundary)
    pairs = list(zip(names, seen.row_sums(), seen.column_sums(), strict=True))
    apart = [f"{spoken(name)} (row {row:,}, column {column:,})" for name, row, column in pairs if row != column]
    if not apart:
        return f"Row sums equal column sums for all {len(pairs):,} symbols: each is left as often as it is reached."
    said = f"Row sums equal column sums for {len(pairs) - len(apart):,} of {len(pairs):,} symbols, not for "
    return said + listed(apart if len(apart) < 4 else [*apart[:2], f"{len(apart) - 2:,} more"]) + "."


def _layers(domain: list[str], cells: list[dict[str, Any]], sums: list[dict[str, Any]], most: int) -> dict[str, Any]:
    axis = {
        "orient": "top",
        "labelAngle": 0,
        "labelFontSize": 19,
        "labelFontWeight": 600,
        "ticks": False,
        "domain": False,
        "labelPadding": 8,
    }
    left = {**axis, "orient": "left"}
    place = {
        "x": {
            "field": "next",
            "type": "nominal",
            "scale": {"domain": domain},
            "axis": {**axis, "title": "is followed by"},
        },
        "y": {
            "field": "symbol",
            "type": "nominal",
            "scale": {"domain": domain},
            "axis": {**left, "title": "this symbol"},
        },
    }
    marks = depth_marks(most)
    legend = {
        "title": "count",
        "gradientLength": min(260, CELL_HEIGHT * len(domain)),
        "gradientThickness": 18,
        "values": marks,
        "format": ",d",
    }
    colour = {
        "field": "n",
        "type": "quantitative",
        "scale": {"type": "sqrt", "domain": [0, most], "range": list(SHADES)},
        "legend": legend if len(marks) > 2 else None,
    }
    tooltip = [
        {"field": "symbol", "title": "symbol"},
        {"field": "next", "title": "followed by"},
        {"field": "n", "title": "times", "format": ","},
        {"field": "share", "title": "of its row"},
    ]
    ink = {"condition": {"test": "datum.is_dark", "value": PAPER}, "value": INK}
    written = {"field": "written", "type": "nominal"}
    return {
        "width": {"step": CELL_WIDTH},
        "height": {"step": CELL_HEIGHT},
        "layer": [
            {
                "data": {"values": cells},
                "mark": {"type": "rect", "stroke": PAPER, "strokeWidth": 1},
                "encoding": {**place, "color": colour, "tooltip": tooltip},
            },
            {
                "data": {"values": cells},
                "mark": {"type": "text", "fontSize": 13},
                "encoding": {**place, "text": written, "color": ink, "tooltip": tooltip},
            },
            {
                "data": {"values": sums},
                "mark": {"type": "text", "fontSize": 13, "fontWeight": 600, "color": QUIET},
                "encoding": {**place, "text": written},
            },
        ],
    }


FIGURE = FigureCard(
    name="bigram-matrix",
    summary="How often each symbol follows each other one, as a heat map with the counts in its cells.",
    needs=BigramCounts,
    draw=draw_bigram_matrix,
    options=("word",),
    tiny=BigramCounts("emma", ("·", "a"), True, (BigramCount(0, 1, 1), BigramCount(1, 0, 1))),
)
