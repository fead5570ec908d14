"""A run as one page: what it earned, how it learned, what it makes, how it is, and how to make it again.

No script and no network: every picture is SVG inside the page, and the page's own policy forbids everything else.
"""

import math
import shlex
from collections.abc import Callable, Iterator
from typing import NamedTuple

from markupsafe import Markup

from pellucid.errors import PellucidError, printable
from pellucid.figures.drawings.calibration import draw_calibration
from pellucid.figures.drawings.confusion import draw_confusion
from pellucid.figures.drawings.gradient_norms import draw_gradient_norms
from pellucid.figures.drawings.importances import draw_importances
from pellucid.figures.drawings.ladder import draw_ladder
from pellucid.figures.drawings.latent import draw_latent
from pellucid.figures.drawings.layer_histograms import draw_layer_histograms
from pellucid.figures.drawings.loss_curves import draw_loss_curves
from pellucid.figures.drawings.mistakes import draw_mistakes
from pellucid.figures.drawings.reconstructions import draw_reconstructions
from pellucid.figures.drawings.regression import draw_regression
from pellucid.figures.drawings.unit_maps import draw_unit_maps
from pellucid.figures.drawings.update_ratios import draw_update_ratios
from pellucid.figures.picture import Picture, render
from pellucid.figures.tables import Cell, Table, html_table, right
from pellucid.figures.words.answers import (
    example_noun,
    examples_table,
    guessing_costs,
    has_tokens,
    is_judged,
    metric_lines,
    metric_tables,
    side_sizes,
    task_words,
)
from pellucid.figures.words.counting import novelty_words, parts_words, sample_table, tally
from pellucid.figures.words.inspection import STYLES, advice_words, finding_heading
from pellucid.figures.words.ladder import (
    accuracy_words,
    counted_words,
    earned_words,
    gap_number,
    gap_unit,
    judged_by_words,
    ladder_table,
    signed_gap,
    trees_words,
    validation_table,
    validation_words,
)
from pellucid.figures.words.notation import (
    count_of,
    cut_middle,
    duration,
    end_sentence,
    loss_unit_words,
    metric_words,
    percent,
    symbol_labels,
)
from pellucid.figures.words.training import (
    budget_words,
    config_words,
    data_notes,
    ending_words,
    fit_words,
    forecast_words,
    plan_facts,
    separability_words,
    start_words,
)
from pellucid.records import DataFacts, Ladder, NetworkFacts, Rung, TrainingReport

MOST_SYMBOLS = 200
NARROW = 900  # below it, a picture as wide as the page would be coarse
LONGEST = 240  # letters of one item
LONGEST_TEXT = 1500  # of a sample of running text
LONGEST_ANSWER = 48
MOST_ANSWERS = 60
MOST_PARAMETERS = 400


def report_html(report: TrainingReport) -> str:
    """The page as text."""
    noun = "number" if report.is_counted else "parameter"
    return render(
        "report.html",
        report=report,
        network_words=f"{report.network.name}, {count_of(report.network.parameters, noun)}",
        numbers=_number_boxes(report),
        ladder=html_table(ladder_table(report.ladder)),
        judged_by=judged_by_words(report.ladder),
        validation=_validation(report.ladder),
        ladder_figure=_figure(draw_ladder(report.ladder)),
        curves="" if report.is_counted else _figure(draw_loss_curves(report)),
        made=_answers(report) if report.answers else _samples(report),
        while_learning=[(at.step, [_shorten(text, report.data.kind) for text in at.texts]) for at in report.sampled],
        findings=[
            (
                finding.severity if finding.severity in STYLES else "note",
                finding.severity.capitalize(),
                end_sentence(finding_heading(finding)),
                advice_words(finding),
            )
            for finding in report.findings
        ],
        health_figures=[] if report.is_counted else list(_health_figures(report)),
        data_facts=_data_facts(report),
        has_tokens=has_tokens(report.data),
        symbols=_symbol_words(report.data),
        first=[cut_middle(text, LONGEST) for text in (*report.data.first, *map(" → ".join, report.data.first_pairs))],
        first_heading="How train begins"
        if report.data.kind == "text"
        else f"A few {example_noun(report.data.kind)}s of train",
        network_facts=[
            ("model" if report.is_counted else "network", f"{report.network.name}: {report.network.summary}"),
            ("made with", config_words(report.network.config)),
            *([] if report.is_counted else plan_facts(report.plan)),
        ],
        parameter_words=f"All {count_of(len(report.network.layers), 'parameter tensor')}, "
        f"{count_of(report.network.parameters, 'number')} in all",
        parameters=html_table(_parameter_table(report.network)),
        n_parameters_left=len(report.network.layers) - MOST_PARAMETERS,
        command=" ".join([shlex.quote(printable(word)) for word in report.command]),
        versions=", ".join([f"{name} {version}" for name, version in report.versions.items()]),
        earned=counted_words(report.ladder, report.rung) if report.is_counted else earned_words(report.ladder),
        budget="" if report.is_counted else budget_words(report),
        forecast=forecast_words(report),
        verdict=fit_words(report),
        separability=separability_words(report.separability, example_noun(report.data.kind))
        if report.separability
        else "",
        trees="" if report.is_counted else trees_words(report.ladder),
        ending=ending_words(report.ending, report.evaluations, report.plan, report.rung.seconds),
        start=start_words(report.start),
        accuracy=accuracy_words(report.ladder, report.rung),
        parts=parts_words(report.parts) if report.parts else "",
    )


def _validation(ladder: Ladder) -> Markup:
    """The models on rows that they did not learn from, where a small table was cross-validated."""
    found = ladder.cross_validation
    if found is None:
        return Markup("")
    return html_table(validation_table(found)) + render("quiet.html", text=validation_words(found))


class NumberBox(NamedTuple):
    """One of the few numbers that everyone asks for."""

    name: str
    value: str
    kind: str = ""  # "lead" stands out


def _number_boxes(report: TrainingReport) -> list[NumberBox]:
    rung, measure = report.rung, report.ladder.measure
    if report.is_counted:
        return [*_reached_boxes(report, rung), NumberBox("numbers kept", f"{rung.parameters:,}")]
    gap, how = gap_number(report.ladder, rung), ""
    if validated := report.ladder.cross_validation:
        gap, how = signed_gap(measure.metric, validated.gain.mean), ", cross-validated"
    lead = "lead" if gap.startswith("+") else "lead behind"
    boxes = [
        NumberBox(f"{gap_unit(measure)} over {measure.simple}{how}", gap or "not known", lead),
        *_reached_boxes(report, rung),
        NumberBox("parameters", f"{rung.parameters:,}"),
        NumberBox("steps", f"{report.ending.step:,}"),
        NumberBox("trained for", duration(rung.seconds)),
    ]
    if rung.tokens_per_second is not None:
        boxes.append(NumberBox(f"{measure.one}s a second", f"{rung.tokens_per_second:,.0f}"))
    return boxes


def _reached_boxes(report: TrainingReport, rung: Rung) -> list[NumberBox]:
    """What the network reached on dev, and where a metric says it, once on test."""
    measure, answers = report.ladder.measure, report.answers
    side = measure.side
    loss = NumberBox(f"loss on {side}, {loss_unit_words(measure)}", f"{report.ladder.loss(rung):.4f}")
    if not measure.metric:
        boxes = [loss, NumberBox("bits a character on dev", f"{rung.bits_per_character:.3f}")]
        if seen := rung.accuracy("dev"):
            boxes.append(NumberBox("next tokens right on dev", percent(seen.share_right)))
            if seen.whole == "word":
                boxes.append(NumberBox("whole words right on dev", percent(seen.whole_share)))
        return boxes
    boxes = [NumberBox(f"{measure.metric} on {side}", metric_words(measure.metric, rung.metric))]
    if rung.test_metric is not None:
        boxes.append(NumberBox(f"{measure.metric} on test", metric_words(measure.metric, rung.test_metric)))
    unit = f", in units of {cut_middle(report.data.target, 24)}" if report.data.target else ""
    others = [
        NumberBox(f"{name} on {side}{unit if name in ('MAE', 'RMSE') else ''}", metric_words(name, value))
        for name, value in (answers.metrics.items() if answers else ())
        if name not in (measure.metric, "log loss")
    ]
    # The loss was made small for the metrics' sake; it has a box of its own where there is only one of them.
    return [*boxes, *(others or [loss])]


def _figure(picture: Picture) -> Markup:
    return render("figure.html", picture=picture, is_narrow=picture.width < NARROW)


def _samples(report: TrainingReport) -> Markup:
    """What the network makes by itself."""
    samples = tuple(report.samples)
    if not samples:
        return Markup("")
    if samples[0].where:
        return html_table(sample_table(samples, LONGEST)) + render("quiet.html", text=f"{tally(samples)}.")
    texts = [(cut_middle(sample.text, LONGEST_TEXT), novelty_words(sample)) for sample in samples]
    return render("texts.html", texts=texts)


def _answers(report: TrainingReport) -> Markup:
    """Metrics in words, then a picture of whatever there is a picture of, then the answers themselves."""
    answers = report.answers
    assert answers is not None
    has_images = any(example.pixels for example in answers.examples)
    drawings: tuple[tuple[Callable[[TrainingReport], Picture], object], ...] = (
        (draw_confusion, answers.confusion is not None and answers.confusion.classes),
        (draw_calibration, answers.calibration is not None and any(each.n for each in answers.calibration.bins)),
        (draw_regression, answers.points),
        (draw_reconstructions, any(example.pixels and example.answer_pixels for example in answers.examples)),
        (draw_mistakes, has_images and is_judged(report.data)),
        (draw_latent, answers.latent),
        (draw_importances, answers.importances),
    )
    is_listed = bool(answers.examples) and not has_images
    shown = examples_table(answers.examples[:MOST_ANSWERS], report.data, LONGEST_ANSWER) if is_listed else None
    return render(
        "answers.html",
        lines=[f"{line[:1].upper()}{line[1:]}." for line in metric_lines(answers, report.data)],
        tables=[html_table(table) for table in metric_tables(answers, report.network.name)],
        figures=[_figure(draw(report)) for draw, is_there in drawings if is_there],
        examples=html_table(shown) if shown else "",
        n_left=len(answers.examples) - MOST_ANSWERS,
    )


def _shorten(text: str, kind: str) -> str:
    return cut_middle(text, LONGEST_TEXT // 3) if kind == "text" else cut_middle(text or "(empty)", LONGEST)


def _health_figures(report: TrainingReport) -> Iterator[Markup]:
    drawings = (draw_layer_histograms, draw_unit_maps, draw_update_ratios, draw_gradient_norms)
    for draw in drawings if report.health else (draw_gradient_norms,):
        try:
            yield _figure(draw(report))
        except PellucidError as error:
            # Not every network has what every picture shows; then the page says so.
            yield render("quiet.html", text=f"{error.what.capitalize()}.")


def _data_facts(report: TrainingReport) -> list[tuple[str, str]]:
    data = report.data
    facts = [
        ("read from", data.source),
        ("read as", data.description),
        ("sides", "; ".join([f"{side}: {held}" for side, held in side_sizes(data).items()])),
        *[("the network reads", part) for part in data.about],
    ]
    if has_tokens(data):
        facts.append(("tokens", f"{data.tokens}, {count_of(data.vocab_size, 'symbol')}"))
        facts.append(("guessing costs", f"{guessing_costs(max(1, data.vocab_size))} nats a token"))
    else:
        facts.append(("the network", task_words(data)))
    return [*facts, ("fingerprint", data.fingerprint), *[("note", note) for note in data_notes(data)]]


def _symbol_words(data: DataFacts) -> list[str]:
    """The symbols, or the classes with how many examples of train are of each."""
    names = symbol_labels(data.symbols[:MOST_SYMBOLS], has_boundary=data.kind in ("list", "pairs"))
    if not data.class_counts:
        return names
    return [f"{name}: {n:,}" for name, n in zip(names, data.class_counts, strict=False)]


def _parameter_table(network: NetworkFacts) -> Table:
    """Every parameter with its shape and its size."""
    made = Table("parameter", *right("shape", "numbers"))
    for path, shape in network.layers[:MOST_PARAMETERS]:
        written = " × ".join([f"{size:,}" for size in shape]) or "one number"
        made.add(Cell(path, is_code=True), written, f"{math.prod(shape):,}")
    return made
