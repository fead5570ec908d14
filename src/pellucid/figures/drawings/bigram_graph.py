"""The bigram multigraph: of one word step by step, or of a whole data set with darker arrows for frequent bigrams."""

from pellucid.errors import printable
from pellucid.figures.bigram_circle import LEGEND, SIZE, circle_style, draw_circle
from pellucid.figures.drawings.bigram_matrix import sums_line
from pellucid.figures.picture import FigureCard, Picture
from pellucid.figures.sheet import sheet, wrapped
from pellucid.figures.word_walk import MOST_PARALLEL, draw_walk
from pellucid.figures.words.formulas import cut
from pellucid.figures.words.numbers import counted
from pellucid.figures.words.text import labels, most_frequent, share, spoken
from pellucid.records import Bigram, BigramCounts

MOST_SYMBOLS = 40
STRONGEST = 50  # arrows whose share of all bigrams is told


def draw_bigram_graph(seen: BigramCounts) -> Picture:
    """The walk of a word where the record holds one, else the circle."""
    return _of_word(seen) if seen.walk else _of_data(seen)


def _of_word(seen: BigramCounts) -> Picture:
    names = labels(seen.symbols, seen.has_boundary)
    order = [spoken(names[place]) for place in seen.walk]
    found = list(dict.fromkeys(order))
    n_loops = sum([bigram.n for bigram in seen.bigrams if bigram.first == bigram.second])
    loops = f"{counted(n_loops, 'self-loop')}, orange" if n_loops else "no self-loop"
    title = f"The bigrams of {cut(printable(''.join([seen.symbols[place] for place in seen.walk if place])), 60)}"
    merged = ", ×n a bigram that comes n times" if seen.bigrams[0].n > MOST_PARALLEL else ""
    vertices = counted(len(found), "vertex").replace("vertexs", "vertices")
    caption = (
        f"{counted(seen.total, 'edge')} between {vertices}: V = {{{', '.join(found)}}}; {loops}.",
        *wrapped(f"Numbers tell the order{merged}: {cut(' → '.join(order), 200)}", 100),
        sums_line(seen),
    )
    picture = draw_walk(names, seen.walk)
    return Picture(title, caption, sheet(title, caption, picture.marks, picture.width, picture.height))


def _of_data(seen: BigramCounts) -> Picture:
    names = labels(seen.symbols, seen.has_boundary)
    sums = seen.row_sums()
    shown = most_frequent([max(pair) for pair in zip(sums, seen.column_sums(), strict=True)], MOST_SYMBOLS)
    drawn = [bigram for bigram in seen.bigrams if {bigram.first, bigram.second} <= set(shown)]
    title = "What follows what: darker arrows are more frequent bigrams"
    lines = [
        f"{seen.total:,} bigrams in {seen.source}, {len(seen.bigrams):,} different ones.",
        sums_line(seen),
    ]
    if len(drawn) > STRONGEST:
        strongest = sum([bigram.n for bigram in drawn[:STRONGEST]])
        lines[0] += f" The {STRONGEST} darkest arrows hold {share(strongest, seen.total)} of all."
    if len(drawn) < len(seen.bigrams):
        held = share(sum([bigram.n for bigram in drawn]), seen.total)
        lines.append(f"Drawn: the {len(shown)} most frequent of {len(names):,} symbols, which hold {held} of all.")
    marks = draw_circle(names, sums, shown, drawn)
    svg = sheet(title, lines, marks, SIZE + LEGEND, SIZE, circle_style(shown))
    return Picture(title, tuple(lines), svg)


FIGURE = FigureCard(
    name="bigram-graph",
    says="Symbols and what follows them as a graph: of one word (--word emma), or of all data, darker where frequent.",
    needs=BigramCounts,
    draw=draw_bigram_graph,
    options=("--word",),
    tiny=BigramCounts("emma", ("·", "a"), True, (Bigram(0, 1, 1), Bigram(1, 0, 1)), (0, 1, 0)),
)
