"""What each head of a transformer is good for: the loss without it, how widely it looks, how unlike others it is."""

from itertools import combinations

from pellucid.figures.charts.matrix import heat_map, hundredths, part_key
from pellucid.figures.charts.panel import Axis, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, LINE, ORANGE, PAPER, QUIET, move_marks, shade, svg_text, tooltip
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.notation import count_of, percent
from pellucid.records import HeadEffect, HeadStudy

LABELS, WIDTH, ENTROPY, ROW, TOP = 130.0, 420.0, 150.0, 28.0, 40.0
MOST = 32  # heads whose rows can still be read
LARGEST_CELL, SMALLEST_CELL, SIDE, GAP = 42.0, 13.0, 420.0, 70.0


def draw_heads(seen: HeadStudy) -> Picture:
    """A row for each head: what is lost without it, with its interval, and its entropy; then a map of distances."""
    shown = seen.heads[:MOST]
    axis = axis_spanning(
        [0.0, *[end for one in shown for end in (one.low, one.high)]], "rise of the dev loss without the head, nats"
    )
    bottom = TOP + ROW * len(shown)
    marks = [
        svg_text(LABELS, 18, "loss without each head", INK, is_bold=True, size=19),
        svg_text(LABELS + WIDTH + 24, 18, "how widely it looks", INK, is_bold=True, size=19),
        *_ticks(axis, bottom),
    ]
    for place, one in enumerate(shown):
        marks += _row(one, seen, axis, TOP + ROW * (place + 0.5))
    left = LABELS + WIDTH + 24 + ENTROPY + GAP
    drawn, width, height = _distances(seen, len(shown))
    marks += move_marks(drawn, left, 0)
    title = f"What the {count_of(len(seen.heads), 'head')} of a transformer are good for"
    return picture(title, _captions(seen), marks, left + width, max(bottom + 58, height))


def head_name(one: HeadEffect) -> str:
    """
    >>> head_name(HeadEffect(0, 2, 2.0, 0.1, 0.05, 0.15, 1.5))
    'layer 1, head 3'
    """
    return f"layer {one.layer + 1}, head {one.head + 1}"


def _row(one: HeadEffect, seen: HeadStudy, axis: Axis, y: float) -> list[str]:
    low, at, high = (LABELS + WIDTH * axis.part(end) for end in (one.low, one.rise, one.high))
    is_needed = one.low > 0
    part = one.entropy / seen.even_entropy if seen.even_entropy else 0.0
    left, wide = LABELS + WIDTH + 24, 84.0
    says = f"{head_name(one)}: {one.loss:.4f} nats without it; entropy {one.entropy:.2f} bits"
    return [
        f"<g>{tooltip(says)}",
        svg_text(LABELS - 12, y + 5, head_name(one), INK, align="end", is_bold=is_needed),
        f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" stroke="{BLUE}" stroke-width="3" opacity="0.45"/>',
        f'<circle cx="{at:.1f}" cy="{y:.1f}" r="6" fill="{BLUE if is_needed else PAPER}" stroke="{BLUE}" '
        'stroke-width="2"/>',
        f'<rect x="{left:.1f}" y="{y - 8:.1f}" width="{wide}" height="16" fill="none" stroke="{LINE}"/>',
        f'<rect x="{left:.1f}" y="{y - 8:.1f}" width="{wide * min(1.0, part):.1f}" height="16" fill="{ORANGE}"/>',
        svg_text(left + wide + 8, y + 5, f"{one.entropy:.2f}", QUIET),
        "</g>",
    ]


def _ticks(axis: Axis, bottom: float) -> list[str]:
    marks = []
    for tick in axis.ticks():
        x = LABELS + WIDTH * axis.part(tick)
        marks.append(f'<path d="M{x:.1f} {TOP - 6}V{bottom:.1f}" stroke="#e6e9ec"/>')
        marks.append(svg_text(x, bottom + 22, axis.tick_label(tick), INK, align="middle"))
    zero = LABELS + WIDTH * axis.part(0.0)
    marks.append(f'<path d="M{zero:.1f} {TOP - 6}V{bottom:.1f}" stroke="{LINE}" stroke-width="2"/>')
    marks.append(svg_text(LABELS + WIDTH / 2, bottom + 47, axis.title, QUIET, align="middle"))
    marks.append(svg_text(LABELS + WIDTH + 24, bottom + 22, "entropy, bits", QUIET))
    return marks


def _distances(seen: HeadStudy, n: int) -> tuple[list[str], float, float]:
    """The map of how unlike any two heads are, with its words; and how wide and high it is."""
    rows = [row[:n] for row in seen.distances[:n]]
    names = [f"{one.layer + 1}.{one.head + 1}" for one in seen.heads[:n]]
    most = max([value for row in rows for value in row]) or 1.0
    cell = min(LARGEST_CELL, max(SMALLEST_CELL, SIDE / n))
    drawn = heat_map(rows, lambda value: shade(value / most), cell, names, names, written=hundredths)
    marks = [
        svg_text(drawn.left, 18, "how unlike two heads are", INK, is_bold=True, size=19),
        *move_marks(drawn.marks, 0, 34),
        *move_marks(part_key("0", f"{most:.2f} bits"), drawn.left, 34 + drawn.height + 12),
    ]
    return marks, max(drawn.width, drawn.left + 260.0), 34 + drawn.height + 36


def _captions(seen: HeadStudy) -> list[str]:
    ranked = sorted(seen.heads, key=lambda one: one.rise)
    most = ranked[-1]
    unsure = [one for one in seen.heads if one.low <= 0]
    said = [
        f"{seen.source}. With all heads the loss is {seen.loss:.4f} nats on {seen.n_tokens:,} tokens of dev "
        f"({count_of(seen.n_units, seen.unit)}); each head is switched off alone.",
        f"Needed most: {head_name(most)}; without it the loss is {most.loss:.4f}, {most.rise:.4f} more (95 %: "
        f"{most.low:.4f} to {most.high:.4f}). "
        + (
            f"Hollow: it cannot be told that anything is lost without {_them(unsure)}." if unsure else "All are needed."
        ),
    ]
    narrow, wide = (pick(seen.heads, key=lambda one: one.entropy) for pick in (min, max))
    said.append(
        f"Even weights would have {seen.even_entropy:.2f} bits: the narrowest look has {narrow.entropy:.2f} "
        f"({head_name(narrow)}), the widest {wide.entropy:.2f} ({head_name(wide)})."
    )
    if len(seen.heads) > 1:
        pairs = sorted([(seen.distances[a][b], a, b) for a, b in combinations(range(len(seen.heads)), 2)])
        mean = sum([distance for distance, _, _ in pairs]) / len(pairs)
        near, far = pairs[0], pairs[-1]
        alike, unlike = (
            f"{head_name(seen.heads[a])} and {head_name(seen.heads[b])} with {distance:.3f}"
            for distance, a, b in (near, far)
        )
        said.append(
            f"Two heads are {mean:.3f} bits apart in the mean (Jensen–Shannon; 0 is the same, 1 nothing in common): "
            f"most alike are {alike}, most unlike {unlike}."
        )
    if len(seen.heads) > MOST:
        said.append(f"Drawn: the first {MOST} of {len(seen.heads)} heads ({percent(MOST, len(seen.heads))}).")
    return said


def _them(heads: list[HeadEffect]) -> str:
    return head_name(heads[0]) if len(heads) == 1 else f"any one of {len(heads)} heads"


FIGURE = FigureCard(
    name="heads",
    summary="The dev loss of a run's transformer without each head, how widely each looks, and how unlike any two are.",
    needs=HeadStudy,
    draw=draw_heads,
    options=("seed",),
)
