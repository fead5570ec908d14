"""Claims drawn: the picture of one, and the whole ledger as one page that works without a network."""

from __future__ import annotations

import math

from pellucid.figures.charts.panel import BOTTOM, LEFT, Panel, axis_spanning
from pellucid.figures.charts.svg import BLUE, ORANGE, QUIET, svg_text
from pellucid.figures.picture import Picture, picture, render
from pellucid.figures.tables import html_table
from pellucid.figures.words.claims import (
    KIND_WORDS,
    claim_verdict_words,
    condition_lines,
    deciding_words,
    number_words,
    numbers_table,
    tally_words,
)
from pellucid.figures.words.notation import cut_end
from pellucid.records import VERDICTS, ClaimResult, Ledger

WIDTH, HEIGHT, RIGHT, TOP = 760.0, 300.0, 40.0, 20.0
ROW = 30.0
NAMES = 300.0
ALIKE = 30.0  # numbers that are larger than this many times the deciding one are written and not drawn
LOG_FROM = 20.0  # a knob whose values span more than this many times is drawn by powers of ten


def draw_claim_result(result: ClaimResult) -> Picture:
    """The margin along the knob that a claim turns on; of one without such a knob, its numbers with their intervals."""
    caption = [f"{claim_verdict_words(result)}: {result.statement} ({result.where})", *condition_lines(result)]
    marks, width, height = _curve(result) if result.curve else _numbers(result)
    return picture(result.id, caption, marks, width, height)


def _curve(result: ClaimResult) -> tuple[list[str], float, float]:
    values = [value for value, _ in result.curve]
    knob = result.condition.knob if result.condition else "knob"
    is_log = min(values) > 0 and max(values) / min(values) > LOG_FROM
    x = axis_spanning(values, knob.replace("_", " "), is_log=is_log)
    panel = Panel(x, axis_spanning([0.0, *[margin for _, margin in result.curve]], "margin"), WIDTH, HEIGHT)
    panel.across(0.0)
    panel.line(list(result.curve), QUIET, width=1.5)
    for value, margin in result.curve:
        panel.dot(value, margin, BLUE if margin > 0 else ORANGE, says=f"{knob} {value:.6g}: {margin:.4g}")
    if turn := result.condition:
        panel.upright((turn.holds_at + turn.fails_at) / 2)
    key = [svg_text(LEFT, 14, "above 0 it holds, below it does not", QUIET)]
    return [*key, *panel.draw(0, TOP + 10)], LEFT + WIDTH + RIGHT, TOP + 10 + HEIGHT + BOTTOM


def _numbers(result: ClaimResult) -> tuple[list[str], float, float]:
    """One row for each number; those about as large as the deciding one stand on one axis, with their intervals."""
    marks = []
    deciding = next((one.mean for one in result.numbers if one.name == result.deciding), 1.0)
    drawn = [one for one in result.numbers if math.isfinite(one.mean) and abs(one.mean) <= ALIKE * abs(deciding or 1.0)]
    ends = [0.0, *[end for one in drawn for end in (one.mean, one.low, one.high)]]
    low_end, reach = min(ends), (max(ends) - min(ends)) or 1.0

    def place(value: float) -> float:
        return NAMES + WIDTH * (value - low_end) / reach

    for row, one in enumerate(result.numbers):
        y = TOP + ROW * row + ROW / 2
        is_deciding = one.name == result.deciding
        marks.append(svg_text(NAMES - 14, y + 5, cut_end(one.name, 34), align="end", is_bold=is_deciding))
        marks.append(f'<path d="M{NAMES:.0f} {y:.1f}h{WIDTH:.0f}" stroke="#e6e9ec"/>')
        if one in drawn:
            low, at, high = place(one.low), place(one.mean), place(one.high)
            colour = BLUE if is_deciding else QUIET
            marks.append(f'<path d="M{low:.1f} {y:.1f}H{high:.1f}" stroke="{colour}" stroke-width="5" opacity="0.4"/>')
            marks.append(f'<circle cx="{at:.1f}" cy="{y:.1f}" r="6" fill="{colour}"/>')
        marks.append(svg_text(NAMES + WIDTH + 14, y + 5, number_words(one), is_bold=is_deciding))
    height = TOP + ROW * len(result.numbers) + 10
    zero = place(0.0)
    marks.append(f'<path d="M{zero:.1f} {TOP:.0f}V{height:.0f}" stroke="{QUIET}" stroke-dasharray="7 5"/>')
    marks.append(svg_text(zero, height + 18, "0", QUIET, align="middle"))
    return marks, NAMES + WIDTH + 320, height + 26


def ledger_html(ledger: Ledger, titles: dict[str, str]) -> str:
    """The whole ledger as one page: filters, and for each claim its rule, numbers, control and picture.

    titles: of the families, by their names.
    """
    claims = [
        {
            "id": one.id,
            "family": one.family,
            "verdict": one.verdict,
            "judged": claim_verdict_words(one),
            "statement": one.statement,
            "where": one.where,
            "covers": ", ".join(one.covers),
            "because": deciding_words(one) or one.reason,
            "done": KIND_WORDS[one.kind],
            "rule": one.rule,
            "other_reading": one.other_reading,
            "table": html_table(numbers_table(one)) if one.numbers else "",
            "lines": condition_lines(one),
            "picture": draw_claim_result(one).bare if one.curve else "",
        }
        for one in ledger.results
    ]
    families = {name: titles[name] for name in dict.fromkeys([one.family for one in ledger.results])}
    return render("ledger.html", claims=claims, families=families, verdicts=list(VERDICTS), tally=tally_words(ledger))
