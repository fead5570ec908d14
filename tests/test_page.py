"""The page that walks through a derivation, in a real browser: no network, no errors, the record's numbers."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from pellucid.autograd.derivation import differentiate
from pellucid.figures.derivation_page import page_html
from pellucid.figures.graph.folding import MOST_DRAWN
from pellucid.figures.graph.picture import graph_svg
from pellucid.figures.words.notation import in_brackets, short
from pellucid.records import Check, Derivation, Note

PHONE, DESK = {"width": 360, "height": 740}, {"width": 1400, "height": 900}


def neuron() -> Derivation:
    return differentiate("1/(1+exp(-(w0*x0+w1*x1+w2)))", {"w0": 2, "x0": -1, "w1": -2, "x1": -2, "w2": -3})


class Visitor:
    """Opens pages and notices everything that must not happen."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser = browser
        self.folder = folder
        self.wrongs: list[str] = []
        self.pages: list[Page] = []

    def open(self, document: str, viewport: dict[str, int] = DESK, suffix: str = "html", **choices: object) -> Page:
        file = self.folder / f"page{len(self.pages)}.{suffix}"
        file.write_text(document, encoding="utf-8")
        page = self.browser.new_page(viewport=viewport, reduced_motion="reduce", **choices)
        page.on("console", lambda message: self.wrongs.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.wrongs.append(str(error)))
        page.on("dialog", lambda dialog: (self.wrongs.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self._noticed(request.url))
        page.goto(file.as_uri())
        self.pages.append(page)
        return page

    def _noticed(self, url: str) -> None:
        if not url.startswith(("file://", "data:")):
            self.wrongs.append(f"request {url}")


@pytest.fixture
def visitor(browser: Browser, tmp_path: Path) -> Iterator[Visitor]:
    visitor = Visitor(browser, tmp_path)
    yield visitor
    for page in visitor.pages:
        page.close()
    assert visitor.wrongs == []


def step(page: Page) -> str:
    return " ".join(page.inner_text("#step").split())


def press(page: Page, *keys: str) -> str:
    for key in keys:
        page.keyboard.press(key)
    return step(page)


@pytest.mark.browser
def test_the_walk_shows_the_records_numbers_at_every_step(visitor: Visitor) -> None:
    derivation = neuron()
    page = visitor.open(page_html(derivation))
    assert "Given: w0 = 2, x0 = -1, w1 = -2, x1 = -2, w2 = -3" in press(page, "ArrowRight")
    press(page, "ArrowRight")
    for node in [node for node in derivation.nodes if node.parents]:
        shown = step(page)
        assert f"{node.name} = " in shown
        assert shown.endswith(f"= {short(node.value)}")
        press(page, "ArrowRight")
    assert "gradient of v8 = 1" in step(page)
    for back in derivation.steps:
        shown = press(page, "ArrowRight")
        names = [derivation.nodes[i].name for i in (back.node, back.parent)]
        assert f"From {names[0]} back to {names[1]}" in shown
        figures = page.locator("#step .figure").all_inner_texts()
        assert figures == [short(back.upstream), in_brackets(back.slope), short(back.contribution)]
        assert back.because[1:] in shown
        assert page.locator(".wire.now").count() == 1
        assert page.locator(".box.now .name").text_content() == names[1]
        assert page.locator(".box.now .gradient").text_content() == short(back.running_sum)
    assert page.locator("#forward").is_disabled()


@pytest.mark.browser
def test_forward_steps_are_written_out_with_names_and_numbers(visitor: Visitor) -> None:
    page = visitor.open(page_html(neuron()))
    assert "v1 = w0 × x0 = 2 × (-1) = -2" in press(page, "ArrowRight", "ArrowRight")
    assert page.locator(".wire.now").count() == 2
    assert page.locator(".box.ahead").count() == 7


@pytest.mark.browser
def test_a_value_used_twice_adds_up_before_ones_eyes(visitor: Visitor) -> None:
    page = visitor.open(page_html(differentiate("x*x", {"x": 3})))
    first = press(page, "End", "ArrowLeft")
    assert "Use 1 of 2, sum so far: 3" in first
    assert page.locator(".box.input .gradient").text_content() == "3"
    assert "Use 2 of 2, sum so far: 3 + 3 = 6" in press(page, "ArrowRight")
    assert page.locator(".box.input .gradient").text_content() == "6"


@pytest.mark.browser
def test_keys_buttons_and_the_list_all_step(visitor: Visitor) -> None:
    page = visitor.open(page_html(neuron()))
    start = step(page)
    second = press(page, "ArrowRight", "ArrowRight")
    assert press(page, "ArrowLeft") != second
    page.click("#forward")
    assert step(page) == second
    page.click("#back")
    page.click("#first")
    assert step(page) == start
    assert page.locator("#back").is_disabled()
    page.click("#last")
    end = step(page)
    assert press(page, "Home") == start
    assert press(page, "End") == end
    page.click("#list button:has-text('v1 = w0 × x0')")
    assert step(page) == second
    assert page.locator("#list [aria-current]").inner_text().startswith("v1 = w0 × x0")


@pytest.mark.browser
def test_space_plays_and_pauses(visitor: Visitor) -> None:
    page = visitor.open(page_html(neuron()))
    press(page, "Space")
    assert page.inner_text("#play") == "pause"
    assert page.inner_text("#count").startswith("1 of")
    expect(page.locator("#count")).to_have_text(re.compile("^2 of"))
    press(page, "Space")
    assert page.inner_text("#play") == "play"


@pytest.mark.browser
def test_each_step_is_announced_and_focus_is_visible(visitor: Visitor) -> None:
    page = visitor.open(page_html(neuron()))
    press(page, "ArrowRight", "ArrowRight")
    live = page.locator("[aria-live=polite]")
    assert "v1 = w0 × x0 = 2 × (-1) = -2" in (live.text_content() or "")
    page.keyboard.press("Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@pytest.mark.browser
def test_the_selector_chooses_whose_way_back_is_shown(visitor: Visitor) -> None:
    derivation = differentiate("s = a*b; p = s + a; q = s^3", {"a": 1.5, "b": -2})
    page = visitor.open(page_html(derivation))
    for i, back in enumerate(derivation.passes):
        page.select_option("#output", str(i))
        drawn = page.locator(".box .gradient").all_text_contents()
        assert drawn == [short(back.gradients[node.place]) for node in derivation.nodes if node.can_move]
        press(page, "End")
        assert f"of {len(back.steps)}" in page.locator("#step .phase").inner_text()
        assert page.locator(".gradients:visible h2").all_inner_texts() == [
            f"Gradients of {back.output}, beside central differences"
        ]


@pytest.mark.browser
def test_the_table_shows_gradients_differences_effects_and_notes(visitor: Visitor) -> None:
    derivation = neuron()
    unmeasured = [Check(*check[:3], None, None, *check[5:]) for check in derivation.checks[-1:]]
    derivation = replace(
        derivation,
        checks=[*derivation.checks[:-1], *unmeasured],
        effects=derivation.effects[:-1],
        notes=[Note("relu(0) at column 3 is not differentiable here", 3)],
    )
    page = visitor.open(page_html(derivation))
    rows = page.locator(".gradients tbody tr").all_inner_texts()
    assert len(rows) == 5
    assert "-0.196612" in rows[0]
    assert "raise w0 by 0.01 and the output falls by 0.00197" in rows[0]
    assert rows[4].count("not measured") == 2
    assert "not differentiable" in page.inner_text(".notes")


@pytest.mark.browser
@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_width_in_light_and_dark(visitor: Visitor, viewport: dict[str, int], scheme: str) -> None:
    page = visitor.open(page_html(neuron()), viewport, color_scheme=scheme)
    press(page, *["ArrowRight"] * 14)
    assert page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
    # The number and what lies under it differ enough to be read: WCAG asks for 4.5.
    for box in page.locator(".box:not(.constant):not(.ahead)").all():
        ink, paper = box.evaluate(
            "box => [box.querySelector('.gradient'), box.querySelector('.strip')].map(e => getComputedStyle(e).fill)"
        )
        assert contrast(ink, paper) >= 4.5


def contrast(ink: str, paper: str) -> float:
    lights = []
    for colour in (ink, paper):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
        red, green, blue = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        lights.append(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    return (max(lights) + 0.05) / (min(lights) + 0.05)


MEASURE = """() => [...document.querySelectorAll('[data-box]')].map(box => {
  const body = box.querySelector('.body').getBBox();
  const texts = [...box.querySelectorAll('text')].map(text => text.getBBox());
  const inside = texts.every(t => t.x >= body.x && t.x + t.width <= body.x + body.width + 0.5
    && t.y >= body.y - 2 && t.y + t.height <= body.y + body.height + 2);
  const apart = texts.every((a, i) => texts.every((b, j) => i >= j || a.x + a.width <= b.x || b.x + b.width <= a.x
    || a.y + a.height - 4 <= b.y || b.y + b.height - 4 <= a.y));
  return [box.querySelector('title').textContent, inside, apart];
})"""


@pytest.mark.browser
def test_texts_fit_their_boxes_as_the_browser_measures_them(visitor: Visitor) -> None:
    long_name = "a_name_of_thirty_two_characters_"
    cases = [
        neuron(),
        differentiate("s = a*b; p = sin(s) + a; q = s^2/p; d = s*where(p, a, q)", {"a": 1.5, "b": -2}),
        differentiate(f"{long_name}*WWWWWWWWWWWWWWWWWWWWWWWWWWWWWWWW", {long_name: 1e-300, "W" * 32: -1.23456789e-200}),
        differentiate("sin(" * 400 + "x" + ")" * 400, {"x": 1}),
        differentiate(
            "+".join([f"w{i}*x{i}" for i in range(300)]), {f"{a}{i}": i / 7 for a in "wx" for i in range(300)}
        ),
    ]
    for derivation in cases:
        page = visitor.open(graph_svg(derivation), suffix="svg")
        for title, is_inside, is_apart in page.evaluate(MEASURE):
            assert is_inside, title
            assert is_apart, title
        numbers = (
            "[...document.querySelectorAll('.slope')].map(t => [t.getBBox().width, t.previousSibling.getBBox().width])"
        )
        assert all(text <= room for text, room in page.evaluate(numbers))
        words = "[...document.querySelectorAll('.caption, .heading')].map(t => t.getBBox().x + t.getBBox().width)"
        assert max(page.evaluate(words)) <= page.evaluate("document.documentElement.viewBox.baseVal.width")


@pytest.mark.browser
def test_a_large_graph_gives_a_small_page_that_says_what_it_leaves_out(visitor: Visitor) -> None:
    derivation = differentiate("sin(" * 20_000 + "x" + ")" * 20_000, {"x": 1})
    document = page_html(derivation)
    assert len(document.encode()) < 2_000_000
    page = visitor.open(document)
    said = page.inner_text(".left-out")
    assert f"{len(derivation.nodes):,} nodes" in said
    assert "Of 20,000 steps forward the first and the last 500 are listed." in said
    last = press(page, "End")
    assert "Backward, 20,000 of 20,000" in last
    assert "From v1 back to x" in last
    assert page.locator(".box.now .gradient").text_content() == short(derivation.gradients["x"])
    page.click("#list button:has-text('… 19,000 steps') >> nth=1")
    assert "19,000 steps in the middle are not listed here" in step(page)


def test_many_outputs_stay_small() -> None:
    values = {f"x{i}": float(i) for i in range(20)}
    shared = "+".join([f"x{i}*x{j}" for i in range(20) for j in range(20)])
    outputs = "; ".join([f"y{i} = s*x{i}" for i in range(20)])
    derivation = differentiate(f"s = {shared}; {outputs}", values)
    assert len(derivation.nodes) > MOST_DRAWN
    assert len(page_html(derivation).encode()) < 2_000_000


HOSTILE = "</script><img src=x onerror=alert(1)><!--\u2028@@DATA@@"


@pytest.mark.browser
def test_no_text_is_ever_taken_for_markup(visitor: Visitor) -> None:
    derivation = neuron()
    nodes = [node._replace(name=f"{HOSTILE}{node.place}") for node in derivation.nodes]
    back = derivation.passes[0]
    steps = [each._replace(because=HOSTILE) for each in back.steps]
    check = derivation.checks[0]
    hostile = Derivation(
        text=HOSTILE,
        nodes=nodes,
        values={HOSTILE: 1.0, f"{HOSTILE}2": 2.0},
        inputs={HOSTILE: 2.0},
        passes=[replace(back, output=HOSTILE, steps=steps), replace(back, output=f"{HOSTILE}2", steps=steps)],
        checks=[check._replace(output=HOSTILE, variable=HOSTILE)],
        effects=[derivation.effects[0]._replace(output=HOSTILE, variable=HOSTILE)],
        notes=[Note(HOSTILE, 1)],
    )
    page = visitor.open(page_html(hostile))
    for _ in range(24):
        press(page, "ArrowRight")
    page.select_option("#output", "0")
    press(page, "End")
    assert page.locator("img").count() == 0
    assert page.locator("script").count() == 2
    assert "onerror=alert(1)" in step(page)


def test_the_page_needs_nothing_from_outside() -> None:
    document = page_html(neuron())
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
    assert f'http-equiv="Content-Security-Policy" content="{policy}"' in document
    addresses = set(re.findall(r"https?://[^\"'<> ]+", document))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert "@@" not in document
    assert json.loads(re.search(r'id="data">(.*?)</script>', document, re.DOTALL)[1])["forward"]


@pytest.mark.browser
def test_without_scripts_the_page_says_what_to_type(visitor: Visitor) -> None:
    page = visitor.open(page_html(neuron()), java_script_enabled=False)
    assert "pellucid derive '1/(1+exp(-(w0*x0+w1*x1+w2)))' w0=2.0" in page.inner_text("noscript")
    assert page.locator("[data-box]").count() == 15
