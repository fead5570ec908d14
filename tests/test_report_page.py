"""A run's page: everything in it is the record's, nothing in it runs, and no request leaves it."""

import html
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page
from tests.tiny_records import ANSWERING, TINY_IMAGES, TINY_PAIRS, TINY_ROWS, TINY_RUN, tiny_record

from pellucid.api.draw import drawable
from pellucid.figures.drawings.confusion import draw_confusion
from pellucid.figures.drawings.mistakes import draw_mistakes
from pellucid.figures.picture import picture_html
from pellucid.figures.report_page import report_html
from pellucid.figures.words.ladder import earned_words
from pellucid.figures.words.notation import metric_words
from pellucid.figures.words.training import ending_words, plan_reason, start_words, verdict_words
from pellucid.lessons.bigram_smoothing import SmoothingStudy
from pellucid.records import BigramCounts, Confusion, Sample, SampledAt, Step, TrainingReport

HOSTILE = "</style></script></title><img src=x onerror=alert(1)><!--\u2028@@DATA@@'\"><svg onload=alert(2)>\x1b[2J"
# What is chosen from a few words by us, or is read digit by digit.
OURS = {
    "scaling",
    "values",
    "gradients",
    "pixels",
    "kind",
    "severity",
    "where",
    "schedule",
    "optimizer",
    "start",
    "reason",
}


# The counting figures have tests of their own.
OF_TRAINING = [name for name in drawable() if not isinstance(tiny_record(name), BigramCounts | SmoothingStudy)]


def poisoned(record: Any, name: str = "") -> Any:
    """The record with every text of it replaced by a hostile one."""
    if isinstance(record, str):
        return record if name in OURS else HOSTILE
    if isinstance(record, Mapping):
        return {key: poisoned(value) for key, value in record.items()}
    if hasattr(record, "_fields"):
        return type(record)(*[poisoned(value, field) for field, value in zip(record._fields, record, strict=True)])
    if is_dataclass(record) and not isinstance(record, type):
        return replace(
            record, **{field.name: poisoned(getattr(record, field.name), field.name) for field in fields(record)}
        )
    if isinstance(record, tuple):
        return tuple(poisoned(item, name) for item in record)
    return record


@cache
def large_run() -> TrainingReport:
    """A run as long as an afternoon's, with many layers."""
    look = TINY_RUN.health[1]
    layers = tuple(look.layers[0]._replace(path=f"blocks.{i}.act") for i in range(24))
    weights = tuple(look.weights[1]._replace(path=f"blocks.{i}.weight", update_ratio=1e-3 * (1 + i)) for i in range(60))
    row, other = "0190" * 64, "9" * 256
    maps = tuple(
        look.maps[0]._replace(path=f"blocks.{i}.act", values=(row, other) * 16, gradients=(row,) * 32)
        for i in range(12)
    )
    maps = tuple(units._replace(values=tuple(value.replace("1", "9") for value in units.values)) for units in maps)
    looks = [look._replace(step=step, layers=layers, weights=weights, maps=maps) for step in range(0, 30_001, 500)]
    return replace(
        TINY_RUN,
        steps=tuple(
            Step(i, 3 / (1 + i / 1e4) + math.sin(i), 10, 0.01, 1.0 + math.sin(i) / 2) for i in range(1, 30_001)
        ),
        health=tuple(looks),
        sampled=tuple(SampledAt(i, ("emma", "olivia")) for i in range(0, 30_001, 2000)),
        samples=tuple(Sample(f"name{i}", 9.0, 5, "new", "emma", 3, "em") for i in range(10)),
    )


def test_the_page_holds_what_the_run_reached():
    page = report_html(TINY_RUN)
    text = html.unescape(re.sub(r"<[^>]+>", " ", page.split("<body>")[1]))
    for said in (
        earned_words(TINY_RUN.ladder),
        TINY_RUN.data.description,
        TINY_RUN.data.fingerprint,
        ending_words(TINY_RUN.ending, TINY_RUN.evaluations, TINY_RUN.plan),
        start_words(TINY_RUN.start),
        verdict_words(TINY_RUN.verdict, TINY_RUN.evaluations, TINY_RUN.ladder),
        TINY_RUN.findings[0].seen,
        plan_reason(TINY_RUN.plan.reasons[0]),
        TINY_RUN.network.summary,
        *[name for name, _ in TINY_RUN.network.layers],
        *[rung.name for rung in TINY_RUN.ladder.rungs],
        *[f"{rung.dev:.4f}" for rung in TINY_RUN.ladder.rungs],
        *[sample.text for sample in TINY_RUN.samples],
        "+0.0700",
        "pellucid train words.txt --model mlp --steps 4 --seed 0",
    ):
        assert said in text, said
    assert page.count("<figure>") == 6


def test_the_page_has_no_script_and_no_address_out():
    page = report_html(large_run())
    assert "<script" not in page
    assert "script-src" not in page
    assert "default-src 'none'" in page
    addresses = set(re.findall(r'(?:href|src)="([^"]{0,30})', page))
    assert {address for address in addresses if not address.startswith(("#", "data:image/png;base64,"))} == set()
    assert not re.search(r"[@\"'(]https?:(?!//www\.w3\.org/2000/svg)", page)
    assert len(page.encode()) < 3_000_000


def test_the_same_run_gives_the_same_page():
    assert report_html(TINY_RUN) == report_html(TINY_RUN)


FIGURES_OF_ANSWERS = {"tiny-images": 3, "tiny-rows": 1, "tiny-pairs": 0, "tiny-reconstruction": 2}


@pytest.mark.parametrize("run", ANSWERING, ids=lambda run: run.name)
def test_the_page_of_rows_images_and_pairs_holds_what_was_answered(run):
    page = report_html(run)
    text = html.unescape(re.sub(r"<[^>]+>", " ", page.split("<body>")[1]))
    metric = run.ladder.measure.metric
    for said in (
        earned_words(run.ladder),
        start_words(run.start),
        "What it answers",
        f"{metric} on dev",
        f"over {run.ladder.measure.simple}",
        *[metric_words(name, value) for name, value in run.answers.metrics.items()],
        *[metric_words(metric, rung.test_metric) for rung in run.ladder.rungs],
        *run.data.about,
        " ".join(run.command),
    ):
        assert said in text, said
    for word in ("What it makes", "counting", "bits a character", "context of 0", "nan"):
        assert word not in text, word
    assert page.count("<figure") == 6 + FIGURES_OF_ANSWERS[run.name]
    assert 'href="#answers"' in page
    assert 'id="answers"' in page


def test_answers_in_words_are_a_table_and_images_a_picture():
    page = report_html(TINY_PAIRS)
    assert '<th scope="row"><code>ccab</code></th><td data-name="truth" class="words"><code>abc</code></td>' in page
    assert page.count(">wrong</td>") == 1
    assert "Symbols" in page
    page = report_html(TINY_ROWS)
    assert "wrong</td>" not in page
    assert "squared error" in page
    assert "MAE on dev, in units of body_mass" in page
    assert "<h3>Classes</h3>" not in page
    page = report_html(TINY_IMAGES)
    assert page.count("<image ") == 4 + 2  # and the maps of its units
    assert "<h3>Classes</h3>" in page
    assert "moved at random by up to 1 pixel" in page


def test_running_text_is_shown_as_it_is():
    sample = Sample("to be\nor not", 12.0, 10, "", "", 0, "or not")
    run = replace(
        TINY_RUN,
        data=TINY_RUN.data._replace(kind="text", symbols=(" ", "\n", "a"), items={"train": 0, "dev": 0, "test": 0}),
        samples=(sample,),
        sampled=(SampledAt(2, ("to\nbe",)),),
    )
    page = report_html(run)
    assert "<pre>to be\nor not</pre>" in page
    assert "1.2000 nats a token; the longest part copied from train has 6 letters" in page
    assert "train: 5 tokens" in page


def test_a_run_with_hardly_anything_has_a_page():
    bare = replace(TINY_RUN, health=(), findings=(), timings=(), sampled=(), samples=(), steps=(), evaluations=())
    assert "Nothing was found" in report_html(bare)
    nans = replace(
        TINY_RUN, steps=tuple(step._replace(loss=math.nan, gradient_norm=math.nan) for step in TINY_RUN.steps)
    )
    assert not re.search(r"[^a-z](nan|inf)[^a-z]", re.sub(r"<figcaption>.*?</figcaption>", "", report_html(nans)))


@pytest.fixture(scope="module")
def watched(browser: Browser) -> Iterator[tuple[Page, list[str]]]:
    """A page that notices requests, errors and dialogs; one for all tests, since each new one takes half a second."""
    page = browser.new_page()
    wrongs: list[str] = []
    page.on(
        "request", lambda request: None if request.url.startswith(("file:", "data:")) else wrongs.append(request.url)
    )
    page.on("console", lambda message: wrongs.append(message.text))
    page.on("pageerror", lambda error: wrongs.append(str(error)))
    page.on("dialog", lambda dialog: (wrongs.append(dialog.message), dialog.dismiss()))
    yield page, wrongs
    page.close()


@pytest.fixture
def visited(watched: tuple[Page, list[str]], tmp_path: Path) -> Iterator[tuple[Page, list[str], Path]]:
    """The page that notices, as large and as bright as at first."""
    page, wrongs = watched
    wrongs.clear()
    page.set_viewport_size({"width": 1280, "height": 900})
    page.emulate_media(media="null", color_scheme="null")
    yield page, wrongs, tmp_path
    assert wrongs == []


def opened(visited: tuple[Page, list[str], Path], document: str, suffix: str = "html") -> Page:
    page, _, folder = visited
    file = folder / f"page.{suffix}"
    file.write_text(document, encoding="utf-8")
    page.goto(file.as_uri())
    return page


@pytest.mark.browser
def test_it_opens_without_a_request_and_every_link_leads_somewhere(visited):
    page = opened(visited, report_html(large_run()))
    broken = page.evaluate("[...document.querySelectorAll('a')].filter(a => !document.querySelector(a.hash)).length")
    assert broken == 0
    drawn = page.evaluate(
        "[...document.querySelectorAll('figure .scroll > svg')].map(svg => svg.getBoundingClientRect().height)"
    )
    assert len(drawn) == 6
    assert min(drawn) > 100
    assert page.evaluate("document.querySelectorAll('svg image').length") > 0


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 820, 1600])
def test_nothing_runs_over_the_side_of_a_screen(visited, width):
    page, *_ = visited
    page.set_viewport_size({"width": width, "height": 900})
    for run in (TINY_RUN, *ANSWERING):
        opened(visited, report_html(poisoned(run)))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), run.name


@pytest.mark.browser
@pytest.mark.parametrize("width", [400, 1200])
def test_no_table_is_clipped_and_only_pictures_scroll(visited, width):
    page, *_ = visited
    page.set_viewport_size({"width": width, "height": 900})
    for run in (TINY_RUN, *ANSWERING, large_run()):
        opened(visited, report_html(run))
        # On a phone a picture scrolls in its frame, so that its words can be read; nothing else is wider than the page.
        wide = page.evaluate(
            "[...document.querySelectorAll('body *:not(svg, svg *)')]"
            ".filter(one => one.getBoundingClientRect().right > innerWidth + 1).map(one => one.outerHTML.slice(0, 80))"
        )
        assert wide == [], run.name
        clipped = page.evaluate(
            "[...document.querySelectorAll('.scroll:has(> table)')].filter(one => one.scrollWidth > one.clientWidth)"
            ".length"
        )
        assert clipped == 0, run.name
        pictures = page.evaluate(
            "[...document.querySelectorAll('figure .scroll')].filter(one => one.scrollWidth > one.clientWidth).length"
        )
        assert (pictures > 0) == (width == 400), run.name


@pytest.mark.browser
def test_a_ladder_on_a_phone_has_every_number_with_its_name(visited):
    page, *_ = visited
    page.set_viewport_size({"width": 400, "height": 900})
    opened(visited, report_html(TINY_RUN))
    named = page.evaluate(
        "[...document.querySelectorAll('#ladder tr.network td')].filter(one => one.offsetParent)"
        ".map(one => [getComputedStyle(one, '::before').content.slice(1, -1), one.textContent])"
    )
    assert ["dev nats", "0.9200"] in named
    assert ["over counting", "+0.0700"] in named
    assert page.evaluate("getComputedStyle(document.querySelector('#ladder thead')).display") == "none"
    page.set_viewport_size({"width": 1200, "height": 900})
    assert page.evaluate("getComputedStyle(document.querySelector('#ladder thead')).display") != "none"


@pytest.mark.browser
def test_in_the_dark_pages_and_pictures_are_dark_and_photos_are_as_they_were(visited):
    page = opened(visited, report_html(TINY_IMAGES))

    def looks(selector: str, part: str) -> str:
        return str(page.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{part}"))

    def brightness() -> int:
        return sum(map(int, re.findall(r"\d+", looks("body", "backgroundColor"))[:3])) // 3

    light = brightness()
    assert (light > 200, looks("figure svg", "filter"), looks("image.photo", "filter")) == (True, "none", "none")
    page.emulate_media(color_scheme="dark")
    assert brightness() < 60
    assert looks("figure svg", "filter") == "invert(0.9) hue-rotate(180deg)"
    assert looks("image.photo", "filter") == "invert(1) hue-rotate(180deg)"
    page.emulate_media(media="print", color_scheme="dark")
    assert brightness() > 200


@pytest.mark.browser
@pytest.mark.parametrize("run", [TINY_RUN, *ANSWERING], ids=lambda run: run.name)
def test_no_text_of_the_data_is_taken_for_markup(visited, run):
    page = opened(visited, report_html(poisoned(run)))
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 0
    drawn = page.evaluate("document.querySelectorAll('figure .scroll > svg').length")
    assert drawn == report_html(poisoned(run)).count("<figure")
    assert drawn >= 6
    assert "<img src=x onerror=alert(1)>" in page.inner_text("h1")
    assert page.evaluate("document.querySelectorAll('section').length") == 7


@pytest.mark.browser
@pytest.mark.parametrize("name", OF_TRAINING)
def test_no_figure_takes_a_text_for_markup(visited, name):
    card = drawable()[name]
    drawing = card.draw(poisoned(tiny_record(name)))
    for document, suffix in ((picture_html(drawing), "html"), (drawing.svg, "svg")):
        page = opened(visited, document, suffix)
        assert page.locator("img").count() == 0


# The texts of a picture that reach over its edge.
OUTSIDE = """() => {
    const frame = document.documentElement.viewBox.baseVal;
    return [...document.querySelectorAll("text")].filter(text => {
        const box = text.getBBox();
        const matrix = document.documentElement.getCTM().inverse().multiply(text.getCTM());
        const corners = [[box.x, box.y], [box.x + box.width, box.y + box.height]].map(
            ([x, y]) => new DOMPoint(x, y).matrixTransform(matrix));
        return corners.some(p => p.x < -1 || p.y < -1 || p.x > frame.width + 1 || p.y > frame.height + 1);
    }).map(text => text.textContent);
}"""


@pytest.mark.browser
@pytest.mark.parametrize("name", OF_TRAINING)
def test_words_of_a_picture_do_not_leave_it(visited, name):
    page = opened(visited, drawable()[name].draw(tiny_record(name)).svg, "svg")
    assert page.evaluate(OUTSIDE) == []


@pytest.mark.browser
def test_long_names_of_classes_do_not_leave_their_picture(visited):
    names = tuple(f"Pygoscelis antarcticus, the {i}th of its kind" for i in range(30))
    counts = tuple(tuple(900 if i == j else i % 3 for j in range(30)) for i in range(30))
    answers = TINY_IMAGES.answers._replace(
        confusion=Confusion(names, counts),
        examples=tuple(example._replace(what=names[0], truth=names[1]) for example in TINY_IMAGES.answers.examples),
    )
    for draw in (draw_confusion, draw_mistakes):
        page = opened(visited, draw(replace(TINY_IMAGES, answers=answers)).svg, "svg")
        assert page.evaluate(OUTSIDE) == []


@pytest.mark.browser
def test_it_can_be_printed(visited):
    page = opened(visited, report_html(TINY_RUN))
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.evaluate(
        "[...document.querySelectorAll('.scroll')].every(box => getComputedStyle(box).overflowX === 'visible')"
    )
    assert page.pdf().startswith(b"%PDF")
