"""What a network takes for what: a row for each true class, a column for each answer, a number in each cell."""

from pellucid.errors import PellucidError
from pellucid.figures.charts.svg import BLUE, INK, LINE, ORANGE, PAPER, QUIET, depth, escape_text, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.answers import confusion_words, example_noun, judged_words
from pellucid.figures.words.notation import compact, count_of, cut_middle, most_frequent, percent, symbol_labels
from pellucid.records import Confusion, TrainingReport

MOST_CLASSES = 24  # whose numbers can still be read
LONGEST = 20  # letters of a class
SLANT = 0.72  # how much of a slanted name is its height, and its width
LETTER = 8.4  # how wide one is
WIDEST = 760.0  # of the cells together
SUMS = 96.0


def draw_confusion(seen: TrainingReport) -> Picture:
    """Right answers are blue and stand on the diagonal, mistakes orange; darker is a larger part of the true class."""
    confusion = seen.answers.confusion if seen.answers else None
    if confusion is None or not confusion.classes:
        raise PellucidError(
            f"the run {seen.name} tells no classes apart, so none are confused",
            fix="Draw loss-curves, which every run has",
        )
    shown = _shown_classes(confusion)
    names = [cut_middle(name, LONGEST) for name in symbol_labels(confusion.classes, has_boundary=False)]
    cell = min(64.0, max(34.0, WIDEST / len(shown)))
    longest = LETTER * max([len(names[i]) for i in shown])
    left = max(92.0, 44 + longest)
    is_slanted = longest > cell
    top = 24 + SLANT * longest if is_slanted else 30.0
    noun = example_noun(seen.data.kind)
    marks = [f'<g transform="translate({left:.1f} {top:.1f})">']
    marks += _headings([names[i] for i in shown], cell, left, is_slanted=is_slanted)
    for down, i in enumerate(shown):
        of = sum(confusion.counts[i])
        marks.append(svg_text(-14, (down + 0.5) * cell + 5, names[i], INK, align="end"))
        marks += [
            mark for across, j in enumerate(shown) for mark in _cell(confusion, names, noun, i, j, across, down, cell)
        ]
        found = percent(confusion.counts[i][i], of) if of else "none"
        marks.append(svg_text(len(shown) * cell + SUMS, (down + 0.5) * cell + 5, found, INK, align="end"))
    marks += _precisions(confusion, shown, cell)
    side = len(shown) * cell
    marks += [f'<rect width="{side:.1f}" height="{side:.1f}" fill="none" stroke="{LINE}"/>', "</g>"]
    title = f"What the {seen.network.name} takes for what"
    width = left + side + max(SUMS + 8, SLANT * longest if is_slanted else 0.0)
    return picture(title, _captions(seen, confusion, shown), marks, max(width, 560.0), top + side + 44)


def _shown_classes(confusion: Confusion) -> list[int]:
    """All classes; of very many those that are most often part of a mistake."""
    n = len(confusion.classes)
    wrong = [
        sum(confusion.counts[i]) + sum([row[i] for row in confusion.counts]) - 2 * confusion.counts[i][i]
        for i in range(n)
    ]
    return most_frequent(wrong, MOST_CLASSES)


def _headings(names: list[str], cell: float, left: float, *, is_slanted: bool) -> list[str]:
    side = len(names) * cell
    marks = []
    for across, name in enumerate(names):
        x = (across + 0.5) * cell
        turned = " rotate(-45)" if is_slanted else ""
        word = svg_text(0, 0, name, INK, align="start" if is_slanted else "middle")
        marks.append(f'<g transform="translate({x:.1f} -12){turned}">{word}</g>')
    marks.append(svg_text(-14, -12, "answer →", QUIET, align="end"))
    marks.append(
        f'<g transform="translate({18 - left:.1f} {side / 2:.1f}) rotate(-90)">'
        f"{svg_text(0, 0, '← truth', QUIET, align='middle')}</g>"
    )
    marks.append(svg_text(side + SUMS, side + 24, "found", QUIET, align="end"))
    return marks


def _cell(
    confusion: Confusion, names: list[str], noun: str, i: int, j: int, across: int, down: int, size: float
) -> list[str]:
    n, of = confusion.counts[i][j], sum(confusion.counts[i])
    x, y = across * size, down * size
    dark = depth(n, of)
    colour = BLUE if i == j else ORANGE
    what = "told right" if i == j else f"taken for {names[j]}"
    says = f"{n:,} of {count_of(of, noun)} of {names[i]} {'was' if n == 1 else 'were'} {what} ({percent(n, of)})"
    marks = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{size:.1f}" height="{size:.1f}" fill="{colour}" '
        f'fill-opacity="{dark if n else 0:.3f}" stroke="{LINE}" stroke-width="0.7">'
        f"<title>{escape_text(says)}</title></rect>"
    ]
    if n:
        written = compact(n)
        ink = PAPER if dark > 0.62 else INK
        fits = min(16.0, (size - 6) / (0.58 * len(written)))
        marks.append(
            svg_text(x + size / 2, y + size / 2 + fits * 0.35, written, ink, align="middle", size=round(fits, 1))
        )
    return marks


def _precisions(confusion: Confusion, shown: list[int], cell: float) -> list[str]:
    """Below each column: of the answers that named the class, how many were right."""
    side = len(shown) * cell
    marks = [svg_text(-14, side + 24, "right, %", QUIET, align="end")]
    for across, j in enumerate(shown):
        told = sum([row[j] for row in confusion.counts])
        right = confusion.counts[j][j]
        # No decimals in so narrow a place, and still never all where it is not all.
        part = f"{min(round(100 * right / told), 100 if right == told else 99)}" if told else ""
        marks.append(svg_text((across + 0.5) * cell, side + 24, part, INK, align="middle", size=15))
    return marks


def _captions(seen: TrainingReport, confusion: Confusion, shown: list[int]) -> list[str]:
    n = sum([sum(row) for row in confusion.counts])
    right = sum([row[i] for i, row in enumerate(confusion.counts)])
    noun = example_noun(seen.data.kind)
    said = [
        f"{judged_words(seen, n)}: {right:,} told right, {percent(right / n) if n else 'none'}.",
        confusion_words(confusion, noun),
        "Stronger colour is a larger part of the row. Found: of a true class, the part that was told right. "
        "Right: of the answers that named a class, the part that was true.",
    ]
    if len(shown) < len(confusion.classes):
        said.append(f"Drawn: the {len(shown)} of {len(confusion.classes):,} classes that most mistakes were made with.")
    return said


FIGURE = FigureCard(
    name="confusion",
    summary="How often a run's network takes each class for each other one, with the share of each that it finds.",
    needs=TrainingReport,
    draw=draw_confusion,
)
