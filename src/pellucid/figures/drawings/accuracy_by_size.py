"""What networks and simple models reach with more and more examples to learn from."""

from pellucid.errors import PellucidError
from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning
from pellucid.figures.charts.svg import COLOURS, INK, LINE, QUIET, line_key, move_marks, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.ladder import SizeResult, results_by_size, rungs_by_model, spread_words, winner_lines
from pellucid.figures.words.notation import count_of, cut_end, is_share, metric_words
from pellucid.figures.words.notes import note_sentences
from pellucid.records import SizeLadder

WIDTH, HEIGHT, RIGHT, KEY = 760.0, 480.0, 300.0, 40.0
LONGEST = 22
BESIDE = 0.012  # of the width, between two models
HUES = tuple([colour for colour in COLOURS if colour != "#4c5661"])  # gray is for what is no network


def draw_accuracy_by_size(seen: SizeLadder) -> Picture:
    """A line for each network, a dashed one for each simple model; a band where one was trained several times."""
    models = rungs_by_model(seen)
    if not models:
        raise PellucidError("nothing was compared, so there is nothing to draw", fix="Compare at least one network")
    scale = 100.0 if is_share(seen.metric) else 1.0
    lines = {name: results_by_size(seen, name) for name in models}
    margin = 0.04 + (BESIDE / 2 * len(lines) if seen.intervals else 0.0)
    x = axis_spanning(seen.sizes, "examples to learn from", is_log=True, margin=margin)
    heights = [scale * number for line in lines.values() for each in line for number in (*_bar(each), each.mean)]
    panel = Panel(x, axis_spanning(heights, f"{seen.metric} on dev" + (", %" if scale > 1 else "")), WIDTH, HEIGHT)
    ends = []
    for i, (name, line) in enumerate(lines.items()):
        colour = HUES[i % len(HUES)] if not models[name][0].is_counted else QUIET
        dash = "" if not models[name][0].is_counted else ("7 5", "2 5", "12 4 2 4")[i % 3]
        # Where there are bars, the models stand a little beside each other, so that none covers another's.
        aside = BESIDE * (i - (len(lines) - 1) / 2) if seen.intervals else 0.0
        _draw_line(panel, name, line, colour, dash, scale, seen.metric, aside)
        label = f"{cut_end(name, LONGEST)} {metric_words(seen.metric, line[-1].mean)}"
        ends.append((scale * line[-1].mean, label, colour))
    panel.ends(ends)
    key = line_key([(0.0, COLOURS[0], "", 3.0, "network"), (140.0, QUIET, "7 5", 3.0, "simple model")], LEFT)
    marks = [*key, *panel.draw(0, KEY, has_numbers_below=False), *_sizes(panel, seen.sizes)]
    title = f"{seen.metric[:1].upper()}{seen.metric[1:]} against the number of examples to learn from"
    return picture(title, _captions(seen), marks, LEFT + WIDTH + RIGHT, KEY + HEIGHT + BOTTOM)


def _draw_line(
    panel: Panel, name: str, line: list[SizeResult], colour: str, dash: str, scale: float, metric: str, aside: float
) -> None:
    """aside: how far beside its size everything is drawn, as a part of the frame."""

    def at(n_train: int) -> float:
        return float(n_train * (panel.x.high / panel.x.low) ** aside)

    for each in line:
        low, high = _bar(each)
        if high > low:
            ends = [(at(each.n_train), scale * low), (at(each.n_train), scale * high)]
            what = "95 % interval of the mean" if each.interval else "from the worst to the best training"
            panel.line(ends, colour, width=7.0, fade=0.3, says=f"{name}: {what}")
    panel.line([(at(each.n_train), scale * each.mean) for each in line], colour, width=3.0, dash=dash, says=name)
    for each in line:
        of = f", mean of {each.trainings} trainings" if each.trainings > 1 else ""
        says = f"{name}, {count_of(each.n_train, 'example')}: {metric_words(metric, each.mean)}{of}"
        panel.dot(at(each.n_train), scale * each.mean, colour, size=5.0, is_hollow=bool(dash), says=says)


def _bar(each: SizeResult) -> tuple[float, float]:
    """The ends of what is drawn around a mean: its interval, or else the worst and the best training."""
    return (each.interval.low, each.interval.high) if each.interval else (each.low, each.high)


def _sizes(panel: Panel, sizes: tuple[int, ...]) -> list[str]:
    """The sizes themselves in place of powers of ten; one that would touch the next is left out."""
    marks = []
    free = WIDTH + 100.0
    for size in sorted(set(sizes), reverse=True):
        at = panel.at(size, panel.y.low)[0]
        marks.append(f'<path d="M{at:.1f} 0v8" stroke="{LINE}" stroke-width="2"/>')
        half = 4.2 * len(f"{size:,}")
        if at + half < free:
            marks.append(svg_text(at, 26, f"{size:,}", INK, align="middle"))
            free = at - half - 6
    marks.append(svg_text(WIDTH / 2, 50, f"{panel.x.title} (equal steps are equal factors)", QUIET, align="middle"))
    return move_marks(marks, LEFT, KEY + HEIGHT)


def _captions(seen: SizeLadder) -> list[str]:
    n = len({rung.name for rung in seen.rungs})
    said = [f"{seen.source}. {count_of(n, 'model')}, each judged on the same dev side, whatever it learned from."]
    if spread := spread_words(seen):
        said.append(
            f"{spread} Bars are these intervals."
            if seen.intervals
            else f"{spread} Bars go from the worst of them to the best."
        )
    return [*said, *winner_lines(seen), *note_sentences(seen.notes)]


FIGURE = FigureCard(
    name="accuracy-by-size",
    summary="What networks and simple models reach against how many examples they learn from.",
    needs=SizeLadder,
    draw=draw_accuracy_by_size,
)
