"""Logits: what softmax and cross-entropy make of them, from equal ones to huge ones, and what temperature does."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pellucid.errors import PellucidError
from pellucid.figures.charts.panel import BOTTOM, LEFT, Axis, Panel
from pellucid.figures.charts.svg import INK, LINE, ORANGE, QUIET, line_style, move_marks, svg_text, tooltip
from pellucid.figures.picture import Picture, picture
from pellucid.figures.words.notation import join_words, rough
from pellucid.lessons.lesson import Lesson
from pellucid.options import check_options, option

COLDEST, HOTTEST, N_TEMPERATURES = 0.01, 1000.0, 101
ROW, BARS, BAR, NUMBERS = 66.0, 320.0, 15.0, 620.0
WIDTH, HEIGHT = 620.0, 330.0


@dataclass(frozen=True)
class LogitKnobs:
    label: int = option(2, "The right class of the table, counted from 0.", minimum=0, maximum=2)
    height: float = option(5.0, "The one logit that is not 0, in two of the rows.", minimum=-1000, maximum=1000)
    temperature: float = option(
        1.0, "Temperature T of the table: softmax(z/T).", minimum=0, is_minimum_open=True, maximum=1e6, example="1"
    )
    seed: int | None = option(
        None, "Random seed of the rows that are drawn; by default the same numbers.", minimum=0, maximum=(1 << 63) - 1
    )
    logits: tuple[float, ...] = option(
        (4.0, 3.0, 2.0, 1.0), "Logits whose softmax is shown at every temperature.", minimum=-1e6, maximum=1e6
    )

    def __post_init__(self) -> None:
        check_options(self)
        if not 2 <= len(self.logits) <= 12:
            raise PellucidError(f"there are {len(self.logits)} logits", fix="Choose 2 to 12, such as 4,3,2,1")


class LogitRow(NamedTuple):
    """A row of logits, what softmax makes of it, and the loss where one class is right."""

    name: str
    logits: tuple[float, ...]
    probabilities: tuple[float, ...]
    loss: float  # in nats


class TemperatureCurve(NamedTuple):
    """The softmax of logits at many temperatures, and where it goes at both ends."""

    logits: tuple[float, ...]
    temperatures: tuple[float, ...]
    probabilities: tuple[tuple[float, ...], ...]  # a row for each temperature
    entropies: tuple[float, ...]  # in nats
    cold: tuple[float, ...]  # T → 0: the largest shares it all, equals alike
    hot: tuple[float, ...]  # T → ∞: each as likely


class LogitStudy(NamedTuple):
    """A table of logits at one temperature, and one row of logits at all temperatures."""

    label: int
    temperature: float
    rows: tuple[LogitRow, ...]
    curve: TemperatureCurve


def measure(knobs: LogitKnobs) -> LogitStudy:
    """Seven rows of three logits, from equal ones to huge ones, and a row of logits at every temperature.

    >>> [round(row.loss, 4) for row in measure(LogitKnobs()).rows]
    [1.0986, 1.154, 0.0134, 5.0134, 1.8248, 2.2775, 0.0]
    """
    rng = None if knobs.seed is None else random.Random(knobs.seed)
    hit = [knobs.height if i == knobs.label else 0.0 for i in range(3)]
    miss = [knobs.height if i == (knobs.label + 2) % 3 else 0.0 for i in range(3)]
    rows = {
        "zeros": (0.0, 0.0, 0.0),
        "uniform from 0 to 1": _drawn(rng, 0.0, (0.4946, 0.1297, 0.2467)),
        "one, of the right class": hit,
        "one, of a wrong class": miss,
        "normal, deviation 1": _drawn(rng, 1.0, (1.3660, 1.0108, 0.2483)),
        "normal, deviation 10": _drawn(rng, 10.0, (11.9580, -10.3641, 9.7887)),
        "normal, deviation 100": _drawn(rng, 100.0, (-212.3578, -144.7072, 6.0214)),
    }
    return LogitStudy(
        knobs.label,
        knobs.temperature,
        tuple([logit_row(name, z, knobs.label, knobs.temperature) for name, z in rows.items()]),
        temperature_curve(knobs.logits),
    )


def _drawn(rng: random.Random | None, deviation: float, otherwise: Sequence[float]) -> Sequence[float]:
    if rng is None:
        return otherwise
    return [rng.gauss(0.0, deviation) if deviation else rng.random() for _ in range(3)]


def logit_row(name: str, logits: Sequence[float], label: int, temperature: float = 1.0) -> LogitRow:
    """The loss is the log of the sum less the logit itself, which is right where the probability has no digits left.

    >>> round(logit_row("", [0.0, 5.0, 0.0], 2).loss, 6)
    5.013386
    """
    scaled = [z / temperature for z in logits]
    largest = max(scaled)
    loss = largest - scaled[label] + math.log(math.fsum([math.exp(z - largest) for z in scaled]))
    return LogitRow(name, tuple(logits), list_softmax(scaled), loss)


def list_softmax(logits: Sequence[float]) -> tuple[float, ...]:
    """exp(z) over its sum; the largest is subtracted first, so that nothing overflows.

    >>> list_softmax([1000.0, 1000.0])
    (0.5, 0.5)
    """
    largest = max(logits)
    powers = [math.exp(z - largest) for z in logits]
    total = math.fsum(powers)
    return tuple([power / total for power in powers])


def temperature_curve(logits: Sequence[float]) -> TemperatureCurve:
    """softmax(z/T) from cold to hot, and both limits."""
    step = math.log(HOTTEST / COLDEST) / (N_TEMPERATURES - 1)
    temperatures = [COLDEST * math.exp(step * i) for i in range(N_TEMPERATURES)]
    rows = [list_softmax([z / temperature for z in logits]) for temperature in temperatures]
    best = [z == max(logits) for z in logits]
    return TemperatureCurve(
        logits=tuple(logits),
        temperatures=tuple(temperatures),
        probabilities=tuple(rows),
        entropies=tuple([-math.fsum([p * math.log(p) for p in row if p > 0]) for row in rows]),
        cold=tuple([is_best / sum(best) for is_best in best]),
        hot=tuple([1 / len(logits)] * len(logits)),
    )


def draw(record: LogitStudy) -> Picture:
    """The table above, with a bar for each probability; below the probabilities at every temperature."""
    marks = [
        svg_text(0, 16, "logits", QUIET),
        svg_text(BARS, 16, "softmax" if record.temperature == 1 else f"softmax(z/{record.temperature:g})", QUIET),
        svg_text(NUMBERS, 16, "loss", QUIET),
    ]
    for i, row in enumerate(record.rows):
        marks += move_marks(_row_marks(row, record.label), 0, 34 + i * ROW)
    below = 34 + len(record.rows) * ROW + 34
    marks.append(svg_text(0, below, "softmax(z/T) at every temperature", INK, is_bold=True, size=19))
    marks += _curve_panel(record.curve).draw(0, below + 20)
    title = "Logits, their softmax and their loss; and what temperature does to them"
    return picture(title, _captions(record), marks, LEFT + WIDTH + 170, below + 20 + HEIGHT + BOTTOM)


def _row_marks(row: LogitRow, label: int) -> list[str]:
    marks = [
        svg_text(0, 16, row.name, INK, is_bold=True),
        svg_text(0, 38, "[" + ", ".join([f"{z:.4g}".replace("-", "−") for z in row.logits]) + "]", QUIET),
        svg_text(NUMBERS, 26, f"{row.loss:.4f}" if row.loss >= 5e-5 or not row.loss else f"{row.loss:.2g}", INK),
        f'<path d="M0 {ROW - 8:.0f}H{NUMBERS + 90:.0f}" stroke="{LINE}"/>',
    ]
    for i, p in enumerate(row.probabilities):
        top = i * (BAR + 2)
        colour = ORANGE if i == label else "#94bfe4"
        marks.append(
            f'<rect x="{BARS:.0f}" y="{top:.0f}" width="{max(200 * p, 0.5):.1f}" height="{BAR:.0f}" fill="{colour}">'
            f"{tooltip(f'class {i}: {p:.6g}')}</rect>"
        )
        marks.append(svg_text(BARS + 200 * p + 8, top + 12, f"{p:.4f}", QUIET, size=13))
    return marks


def _curve_panel(curve: TemperatureCurve) -> Panel:
    panel = Panel(Axis(COLDEST, HOTTEST, "temperature T", is_log=True), Axis(0.0, 1.03, "probability"), WIDTH, HEIGHT)
    panel.upright(1.0)
    panel.words(panel.at(1.0, 0)[0] + 6, 16, "T = 1", QUIET)
    labels = []
    for i, z in enumerate(curve.logits):
        colour, dash = line_style(i)
        points = [(t, row[i]) for t, row in zip(curve.temperatures, curve.probabilities, strict=True)]
        panel.line(points, colour, dash=dash, says=f"z = {z:g}")
        labels.append((points[-1][1], f"z = {z:g}", colour))
    panel.ends(labels)
    return panel


def _captions(record: LogitStudy) -> list[str]:
    even = record.rows[0].loss
    worst = max(record.rows, key=lambda row: row.loss)
    curve = record.curve
    at_one = list_softmax(curve.logits)
    coldest, hottest = curve.probabilities[0], curve.probabilities[-1]
    cold_off, hot_off = (
        max([abs(p - q) for p, q in zip(row, limit, strict=True)])
        for row, limit in ((coldest, curve.cold), (hottest, curve.hot))
    )
    return [
        f"Table: three classes, class {record.label} (orange, counted from 0) is right, "
        f"T = {record.temperature:g}. Without an opinion the loss is ln 3 = {even:.4f}; the highest, "
        f"{worst.name}: {worst.loss:.4f}.",
        f"Below: z = ({', '.join([f'{z:g}' for z in curve.logits])}); at T = 1 softmax gives "
        f"{join_words([f'{p:.4f}' for p in at_one])}.",
        f"T → 0: all goes to the largest ({join_words([f'{p:.3g}' for p in curve.cold])}); at T = {COLDEST:g} it is "
        f"off by {rough(cold_off)}. T → ∞: each gets {curve.hot[0]:.4g}; at T = {HOTTEST:g} off by {rough(hot_off)}.",
        f"The entropy goes from {curve.entropies[0]:.3g} to {curve.entropies[-1]:.4f} nats; the most there can be is "
        f"ln {len(curve.logits)} = {math.log(len(curve.logits)):.4f}.",
    ]


LESSON = Lesson(
    name="logits",
    summary="Rows of logits with their softmax and their loss, and softmax at every temperature with both limits.",
    measure=measure,
    draw=draw,
    knobs=LogitKnobs,
)
