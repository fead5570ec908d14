"""The bigram count matrix as a heat map: a row for each symbol, a column for what follows it, a number in each cell."""

from pellucid.figures.charts.svg import INK, PAPER, QUIET, depth, depth_marks, escape_text, move_marks, shade, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import compact, join_words, most_frequent, percent, spoken_label, symbol_labels
from pellucid.records import BigramCounts

MOST_SYMBOLS = 40  # rows whose numbers can still be read on a wall
CELL_WIDTH, CELL_HEIGHT = 46, 34
LEFT, TOP = 90.0, 62.0  # for the symbols beside the rows and above the columns
SUM = "sum"


def draw_bigram_matrix(seen: BigramCounts) -> Picture:
    """The heat map, with the sum of every row and column at its edges."""
    names = symbol_labels(seen.symbols, seen.has_boundary)
    rows, columns = seen.row_sums(), seen.column_sums()
    shown = most_frequent([max(pair) for pair in zip(rows, columns, strict=True)], MOST_SYMBOLS)
    drawn = [bigram for bigram in seen.bigrams if {bigram.first, bigram.second} <= set(shown)]
    most = max([bigram.n for bigram in drawn], default=1)
    at = {place: i for i, place in enumerate(shown)}
    end = len(shown)
    marks = []
    for first, second, n in drawn:
        said = (
            f"{spoken_label(names[first])} → {spoken_label(names[second])}: {n:,}, {percent(n, rows[first])} of its row"
        )
        marks += _cell(at[second], at[first], n, depth(n, most), said)
    for place, i in at.items():
        marks += [_label(i, names[place]), _label(i, names[place], is_row=True)]
        marks += [
            _number(end, i, rows[place], QUIET, is_bold=True),
            _number(i, end, columns[place], QUIET, is_bold=True),
        ]
    marks += [_label(end, SUM), _label(end, SUM, is_row=True), _number(end, end, seen.total, QUIET, is_bold=True)]
    width, height = (end + 1) * CELL_WIDTH, (end + 1) * CELL_HEIGHT
    marks.append(svg_text(width / 2, -42, "is followed by", QUIET, align="middle"))
    marks += [f'<g transform="translate(-64 {height / 2:.0f}) rotate(-90)">']
    marks += [svg_text(0, 0, "this symbol", QUIET, align="middle"), "</g>"]
    marks += move_marks(_key(most), width + 40, 0)
    title, caption = "What follows what: bigram counts", captions(seen, end, sum([bigram.n for bigram in drawn]))
    return picture(title, caption, move_marks(marks, LEFT, TOP), LEFT + width + 140, TOP + height)


def _cell(column: int, row: int, n: int, part: float, said: str) -> list[str]:
    x, y = column * CELL_WIDTH, row * CELL_HEIGHT
    return [
        f'<g class="cell"><title>{escape_text(said)}</title><rect x="{x}" y="{y}" width="{CELL_WIDTH}" '
        f'height="{CELL_HEIGHT}" fill="{shade(part)}" stroke="{PAPER}"/>',
        _number(column, row, n, PAPER if part > 0.5 else INK),
        "</g>",
    ]


def _number(column: int, row: int, n: int, colour: str, *, is_bold: bool = False) -> str:
    x, y = (column + 0.5) * CELL_WIDTH, (row + 0.5) * CELL_HEIGHT + 4.5
    return svg_text(x, y, compact(n), colour, align="middle", is_bold=is_bold, size=13)


def _label(i: int, label: str, *, is_row: bool = False) -> str:
    """A symbol above its column or beside its row."""
    if is_row:
        return svg_text(-10, (i + 0.5) * CELL_HEIGHT + 6.5, label, is_bold=True, align="end", size=19)
    return svg_text((i + 0.5) * CELL_WIDTH, -12, label, is_bold=True, align="middle", size=19)


def _key(most: int) -> list[str]:
    """The colours of counts, the most frequent on top."""
    counts = depth_marks(most)
    if len(counts) <= 2:
        return []
    height, steps = 240.0, 40
    marks = [svg_text(0, -10, "count", QUIET)]
    marks += [
        f'<rect y="{height * i / steps:.1f}" width="18" height="{height / steps + 0.5:.1f}" '
        f'fill="{shade(1 - (i + 0.5) / steps)}"/>'
        for i in range(steps)
    ]
    return [*marks, *[svg_text(26, height * (1 - depth(n, most)) + 5, f"{n:,}", size=15) for n in counts]]


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
            f"Drawn: the {n_shown} most frequent symbols, which hold {percent(n_drawn, seen.total)} of the bigrams."
        )
    return tuple(lines)


def sums_line(seen: BigramCounts) -> str:
    """Whether every symbol is left as often as it is reached.

    >>> from pellucid.records import BigramCount
    >>> sums_line(BigramCounts("emma", ("·", "a"), True, (BigramCount(0, 1, 1), BigramCount(1, 0, 1))))
    'Row sums equal column sums for all 2 symbols: each is left as often as it is reached.'
    """
    names = symbol_labels(seen.symbols, seen.has_boundary)
    pairs = list(zip(names, seen.row_sums(), seen.column_sums(), strict=True))
    apart = [f"{spoken_label(name)} (row {row:,}, column {column:,})" for name, row, column in pairs if row != column]
    if not apart:
        return f"Row sums equal column sums for all {len(pairs):,} symbols: each is left as often as it is reached."
    said = f"Row sums equal column sums for {len(pairs) - len(apart):,} of {len(pairs):,} symbols, not for "
    return said + join_words(apart if len(apart) < 4 else [*apart[:2], f"{len(apart) - 2:,} more"]) + "."


FIGURE = FigureCard(
    name="bigram-matrix",
    summary="How often each symbol follows each other one, as a heat map with the counts in its cells.",
    needs=BigramCounts,
    draw=draw_bigram_matrix,
    options=("word", "boundary"),
)
