"""The histogram of a column, by equal steps and by powers of ten, with its mean, median, quantiles and tail index."""

import math
from collections.abc import Sequence
from itertools import pairwise

from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel
from pellucid.figures.charts.svg import INK, ORANGE, QUIET, line_key, line_style, tooltip
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of, cut_end, in_unit, percent
from pellucid.records import ColumnHistogram, HistogramBar, Survival, Tail
from pellucid.records.splitting import HEAVY_SKEWNESS, HEAVY_TAIL_INDEX

WIDTH, HEIGHT, LOWER, BETWEEN, KEY = 960.0, 260.0, 300.0, 34.0, 34.0
HALF = (WIDTH - LEFT - 16) / 2
LONGEST_NAME = 40
FILL = "#94bfe4"
LEAST_BAR = 1.5  # units that a bar of few rows is high, so that it is seen
MEAN, MEDIAN = ("9 5", ORANGE), ("", INK)


def draw_histogram(record: ColumnHistogram) -> Picture:
    """Above by equal steps; below by powers of ten, and how many rows are at least so great."""
    whole = record.tails[0]
    name = cut_end(record.column, LONGEST_NAME)
    keys = [(0.0, MEDIAN[1], MEDIAN[0], 2.5, f"median {_number(whole.median)}")]
    keys.append((260.0, MEAN[1], MEAN[0], 2.5, f"mean {_number(whole.mean)}"))
    marks = [*line_key(keys, LEFT), *_equal_panel(record, name).draw(0, KEY)]
    height = KEY + HEIGHT + BOTTOM
    if record.bars_by_powers:
        top = height + BETWEEN
        marks += _power_panel(record, name).draw(0, top)
        marks += _survival_panel(record, name).draw(HALF + LEFT + 16, top)
        height = top + LOWER + BOTTOM
    return picture(f"How {name} is distributed", _captions(record, name), marks, LEFT + WIDTH + 20, height)


def _equal_panel(record: ColumnHistogram, name: str) -> Panel:
    bars = record.bars
    most = max([bar.n for bar in bars])
    # The numbers beside the axis have room for six digits.
    unit, noun = (
        (1_000_000, "million rows") if most >= 10**9 else (1_000, "thousand rows") if most >= 10**6 else (1, "rows")
    )
    panel = Panel(Axis(bars[0].low, bars[-1].high, name), Axis(0.0, 1.06 * most / unit, noun), WIDTH, HEIGHT)
    _draw_bars(panel, bars, [bar.n / unit for bar in bars])
    _draw_middles(panel, record.tails[0])
    return panel


def _power_panel(record: ColumnHistogram, name: str) -> Panel:
    """Heights are rows per tenfold, so that bars of different breadth can be compared."""
    bars = record.bars_by_powers
    heights = [bar.n / math.log10(bar.high / bar.low) for bar in bars]
    seen = [height for height in heights if height]
    low = 10 ** math.floor(math.log10(min(seen) / 1.5))
    panel = Panel(
        Axis(bars[0].low, bars[-1].high, name, is_log=True),
        Axis(low, 1.6 * max(seen), "rows per tenfold", is_log=True),
        HALF,
        LOWER,
    )
    _draw_bars(panel, bars, heights)
    _draw_middles(panel, record.tails[0])
    return panel


def _draw_bars(panel: Panel, bars: Sequence[HistogramBar], heights: Sequence[float]) -> None:
    for bar, height in zip(bars, heights, strict=True):
        if not bar.n:
            continue
        left, top = panel.at(bar.low, height)
        right = panel.at(bar.high, height)[0]
        top = min(top, panel.height - LEAST_BAR)
        breadth = max(0.8, right - left - (1.0 if right - left > 4 else 0.0))
        says = tooltip(f"{in_unit(bar.low)} to {in_unit(bar.high)}: {count_of(bar.n, 'row')}")
        mark = f'<rect width="{breadth:.2f}" height="{panel.height - top:.2f}" fill="{FILL}">{says}</rect>'
        panel.mark_at(left, top, mark)


def _draw_middles(panel: Panel, whole: Tail) -> None:
    """The median and the mean, where they have a place on the axis, above the bars."""
    for number, (dash, colour) in ((whole.median, MEDIAN), (whole.mean, MEAN)):
        if number is None or not panel.x.low <= number <= panel.x.high:
            continue
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        rule = f'<path d="M0 0V{panel.height:.0f}" stroke="{colour}" stroke-width="2.5"{dashed}/>'
        panel.mark_at(panel.at(number, panel.y.high)[0], 0.0, rule)


def _survival_panel(record: ColumnHistogram, name: str) -> Panel:
    """The part of the rows that is at least so great, the quantiles on it, and the slope of the tail index."""
    whole = record.tails[0]
    low = record.bars_by_powers[0].low
    panel = Panel(
        Axis(low, 1.3 * record.bars_by_powers[-1].high, name, is_log=True),
        Axis(0.6 / record.n, 1.5, "part of the rows that is at least so great", is_log=True),
        HALF,
        LOWER,
    )
    sides = [one for one in record.survivals if one.side != "all" and one.values[-1] > 0] or list(record.survivals)
    for number, one in enumerate(sides):
        colour, _ = line_style(number)
        panel.line(_steps(one, low), colour, width=2.5, dash=("", "9 5", "2 5")[number], says=one.side)
    if whole.tail_index is not None and math.isfinite(whole.tail_index):
        panel.line(_hill_line(record), INK if len(sides) == 1 else QUIET, width=2.0, dash="7 5", says="Pareto")
    for value, part in ((whole.q90, 0.9), (whole.q99, 0.99), (whole.q999, 0.999)):
        # Beyond the last row but one a quantile is only the largest.
        if value is not None and value > low and (1 - part) * record.n >= 1:
            panel.dot(value, 1 - part, ORANGE, size=5.0, says=f"{100 * part:g} % are at most {_number(value)}")
            x, y = panel.at(value, 1 - part)
            panel.words(x - 12, y + 16, f"{100 * part:g} %", ORANGE, align="end")  # below the curve
    if len(sides) > 1:
        for number, one in enumerate(sides):
            panel.words(12, LOWER - 14 - 20 * (len(sides) - 1 - number), one.side, line_style(number)[0])
    return panel


def _steps(one: Survival, low: float) -> list[tuple[float, float]]:
    """The curve as steps: it falls at each value. Values without a logarithm stand left of all others."""
    drawn = [(value, share) for value, share in zip(one.values, one.shares, strict=True) if value > 0]
    points = [(low, drawn[0][1]), drawn[0]]
    for (value, _), (later, lower) in pairwise(drawn):
        points += [(value, lower), (later, lower)]
    return points


def _hill_line(record: ColumnHistogram) -> list[tuple[float, float]]:
    """A straight line of the tail index's slope, through the curve where the tail begins."""
    whole, curve = record.tails[0], record.survivals[0]
    part = whole.n_top / record.n
    start = max([value for value, share in zip(curve.values, curve.shares, strict=True) if share >= part])
    end = curve.values[-1]
    if start <= 0 or end <= start or whole.tail_index is None:
        return []
    return [(start, part), (end, part * (end / start) ** -whole.tail_index)]


def _captions(record: ColumnHistogram, name: str) -> list[str]:
    whole = record.tails[0]
    missing = f", and {record.n_missing:,} without a number" if record.n_missing else ""
    rows = f"{record.source}: {count_of(record.n, 'row')}{missing}"
    said = [
        f"{rows}. {name} goes from {_number(record.smallest)} to {_number(whole.largest)}; mean "
        f"{_number(whole.mean)}, median {_number(whole.median)}, deviation {_number(record.deviation)}; "
        f"{percent(record.below_mean)} of the rows are below the mean."
    ]
    marks = f"90 % of the rows are at most {_number(whole.q90)}, 99 % at most {_number(whole.q99)}, 99.9 % at most "
    said.append(f"{marks}{_number(whole.q999)}.")
    if record.top_sum is not None:
        said[-1] += f" The greatest 1 % of the rows hold {percent(record.top_sum)} of the sum."
    said.append(tail_sentence(record))
    for tail in record.tails[1:]:
        if tail.mean is not None:
            index = "not known" if tail.tail_index is None else f"{tail.tail_index:.2f}"
            said.append(
                f"{tail.side}: mean {_number(tail.mean)}, median {_number(tail.median)}, 99 % at most "
                f"{_number(tail.q99)}, largest {_number(tail.largest)}, tail index {index}."
            )
    if not record.bars_by_powers:
        said.append("Fewer than two different values are above 0, so none are drawn by powers of ten.")
    elif record.n_not_positive:
        said.append(f"By powers of ten {count_of(record.n_not_positive, 'row')} of 0 or less have no place.")
    return said


def tail_sentence(record: ColumnHistogram) -> str:
    """How heavy the tail is, in numbers and in a word."""
    whole = record.tails[0]
    if whole.tail_index is None:
        return "Tail index: not known; it takes 100 rows and positive numbers."
    if not math.isfinite(whole.tail_index):
        return f"Tail index: infinite, for the {whole.n_top:,} greatest are all the same."
    spread = whole.tail_index / math.sqrt(whole.n_top)
    numbers = (
        f"Tail index {whole.tail_index:.2f}, give or take {spread:.2f} (Hill, from the {whole.n_top:,} greatest; "
        f"dashed), skewness {_number(float(f'{record.skewness:.3g}'))}"
    )
    if record.skewness < HEAVY_SKEWNESS or whole.tail_index > HEAVY_TAIL_INDEX:
        return f"{numbers}: no heavy right tail."
    # Two of its deviations above the estimate.
    surely_below = whole.tail_index + 2 * spread
    if surely_below < 1:
        return f"{numbers}: a tail so heavy that not even the mean settles as rows are added."
    if surely_below < 2:
        return f"{numbers}: a heavy right tail, whose variance does not settle as rows are added."
    if whole.tail_index - 2 * spread < 2:
        return f"{numbers}: a heavy right tail; whether its variance settles as rows are added is not known."
    return f"{numbers}: a heavy right tail."


def _number(number: float | None) -> str:
    return "not known" if number is None else in_unit(number).replace("-", "−")


FIGURE = FigureCard(
    name="histogram",
    summary="The histogram of a column of a table, linear and logarithmic: mean, median, quantiles and tail index.",
    needs=ColumnHistogram,
    draw=draw_histogram,
    options=("column", "bins"),
)
