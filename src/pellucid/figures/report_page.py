"""A run as one page: what it earned, how it learned, what it makes, how it is, and how to make it again.

No script and no network: every picture is SVG inside the page, and the page's own policy forbids everything else.
"""

import math
import shlex
from importlib.resources import files

from pellucid.errors import PellucidError, printable
from pellucid.figures.card import Picture
from pellucid.figures.drawings.gradient_norms import draw_gradient_norms
from pellucid.figures.drawings.ladder import draw_ladder
from pellucid.figures.drawings.layer_histograms import draw_layer_histograms
from pellucid.figures.drawings.loss_curves import draw_loss_curves
from pellucid.figures.drawings.unit_maps import draw_unit_maps
from pellucid.figures.drawings.update_ratios import draw_update_ratios
from pellucid.figures.frame import safe
from pellucid.figures.ladder import gap_words
from pellucid.figures.numbers import counted, ended, lasting
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
from pellucid.figures.symbols import labels
from pellucid.records import Rung, TrainingReport

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
MOST_SYMBOLS = 200


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
        "SAMPLES": _samples(report),
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
    boxes = [
        ("nats a token over counting", gap or "not known", "lead" if gap.startswith("+") else "lead behind"),
        ("loss on dev, nats a token", f"{rung.dev:.4f}", ""),
        ("bits a character on dev", f"{rung.bits_per_character:.3f}", ""),
        ("parameters", f"{rung.parameters:,}", ""),
        ("steps", f"{report.ending.step:,}", ""),
        ("trained for", lasting(rung.seconds), ""),
    ]
    if rung.tokens_per_second is not None:
        boxes.append(("tokens a second", f"{rung.tokens_per_second:,.0f}", ""))
    return "".join(
        [f'<div class="{kind}"><dt>{safe(name)}</dt><dd>{safe(value)}</dd></div>' for name, value, kind in boxes]
    )


def _figure(picture: Picture) -> str:
    lines = "".join([f"<p>{safe(line)}</p>" for line in picture.caption])
    caption = f"<figcaption><b>{safe(picture.title)}</b>{lines}</figcaption>"
    return f'<figure>{caption}<div class="scroll" tabindex="0">{picture.bare}</div></figure>'


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
    sides = []
    for side, n in data.n_tokens.items():
        items = f"{counted(data.items[side], 'item')}, " if data.items.get(side) else ""
        sides.append(f"{side}: {items}{counted(n, 'token')}")
    rows = [
        ("read from", data.source),
        ("read as", data.said),
        ("sides", "; ".join(sides)),
        ("tokens", f"{data.tokens}, {counted(data.vocab_size, 'symbol')}"),
        ("guessing costs", f"ln {data.vocab_size:,} = {math.log(max(1, data.vocab_size)):.4f} nats a token"),
        ("fingerprint", data.fingerprint),
        *[("note", note) for note in data.notes],
    ]
    shown = labels(data.symbols[:MOST_SYMBOLS], has_boundary=data.kind == "list")
    more = f'<p class="quiet">and {len(data.symbols) - len(shown):,} more</p>' if len(data.symbols) > len(shown) else ""
    begins = "How train begins" if data.kind == "text" else "A few items of train"
    first = f"<h3>{begins}</h3>{chips(data.first)}" if data.first else ""
    return f"{facts(rows)}<h3>Symbols</h3>{chips(shown)}{more}{first}"


def _network(report: TrainingReport) -> str:
    network = report.network
    config = ", ".join([f"{name} {value}" for name, value in network.config.items()])
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
