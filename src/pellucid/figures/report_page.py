"""A run as one page: what it earned, how it learned, what it makes, how it is, and how to make it again.

No script and no network: every picture is SVG inside the page, and the page's own policy forbids everything else.
"""

import re
import shlex
from importlib.resources import files

from pellucid.errors import PellucidError, printable
from pellucid.figures.answers_page import answers_html, metric_boxes
from pellucid.figures.charts.svg import safe
from pellucid.figures.drawings.gradient_norms import draw_gradient_norms
from pellucid.figures.drawings.ladder import draw_ladder
from pellucid.figures.drawings.layer_histograms import draw_layer_histograms
from pellucid.figures.drawings.loss_curves import draw_loss_curves
from pellucid.figures.drawings.unit_maps import draw_unit_maps
from pellucid.figures.drawings.update_ratios import draw_update_ratios
from pellucid.figures.picture import Picture
from pellucid.figures.report_tables import (
    chips,
    facts,
    findings_list,
    ladder_rows,
    parameter_rows,
    plan_facts,
    sample_rows,
    sampled_rows,
)
from pellucid.figures.words.data_words import guessing_costs, has_tokens, one_of, side_sizes, wanted_words
from pellucid.figures.words.merits import gap_unit, gap_words, metric_words
from pellucid.figures.words.numbers import counted, ended, lasting
from pellucid.figures.words.text import labels
from pellucid.figures.words.training_summary import config_words
from pellucid.records import Rung, TrainingReport

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
MOST_SYMBOLS = 200
NARROW = 900  # below it, a picture as wide as the page would be coarse


def report_html(report: TrainingReport) -> str:
    """The page as text."""
    parts = {
        "POLICY": POLICY,
        "TITLE": safe(f"{report.name} · pellucid train"),
        "STYLE": _asset("report.css"),
        "RUN": _run(report),
        "HEADLINE": safe(report.sentence),
        "VERDICT": _verdict(report),
        "NUMBERS": _numbers(report),
        "LADDER": ladder_rows(report.ladder) + _figure(draw_ladder(report.ladder)),
        "CURVES": f"<p>{safe(report.ending.says)}</p>" + _figure(draw_loss_curves(report)),
        "MADE_LINK": '<a href="#answers">Answers</a>' if report.answers else '<a href="#samples">Samples</a>',
        "MADE": _made(report),
        "HEALTH": _health(report),
        "DATA": _data(report),
        "NETWORK": _network(report),
        "AGAIN": _again(report),
        "FOOTER": safe(f"Written by pellucid {report.versions.get('pellucid', '')}. Every number here was measured."),
    }
    # Split once, so that nothing in the parts is ever taken for a place to fill.
    pieces = _asset("report.html").split("@@")
    return "".join([parts[piece] if i % 2 else piece for i, piece in enumerate(pieces)])


def _asset(name: str) -> str:
    return files("pellucid.figures").joinpath(f"assets/{name}").read_text(encoding="utf-8")


def _run(report: TrainingReport) -> str:
    network = f"{report.network.name}, {counted(report.network.parameters, 'parameter')}"
    return f"run <b>{safe(report.name)}</b> · {safe(network)} · {safe(report.data.said)}"


def _verdict(report: TrainingReport) -> str:
    name, because, try_next = report.verdict
    return f"<b>{safe(name.capitalize())}</b>: {safe(ended(because))} {safe(ended(try_next))}"


def _own_rung(report: TrainingReport) -> Rung | None:
    return next((rung for rung in report.ladder.rungs if not rung.is_counted), None)


def _numbers(report: TrainingReport) -> str:
    """The few numbers that everyone asks for, each in its own box."""
    rung = _own_rung(report)
    if rung is None:
        return ""
    gap = gap_words(report.ladder, rung)
    measure = report.ladder.measure
    gained = gap.removesuffix(" points") or "not known"
    boxes = [
        (f"{gap_unit(measure)} over {measure.simple}", gained, "lead" if gap.startswith("+") else "lead behind"),
        *_reached(report, rung),
        ("parameters", f"{rung.parameters:,}", ""),
        *([] if measure.metric else [("steps", f"{report.ending.step:,}", "")]),
        ("trained for", lasting(rung.seconds), ""),
    ]
    if rung.tokens_per_second is not None:
        boxes.append((f"{measure.one}s a second", f"{rung.tokens_per_second:,.0f}", ""))
    return "".join(
        [f'<div class="{kind}"><dt>{safe(name)}</dt><dd>{safe(value)}</dd></div>' for name, value, kind in boxes]
    )


def _reached(report: TrainingReport, rung: Rung) -> list[tuple[str, str, str]]:
    """What the network reached on dev, and where a metric says it, once on test."""
    measure = report.ladder.measure
    loss = (f"loss on dev, {measure.loss}", f"{rung.dev:.4f}", "")
    if not measure.metric:
        return [loss, ("bits a character on dev", f"{rung.bits_per_character:.3f}", "")]
    on_test = [] if rung.test_metric is None else [(f"{measure.metric} on test", rung.test_metric)]
    metrics = [(f"{measure.metric} on dev", rung.metric), *on_test]
    boxes = [(name, metric_words(measure.metric, value), "") for name, value in metrics]
    # The loss was made small for the metrics' sake; it has a box of its own where there is only one of them.
    return [*boxes, *(metric_boxes(report) or [loss])]


def _figure(picture: Picture) -> str:
    lines = "".join([f"<p>{safe(line)}</p>" for line in picture.caption])
    caption = f"<figcaption><b>{safe(picture.title)}</b>{lines}</figcaption>"
    width = int(re.findall(r'width="(\d+)"', picture.bare)[0])
    narrow = f' class="narrow" style="--drawn: {width}px"' if width < NARROW else ""
    return f'<figure{narrow}>{caption}<div class="scroll" tabindex="0">{picture.bare}</div></figure>'


def _made(report: TrainingReport) -> str:
    """What the network makes by itself, or what it answers, as a section of the page."""
    if not report.answers:
        return f'<section id="samples"><h2>What it makes</h2>{_samples(report)}</section>'
    answers = answers_html(report, report.answers, _figure)
    while_learning = ""
    if report.sampled:
        answered = sampled_rows(tuple(report.sampled), report.data.kind, "answers")
        while_learning = f"<h3>While it learned</h3>{answered}"
    return f'<section id="answers"><h2>What it answers</h2>{answers}{while_learning}</section>'


def _samples(report: TrainingReport) -> str:
    parts = []
    if report.samples:
        parts.append(sample_rows(tuple(report.samples)))
    if report.sampled:
        parts += ["<h3>While it learned</h3>", sampled_rows(tuple(report.sampled), report.data.kind)]
    return "".join(parts) or '<p class="quiet">It was not asked for samples.</p>'


def _health(report: TrainingReport) -> str:
    parts = [f"<p>Before the first step: {safe(report.start.says)}</p>", findings_list(tuple(report.findings))]
    drawings = (draw_layer_histograms, draw_unit_maps, draw_update_ratios, draw_gradient_norms)
    for draw in drawings if report.health else (draw_gradient_norms,):
        try:
            parts.append(_figure(draw(report)))
        except PellucidError as error:
            # Not every network has what every picture shows; then the page says so.
            parts.append(f'<p class="quiet">{safe(printable(error.what)).capitalize()}.</p>')
    return "".join(parts)


def _data(report: TrainingReport) -> str:
    data = report.data
    rows = [
        ("read from", data.source),
        ("read as", data.said),
        ("sides", "; ".join([f"{side}: {held}" for side, held in side_sizes(data).items()])),
        *[("the network reads", part) for part in data.about],
    ]
    if has_tokens(data):
        rows += [
            ("tokens", f"{data.tokens}, {counted(data.vocab_size, 'symbol')}"),
            ("guessing costs", f"{guessing_costs(max(1, data.vocab_size))} nats a token"),
        ]
    else:
        rows.append(("the network", wanted_words(data)))
    rows += [("fingerprint", data.fingerprint), *[("note", note) for note in data.notes]]
    shown = labels(data.symbols[:MOST_SYMBOLS], has_boundary=data.kind in ("list", "pairs"))
    more = f'<p class="quiet">and {len(data.symbols) - len(shown):,} more</p>' if len(data.symbols) > len(shown) else ""
    heading = "Symbols" if has_tokens(data) else "Classes"
    symbols = f"<h3>{heading}</h3>{chips(shown)}{more}" if shown or has_tokens(data) else ""
    begins = "How train begins" if data.kind == "text" else f"A few {one_of(data.kind)}s of train"
    first = f"<h3>{begins}</h3>{chips(data.first)}" if data.first else ""
    return f"{facts(rows)}{symbols}{first}"


def _network(report: TrainingReport) -> str:
    network = report.network
    config = config_words(network.config)
    rows = [("network", f"{network.name}: {network.says}"), ("made with", config), *plan_facts(report.plan)]
    summary = f"All {counted(len(network.layers), 'parameter tensor')}, {counted(network.parameters, 'number')} in all"
    return f"{facts(rows)}<details><summary>{safe(summary)}</summary>{parameter_rows(network)}</details>"


def _again(report: TrainingReport) -> str:
    command = " ".join([shlex.quote(printable(word)) for word in report.command])
    rows = [
        ("seed", str(report.seed)),
        ("threads", str(report.threads)),
        ("versions", ", ".join([f"{name} {version}" for name, version in report.versions.items()])),
    ]
    return (
        f"<pre>{safe(command)}</pre><p></p>{facts(rows)}"
        '<p class="quiet">Same seed, machine, versions and thread count: same bits.</p>'
    )
