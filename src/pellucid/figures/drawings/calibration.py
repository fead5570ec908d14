"""Whether a network is as often right as it says: the share of right answers against its confidence."""

import math

from pellucid.errors import PellucidError
from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel
from pellucid.figures.charts.svg import BLUE, QUIET, line_key, move_marks, svg_text
from pellucid.figures.picture import FigureCard, Picture, picture
from pellucid.figures.words.answers import calibration_words, judged_words, token_mistake_lines
from pellucid.figures.words.notation import count_of
from pellucid.records import Calibration, ConfidenceBin, TokenMistakes, TrainingReport

SIDE, LOWER, BETWEEN, RIGHT, KEY = 480.0, 110.0, 26.0, 330.0, 34.0
SURE = 1.96  # deviations of a normal around its mean that hold 95 %


def draw_calibration(seen: TrainingReport | TokenMistakes) -> Picture:
    """A dot for each bin of confidence, with how sure it is of itself; below, how many answers each bin holds.

    Of a list or a text an answer is the likeliest next token.
    """
    if isinstance(seen, TokenMistakes):
        return _draw_bins(seen.calibration, seen.network, token_mistake_lines(seen)[0], "likeliest token")
    calibration = seen.answers.calibration if seen.answers else None
    bins = [each for each in calibration.bins if each.n] if calibration else []
    if calibration is None or not bins:
        is_untested = seen.ladder.measure.side == "train"
        raise PellucidError(
            f"of the run {seen.name} nothing was held out, so whether it is as sure as it is right is not known"
            if is_untested
            else f"the run {seen.name} gives no probabilities of classes, so how sure it was is not known",
            fix="Draw loss-curves, which every run has",
        )
    judged = judged_words(seen, sum([each.n for each in bins]))
    return _draw_bins(calibration, seen.network.name, f"{judged}.", "answer")


def _draw_bins(calibration: Calibration, network: str, judged: str, noun: str) -> Picture:
    """judged: what the answers are about, in a sentence; noun: what an answer is."""
    bins = [each for each in calibration.bins if each.n]
    x = Axis(0.0, 1.0, f"confidence: the probability of the {noun}")
    right = Panel(x, Axis(0.0, 1.0, "share that is right"), SIDE, SIDE)
    right.line([(0.0, 0.0), (1.0, 1.0)], QUIET, width=2.0, dash="7 5", says="as often right as it says")
    for each in bins:
        low, high = wilson_interval(each)
        right.line([(each.confidence, low), (each.confidence, high)], BLUE, width=2.5, fade=0.5)
    right.line([(each.confidence, each.share_right) for each in bins], BLUE, width=2.0, fade=0.6)
    for each in bins:
        sure = f"sure {each.confidence:.3f}, right {each.share_right:.3f}"
        says = f"{_bin_words(each)}: {count_of(each.n, 'answer')}, {sure}"
        right.dot(each.confidence, each.share_right, BLUE, size=6.5, says=says)
    most = max([each.n for each in bins])
    below = Panel(x, Axis(0.0, 1.15 * most, "answers"), SIDE, LOWER)
    key = line_key([(0.0, QUIET, "7 5", 2.0, "as often right as it says")], LEFT)
    marks = [*key, *right.draw(0, KEY, has_numbers_below=False), *_bars(bins, most), *_notes(bins)]
    marks += below.draw(0, KEY + SIDE + BETWEEN)
    captions = [
        f"{judged} {calibration_words(calibration)}",
        "Below the dashed line it is surer than it is right, above it less sure. Bars through the dots: where the "
        "share may be with 95 % certainty, for so many answers.",
    ]
    title = f"Is the {network} as often right as it says?"
    return picture(title, captions, marks, LEFT + SIDE + RIGHT, KEY + SIDE + BETWEEN + LOWER + BOTTOM)


def wilson_interval(each: ConfidenceBin) -> tuple[float, float]:
    """Where the share that is right may be with 95 % certainty, by Wilson's formula; it never leaves 0 to 1.

    >>> low, high = wilson_interval(ConfidenceBin(0.9, 1.0, 10, 0.95, 1.0))
    >>> round(low, 3), high
    (0.722, 1.0)
    """
    n, p, z = each.n, each.share_right, SURE
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def _bin_words(each: ConfidenceBin) -> str:
    return f"{each.low:.2f} to {each.high:.2f}"


def _bars(bins: list[ConfidenceBin], most: int) -> list[str]:
    marks = []
    for each in bins:
        width, height = SIDE * (each.high - each.low) - 2, LOWER * each.n / (1.15 * most)
        marks.append(
            f'<rect x="{SIDE * each.low + 1:.1f}" y="{LOWER - height:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="{BLUE}" opacity="0.55"><title>{_bin_words(each)}: {each.n:,}</title></rect>'
        )
    return move_marks(marks, LEFT, KEY + SIDE + BETWEEN)


def _notes(bins: list[ConfidenceBin]) -> list[str]:
    """The numbers of each bin, the surest first, beside the picture."""
    left = LEFT + SIDE + 36
    marks = [
        svg_text(left + at, KEY + 12, word, QUIET, align=align)
        for at, word, align in ((0, "confidence", "start"), (170, "right", "end"), (256, "answers", "end"))
    ]
    for i, each in enumerate(reversed(bins)):
        y = KEY + 40 + 26 * i
        marks.append(svg_text(left, y, _bin_words(each)))
        marks.append(svg_text(left + 170, y, f"{each.share_right:.3f}", align="end"))
        marks.append(svg_text(left + 256, y, f"{each.n:,}", align="end"))
    return marks


FIGURE = FigureCard(
    name="calibration",
    summary="How often a run's network is right against how sure it says it is, and the number of answers of each.",
    needs=TrainingReport,
    draw=draw_calibration,
    takes_tokens=True,
)
