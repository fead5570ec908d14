"""The pictures in a real browser: no request leaves, no text runs over its place, no text is taken for markup."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from pellucid.data import ListData
from pellucid.figures.drawings.bigram_graph import draw_bigram_graph
from pellucid.figures.drawings.bigram_matrix import draw_bigram_matrix
from pellucid.figures.picture import Picture, picture_html
from pellucid.lessons.bigram_smoothing import draw as draw_smoothing
from pellucid.lessons.bigram_smoothing import smooth_counts
from pellucid.models.counting.simple_models import bigram_counts, word_counts
from pellucid.records import BigramCount, BigramCounts

WORDS = [first + second + third for first in "abcdefghijklmnopqrstuvwxyz" for second in "aeiou" for third in "nrstl"]
HOSTILE = "</script><img src=x onerror=alert(1)><!--\u2028@@SCRIPT@@"


class Visitor:
    """Opens pages and notices everything that must not happen."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.page = browser.new_page(viewport={"width": 1600, "height": 900})
        self.folder = folder
        self.wrongs: list[str] = []
        self.page.on("console", lambda message: self.wrongs.append(message.text))
        self.page.on("pageerror", lambda error: self.wrongs.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.wrongs.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self._noticed(request.url))

    def open(self, document: str, suffix: str = "html") -> Page:
        file = self.folder / f"picture.{suffix}"
        file.write_text(document, encoding="utf-8")
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("svg")
        return self.page

    def _noticed(self, url: str) -> None:
        if not url.startswith(("file://", "data:")):
            self.wrongs.append(f"request {url}")


@pytest.fixture
def visitor(browser: Browser, tmp_path: Path) -> Iterator[Visitor]:
    visitor = Visitor(browser, tmp_path)
    yield visitor
    visitor.page.close()
    assert visitor.wrongs == []


def data() -> ListData:
    return ListData("words", WORDS, because="", fingerprint="")


@pytest.mark.browser
@pytest.mark.parametrize(
    "drawing",
    [
        draw_bigram_matrix(bigram_counts(data())),
        draw_bigram_graph(bigram_counts(data())),
        draw_bigram_graph(word_counts("mississippi")),
        draw_smoothing(smooth_counts(data())),
    ],
    ids=["matrix", "circle", "word", "smoothing"],
)
def test_pages_and_pictures_open_alone_and_hold_their_words(visitor: Visitor, drawing: Picture) -> None:
    for document, suffix in ((picture_html(drawing), "html"), (drawing.svg, "svg")):
        page = visitor.open(document, suffix)
        said = " ".join(page.evaluate("document.querySelector('svg').textContent").split())
        for line in (drawing.title, *drawing.caption):
            assert line in said
        edges = "[...document.querySelectorAll('svg text')].map(text => text.getBoundingClientRect().right)"
        right = page.evaluate("document.querySelector('svg').getBoundingClientRect().right")
        assert max(page.evaluate(edges)) <= right
    page = visitor.open(picture_html(drawing))
    assert page.evaluate("document.documentElement.scrollWidth") <= 1600
    assert page.evaluate("document.documentElement.scrollHeight") <= 900


@pytest.mark.browser
def test_every_count_stands_inside_its_cell(visitor: Visitor) -> None:
    # Six digits are the longest number that is written out.
    large = tuple([BigramCount(i, j, 123_456 + i + j) for i in range(6) for j in range(6)])
    seen = BigramCounts("large counts", ("·", *"abcde"), True, large)
    page = visitor.open(draw_bigram_matrix(seen).svg, "svg")
    boxes = page.evaluate(
        """[...document.querySelectorAll('svg text')].map(text => {
          const box = text.getBoundingClientRect(); return [text.textContent, box.left, box.right, box.top, box.bottom];
        })"""
    )
    counts = [box for box in boxes if box[0].isdigit() and len(box[0]) == 6]
    assert len(counts) == 36 + 6 + 6  # the sum of all has seven digits and is shortened
    for i, (_, left, right, top, bottom) in enumerate(counts):
        for _, other_left, other_right, other_top, other_bottom in counts[i + 1 :]:
            assert right <= other_left or other_right <= left or bottom <= other_top or other_bottom <= top


@pytest.mark.browser
@pytest.mark.parametrize("word", ["emma", "mississippi", "abracadabra", "massachusetts", "banana", "isabella"])
def test_the_numbers_of_a_walk_do_not_touch(visitor: Visitor, word: str) -> None:
    page = visitor.open(draw_bigram_graph(word_counts(word)).svg, "svg")
    boxes = page.evaluate(
        """[...document.querySelectorAll('g > text')].filter(text => /^[0-9]+$/.test(text.textContent)).map(text => {
          const box = text.getBoundingClientRect(); return [box.left, box.right, box.top, box.bottom];
        })"""
    )
    assert len(boxes) == len(word) + 1
    for i, (left, right, top, bottom) in enumerate(boxes):
        for other_left, other_right, other_top, other_bottom in boxes[i + 1 :]:
            assert right < other_left or other_right < left or bottom < other_top or other_bottom < top


@pytest.mark.browser
def test_the_pointer_is_told_the_numbers(visitor: Visitor) -> None:
    page = visitor.open(picture_html(draw_bigram_matrix(word_counts("emma"))))
    assert page.locator("#drawing .cell title").first.text_content() == "· → e: 1, 100 % of its row"


@pytest.mark.browser
def test_a_symbol_under_the_pointer_keeps_its_own_arrows(visitor: Visitor) -> None:
    seen = bigram_counts(data())
    page = visitor.open(picture_html(draw_bigram_graph(seen)))
    page.hover("#symbol1")
    shown = page.evaluate(
        "[...document.querySelectorAll('.edge')].filter(edge => getComputedStyle(edge).opacity === '1').length"
    )
    assert shown == len([bigram for bigram in seen.bigrams if bigram.first == 1])


@pytest.mark.browser
def test_no_text_is_ever_taken_for_markup(visitor: Visitor) -> None:
    hostile = ListData(HOSTILE, [HOSTILE] * 3 + WORDS, because="", fingerprint="")
    drawings = [
        draw_bigram_matrix(bigram_counts(hostile)),
        draw_bigram_graph(bigram_counts(hostile)),
        draw_bigram_graph(word_counts(HOSTILE)),
        draw_smoothing(smooth_counts(hostile)),
    ]
    for drawing in drawings:
        for document, suffix in ((picture_html(drawing), "html"), (drawing.svg, "svg")):
            page = visitor.open(document, suffix)
            assert page.locator("img").count() == 0
            if suffix == "html":
                assert "</script>" in page.evaluate("document.querySelector('svg').textContent")
