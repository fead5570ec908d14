"""What a network loses without each column of a table: a dot for each, with its 95 % interval."""

from pellucid.errors import PellucidError
from pellucid.figures.charts.panel import Axis, axis_spanning
from pellucid.figures.charts.svg import BLUE, INK, LINE, QUIET, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.answers import importance_lines, importance_words
from pellucid.figures.words.notation import cut_end, is_share
from pellucid.records import Importance, TrainingReport

LABELS, WIDTH, NOTES, ROW, TOP = 230.0, 600.0, 240.0, 30.0, 16.0
MOST = 25  # columns


def draw_importances(seen: TrainingReport) -> Picture:
    """A row for each column, the most important first; the rule is at nothing lost."""
    shown = (seen.answers.importances if seen.answers else ())[:MOST]
    if not shown:
        raise PellucidError(
            f"of the run {seen.name} it was not measured which columns it needs",
            fix="Draw the importances of a table that is predicted from at most 200 columns",
        )
    metric = seen.ladder.measure.metric
    scale = 100.0 if is_share(metric) else 1.0
    title = f"fall of {metric} where the column is shuffled{', points' * is_share(metric)}"
    axis = axis_spanning([0.0, *(scale * end for one in shown for end in (one.low, one.high))], title)
    bottom = TOP + ROW * len(shown)
    marks = _ticks(axis, bottom)
    for place, one in enumerate(shown):
        marks += _row(one, metric, scale, axis, TOP + ROW * (place + 0.5))
    left_out = len(seen.answers.importances) - len(shown) if seen.answers else 0
    captions = [*importance_lines(seen), *([f"{left_out:,} more columns are not drawn."] if left_out else [])]
    return picture(f"Which columns the {seen.network.name} needs", captions, marks, LABELS + WIDTH + NOTES, bottom + 58)


def _row(one: Importance, metric: str, scale: float, axis: Axis, y: float) -> list[str]:
    low, at, high = (LABELS + WIDTH * axis.part(scale * end) for end in (one.low, one.fall, one.high))
    is_sure = one.low > 0
    return [
        svg_text(LABELS - 16, y + 5, cut_end(one.column, 26), INK, align="end", is_bold=is_sure),
        f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" stroke="{BLUE}" stroke-width="3" opacity="0.45"/>',
        f'<circle cx="{at:.1f}" cy="{y:.1f}" r="6" fill="{BLUE if is_sure else "#fcfcfa"}" stroke="{BLUE}" '
        f'stroke-width="2"/>',
        svg_text(LABELS + WIDTH + 20, y + 5, importance_words(one, metric), INK if is_sure else QUIET, size=13),
    ]


def _ticks(axis: Axis, bottom: float) -> list[str]:
    marks = []
    for tick in axis.ticks():
        x = LABELS + WIDTH * axis.part(tick)
        marks.append(f'<path d="M{x:.1f} {TOP}V{bottom:.1f}" stroke="#e6e9ec"/>')
        marks.append(svg_text(x, bottom + 22, axis.tick_label(tick), INK, align="middle"))
    zero = LABELS + WIDTH * axis.part(0.0)
    marks.append(f'<path d="M{zero:.1f} {TOP}V{bottom:.1f}" stroke="{LINE}" stroke-width="2"/>')
    marks.append(svg_text(LABELS + WIDTH / 2, bottom + 47, axis.title, QUIET, align="middle"))
    return marks


FIGURE = FigureCard(
    name="importances",
    summary="What a run's network loses without each column of its table, with intervals.",
    needs=TrainingReport,
    draw=draw_importances,
)
