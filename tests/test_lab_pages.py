"""The lab in a real browser: each journey from its beginning, without an error, a barrier or a request elsewhere."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Page, Route, ViewportSize, expect

import pellucid
from pellucid.api.derive import derive
from pellucid.api.speak import Speaker
from pellucid.autograd.latex import derivation_latex
from pellucid.figures.words.answers import token_mistake_lines
from pellucid.runs import open_run
from pellucid.training.inference.token_mistakes import measure_token_mistakes

pytestmark = pytest.mark.browser

AXE = (Path(__file__).parent / "axe" / "axe.min.js").read_text()
DESK, PHONE, WIDE = (ViewportSize(width=w, height=h) for w, h in ((1280, 900), (400, 800), (2560, 1440)))
PATIENCE = 90_000  # milliseconds; a machine may have other things to do
expect.set_options(timeout=PATIENCE)

END_AT_FIRST_SIGHT = """() => {
    const watch = new MutationObserver(() => {
        if (!document.querySelector('[aria-label="The graph"]')) return;
        watch.disconnect();
        document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "End", bubbles: true, cancelable: true }));
    });
    watch.observe(document.body, { childList: true, subtree: true });
}"""  # the key comes in the moment in which the graph does, as it may on a busy machine
# A barrier is told by its piece of HTML. To make a selector of each element that passed is a fifth of axe's work.
BARRIERS = """async (only) => {
    const options = { resultTypes: ["violations"], selectors: false, elementRef: false };
    const found = await axe.run(document, only.length ? { ...options, runOnly: only } : options);
    return found.violations.map(({ id, impact, nodes }) => ({ id, impact, nodes: nodes.map(({ html }) => html) }));
}"""
OF_COLOURS = ("color-contrast", "link-in-text-block")
LEAVES_ITS_SHEET = """() => [...document.querySelectorAll(".sheet")].flatMap((sheet) => {
    const isVisible = (one) => getComputedStyle(one).overflowX === "visible";
    const isFree = (one) => one === sheet || (isVisible(one) && isFree(one.parentElement));
    const end = sheet.getBoundingClientRect().right + 1;
    const leaves = (one) => one.getBoundingClientRect().right > end && !one.closest("svg, .unseen");
    const found = [...sheet.querySelectorAll("*")].filter((one) => leaves(one) && isFree(one.parentElement));
    return found.slice(0, 2).map((one) => one.outerHTML.slice(0, 90));
})"""
EVIL = "<img src=x onerror=window.__hit=1>"
NAMES = sorted(
    {a + b + c for a in ("an", "be", "cor", "da", "el") for b in ("na", "li", "ro", "mi") for c in ("", "s", "n")}
)


class LabProcess:
    """`pellucid lab` as a process, and the link that it printed; by a program of its own, or started from nothing."""

    def __init__(self, folder: Path, program: Path | None = None) -> None:
        words = [*([program] if program else [sys.executable, "-m", "pellucid"]), "lab", "--no-open"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.folder = folder
        self.cookies: list[Any] = []
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8", cwd=folder, env=environment)
        assert self.process.stdout
        found = re.search(r"http://\S+", self.process.stdout.readline())
        assert found
        self.link = found[0]
        self.base = self.link.split("/?")[0]

    def end(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.wait(60)
        assert self.process.stdout
        self.process.stdout.close()


class LabVisitor:
    """A browser that notices everything that must not happen."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.wrongs: list[str] = []
        self.contexts: list[BrowserContext] = []
        self.base = ""

    def open(self, lab: LabProcess, viewport: Any = DESK, scheme: Any = "light") -> Page:
        context = self.browser.new_context(viewport=viewport, color_scheme=scheme, reduced_motion="reduce")
        context.set_default_timeout(PATIENCE)
        self.contexts.append(context)
        self.base = lab.base
        page = context.new_page()
        page.on("console", lambda message: self._noticed(message.type, message.text))
        page.on("pageerror", lambda error: self.wrongs.append(f"error {error}"))
        context.on("request", lambda request: self._asked(request.url))
        context.add_cookies(lab.cookies)
        page.goto(lab.base if lab.cookies else lab.link)
        expect(page).to_have_url(f"{lab.base}/")
        lab.cookies = lab.cookies or context.cookies()  # the link works once
        return page

    def go(self, page: Page, hash_: str) -> None:
        page.goto(f"{self.base}/#/{hash_}")

    def check(self, page: Page, rules: Sequence[str] = ()) -> None:
        """No serious barrier by axe, nothing wider than the window, nothing that ran out of a text.

        rules: these of axe's alone; all, if none are given.
        """
        if not page.evaluate("'axe' in window"):
            page.evaluate(AXE)  # by the debugger, which the page's policy does not hold
        for one in page.evaluate(BARRIERS, list(rules)):
            if one["impact"] in ("serious", "critical"):
                self.wrongs.append(f"{page.url}: {one['id']}: {[html[:150] for html in one['nodes'][:3]]}")
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth + 1"):
            self.wrongs.append(f"{page.url}: wider than its window")
        self.wrongs += [f"{page.url}: {one} leaves its sheet" for one in page.evaluate(LEAVES_ITS_SHEET)]
        assert page.evaluate("window.__hit") is None

    def _noticed(self, kind: str, text: str) -> None:
        if kind == "error" and not re.search("net::ERR_CONNECTION|status of (4|503)", text):
            self.wrongs.append(f"console {text}")

    def _asked(self, url: str) -> None:
        if not url.startswith((self.base, "blob:", "data:")):
            self.wrongs.append(f"request {url}")


@pytest.fixture
def visitor(browser: Browser) -> Iterator[LabVisitor]:
    made = LabVisitor(browser)
    yield made
    for context in made.contexts:
        context.close()
    assert made.wrongs == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "words.txt").write_text("\n".join(NAMES))
    (tmp_path / f"{EVIL}.csv").write_text(
        f"{EVIL},size,kind\n" + "\n".join(f"{EVIL}{i % 3},{i},{'ab'[i % 2]}{EVIL}" for i in range(60))
    )
    return tmp_path


def test_from_nothing_to_a_trained_run_its_tree_and_one_number(
    visitor: LabVisitor, folder: Path, pellucid_program: Path
):
    """A dropped file, what it is, a training that is watched, the decoding tree, and back to a single number."""
    lab = LabProcess(folder, pellucid_program)
    try:
        page = visitor.open(lab)
        expect(page.get_by_text("No run yet")).to_be_visible()
        visitor.check(page)
        page.get_by_label("File", exact=True).set_input_files(folder / "words.txt")
        expect(page.get_by_role("heading", name="words.txt")).to_be_visible()
        expect(page.get_by_text(f"a list of {len(NAMES)} items")).to_be_visible()
        page.get_by_text("More choices").click()
        page.get_by_label("steps", exact=True).fill("40")
        page.get_by_label("size", exact=True).select_option("tiny")
        page.get_by_label("Name of the run").fill("mine")
        page.get_by_text("How it divides").click()
        expect(page.get_by_text("Strategy", exact=False)).to_be_visible()
        page.get_by_role("button", name="Show the plan").click()
        expect(page.get_by_text("40 steps of")).to_be_visible()
        visitor.check(page)
        page.get_by_role("button", name="Start training").click()
        expect(page.get_by_text("finished", exact=True)).to_be_visible(timeout=4 * PATIENCE)
        expect(page.get_by_role("heading", name="The ladder")).to_be_visible()
        expect(page.get_by_role("row", name=re.compile("Kneser|bigram")).first).to_be_visible()
        visitor.check(page)
        page.get_by_role("button", name=re.compile("attention: sound|attention: suspicious")).first.click()
        expect(page.get_by_role("heading", name="Over time")).to_be_visible()
        expect(page.get_by_role("img", name=re.compile("attention of every head"))).to_be_visible()
        visitor.check(page)
        layer = page.locator(".light[aria-pressed=true]").inner_text()
        page.get_by_role("link", name="Its formula and its numbers").click()
        expect(page.get_by_role("heading", name=layer, exact=True)).to_be_visible()

        visitor.go(page, "speak/mine")
        page.get_by_label("Beginning").fill("an")
        decoded = page.get_by_test_id("decoded")
        expect(decoded).to_have_text(re.compile("^an"))
        second = page.get_by_role("button", name=re.compile("^place 1:")).nth(1)
        chosen = re.search(r"place 1: (.+) \S+ %(, the end)?$", second.get_attribute("aria-label") or "")
        assert chosen
        second.click()
        expect(decoded).to_have_text(re.compile("^an" + ("$" if chosen[2] else re.escape(chosen[1]))))
        page.get_by_label("Top-k").fill("2")
        expect(page.locator(".branch.masked").first).to_be_visible()
        page.get_by_label("Beam width").fill("3")
        expect(page.get_by_role("heading", name="The beam")).to_be_visible()
        expect(page.locator(".sample").first).to_be_visible()
        page.get_by_label("Any text").fill("annas")
        expect(page.locator(".letter")).to_have_count(6)
        visitor.check(page)

        visitor.go(page, "run/mine/numbers")
        page.get_by_role("button", name=re.compile("^row 1, unit 0:")).first.click()
        expect(page.get_by_role("heading", name="One unit")).to_be_visible()
        expect(page.get_by_text(re.compile(r"\d+ numbers: −?\d+\.\d{3}, ")).first).to_be_visible()  # of this very input
        page.evaluate(END_AT_FIRST_SIGHT)
        page.get_by_role("button", name="Walk through its graph").click()
        expect(page.get_by_text("One unit of a network")).to_be_visible()
        measured = re.search(r"put out (\S+);", page.get_by_text("One unit of a network").inner_text())
        assert measured
        shown = float(page.get_by_test_id("value").inner_text())
        assert shown == pytest.approx(float(measured[1].replace("−", "-")), abs=2e-5)
        expect(page.get_by_text(re.compile("^Backward, "))).to_be_visible()
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_role("status").first).to_contain_text("Backward")
        visitor.check(page)
    finally:
        lab.end()


def test_a_folder_of_images_is_picked_or_dropped(visitor: LabVisitor, folder: Path, pellucid_program: Path):
    """Its folders are the classes, by whatever name; what is no image of a class is left out, and told."""
    shapes = folder / "my shapes"
    for label in ("ring", EVIL):
        (shapes / label).mkdir(parents=True)
        for number in range(3):
            Image.new("L", (8, 8), 40 * number).save(shapes / label / f"{number}.png")
    (shapes / "notes.txt").write_text("loose")
    (shapes / "ring" / ".hidden").write_text("hidden")
    lab = LabProcess(folder, pellucid_program)
    try:
        page = visitor.open(lab, scheme="dark")
        expect(page.get_by_role("link", name=re.compile("^my shapes images"))).to_be_visible()
        page.get_by_label("Folder").set_input_files(shapes)
        expect(page.get_by_role("heading", name="my-shapes")).to_be_visible()
        expect(page.get_by_text("2 files of the folder were left out")).to_be_visible()
        kept = page.url.split("#")[1]
        visitor.go(page, "train")
        place = page.locator(".drop").bounding_box()
        assert place
        at = {"x": place["x"] + place["width"] / 2, "y": place["y"] + 20}
        data = {"items": [], "files": [str(shapes)], "dragOperationsMask": 1}
        browser = page.context.new_cdp_session(page)
        for kind in ("dragEnter", "dragOver", "drop"):
            browser.send("Input.dispatchDragEvent", {"type": kind, **at, "data": data})
        expect(page.get_by_text("2 files of the folder were left out")).to_be_visible()
        assert page.url.split("#")[1] == kept  # the same bytes, and so the same place
        expect(page.get_by_text("6 images in 2 classes")).to_be_visible(timeout=4 * PATIENCE)
        (stored,) = (folder / "runs" / ".lab" / "dropped").glob("*/my-shapes")
        assert {one.name: len(list(one.iterdir())) for one in stored.iterdir()} == {"ring": 3, EVIL: 3}
        visitor.check(page)
    finally:
        lab.end()


def test_derive_x_ray_lessons_and_claims(visitor: LabVisitor, folder: Path, pellucid_program: Path):
    lab = LabProcess(folder, pellucid_program)
    try:
        page = visitor.open(lab, scheme="dark")
        visitor.go(page, "derive")
        expect(page.get_by_test_id("value")).to_have_text("0.268941")
        page.get_by_label("w0", exact=True).fill("1")
        expect(page.get_by_test_id("value")).not_to_have_text("0.268941")
        page.locator("h1").click()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowRight")
        expect(page.get_by_role("heading", name="v1 is made")).to_be_visible()
        page.get_by_label("Expression").fill("1/(1+exp(-")
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Expression").fill("x^2")
        expect(page.get_by_role("alert")).to_have_count(0)
        visitor.check(page)

        visitor.go(page, "xray")
        expect(page.get_by_text("nn.Linear(3600, 10) works")).to_be_visible()
        page.get_by_role("button", name="Mend it").click()
        expect(page.get_by_role("alert")).to_have_count(0)
        visitor.check(page)

        visitor.go(page, "lessons/scalar-rnn")
        expect(page.locator(".picture img")).to_be_visible()
        page.get_by_label("activation", exact=True).select_option("tanh")
        expect(page.get_by_text("Measured in")).to_be_visible()
        visitor.check(page)

        visitor.go(page, "claims")
        expect(page.get_by_text(re.compile(r"^\d+ of \d+$"))).to_be_visible()
        page.get_by_role("button", name="fails", exact=True).click()
        page.get_by_label("Search", exact=True).fill("softmax")
        page.locator(".card").first.click()
        expect(page.get_by_role("button", name="Run it here")).to_be_visible()
        visitor.check(page)
    finally:
        lab.end()


def test_a_killed_server_loses_nothing_and_names_run_nothing(visitor: LabVisitor, folder: Path, pellucid_program: Path):
    """Kill -9 in mid-training, come back, and it is there; names that are markup stay text; all of it on a phone."""
    lab = LabProcess(folder, pellucid_program)  # the fork server kills the fork of who was killed
    page = visitor.open(lab, PHONE)
    visitor.go(page, f"train/folder/{EVIL}.csv".replace("<", "%3C").replace(">", "%3E").replace("=", "%3D"))
    expect(page.get_by_text("a table of 60 rows")).to_be_visible()
    page.get_by_label("Column to predict").select_option("kind")
    page.get_by_text("More choices").click()
    page.get_by_label("steps", exact=True).fill("3000")
    page.get_by_label("Name of the run").fill("long")
    page.get_by_role("button", name="Start training").click()
    expect(page.get_by_text(re.compile(r"^Step [1-9]"))).to_be_visible()
    visitor.check(page)
    lab.end(signal.SIGKILL)
    expect(page.get_by_text("The lab does not answer")).to_be_visible()  # the page asks nothing itself, and tells it
    page.close()
    again = LabProcess(folder, pellucid_program)
    try:
        page = visitor.open(again, PHONE, "dark")
        page.get_by_role("link", name=re.compile("^long")).click()
        expect(page.get_by_text(re.compile("^(running|finished)$"))).to_be_visible()
        stop = page.get_by_role("button", name="Stop")
        if stop.is_visible():
            stop.click()
            expect(page.get_by_text(re.compile("^(stopped|finished)$"))).to_be_visible()
        visitor.check(page)
        visitor.go(page, "")
        expect(page.get_by_role("link", name=re.compile("^long"))).to_be_visible()
        visitor.check(page)
        # By keyboard alone: the first stop leads past the navigation.
        page.reload()
        expect(page.get_by_role("link", name=re.compile("^long"))).to_be_visible()
        page.bring_to_front()
        page.keyboard.press("Tab")
        expect(page.get_by_text("To the content")).to_be_focused()
    finally:
        again.end()


def in_terminal(program: Path | None, folder: Path, *words: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200", "NO_COLOR": "1"}
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    command = [*([program] if program else [sys.executable, "-m", "pellucid"]), *words]
    return subprocess.Popen(command, stdout=pipe, stderr=nothing, encoding="utf-8", cwd=folder, env=environment)


def test_a_run_of_the_terminal_is_live_here_and_its_numbers_are_the_terminals(
    visitor: LabVisitor, folder: Path, pellucid_program: Path
):
    """It appears by itself, is stopped and gone on with from the page; then every page of it, in light and in dark."""
    lab = LabProcess(folder, pellucid_program)
    # Started from nothing: what is sent a signal must be the process that trains.
    training = in_terminal(None, folder, "train", "words.txt", "--size", "tiny", "--steps", "100000", "--name", "live")
    try:
        page = visitor.open(lab)
        page.get_by_role("link", name=re.compile("^live")).click(timeout=4 * PATIENCE)
        expect(page.get_by_text("running", exact=True)).to_be_visible()
        expect(page.get_by_text(re.compile("^Step [1-9].* left"))).to_be_visible()
        expect(page.get_by_role("img", name="Learning rate over steps")).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text("stopped", exact=True)).to_be_visible()
        training.communicate(timeout=60)
        assert training.returncode == 143  # as after SIGTERM
        page.close()  # nobody looks while it goes on
        page = visitor.contexts[0].new_page()
        visitor.go(page, "run/live")
        page.get_by_role("button", name="Resume").click()
        expect(page.get_by_text("running", exact=True)).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.get_by_text("stopped", exact=True)).to_be_visible()

        # The same words and numbers as a training printed, and as commands print now.
        asked = ("train", "words.txt", "--size", "tiny", "--steps", "40", "--name", "short")
        said = in_terminal(pellucid_program, folder, *asked).communicate(timeout=240)[0]
        visitor.go(page, "run/short")
        expect(page.get_by_text("finished", exact=True)).to_be_visible()
        for row in page.get_by_role("region", name="The ladder").get_by_role("row").all()[1:4]:
            cells = [cell.strip() for cell in row.locator("th, td").all_inner_texts()]
            assert " ".join(cells[1:5]) in re.sub(" +", " ", said)
        score, derived = (
            json.loads(in_terminal(pellucid_program, folder, *words, "--json").communicate(timeout=120)[0])
            for words in (("score", "short", "annas"), ("derive", "x^2*y", "x=3", "y=2"))
        )
        visitor.go(page, "speak/short")
        page.get_by_label("Any text").fill("annas")
        total = sum(one["nats"] for one in score["surprises"])
        expect(
            page.get_by_text(f"{total / len(score['surprises']):.4f} nats a token, {total:.2f} in all")
        ).to_be_visible()
        visitor.go(page, "derive")
        page.get_by_label("Expression").fill("x^2*y")
        for name, value in (("x", "3"), ("y", "2")):
            page.get_by_label(name, exact=True).fill(value)
        expect(page.get_by_test_id("value")).to_have_text(f"{derived['outputs']['output']:g}")
        for name, slope in derived["gradients"]["output"].items():
            expect(page.get_by_role("row", name=re.compile(f"^{name} "))).to_contain_text(f"{slope:g}")

        # Exported from the page: what was measured, and one file to take along.
        visitor.go(page, "run/short/export")
        page.get_by_role("button", name="Export to torch").click()
        expect(page.get_by_text(re.compile(r"^Checked on 100 inputs: .* differ by \S+ at most"))).to_be_visible()
        with page.expect_download() as download:
            page.get_by_role("link", name="Download the zip").click()
        with zipfile.ZipFile(download.value.path()) as zipped:
            assert "short-torch/model.py" in zipped.namelist()
        page.get_by_role("button", name="Export to gguf").click()
        expect(page.get_by_role("alert")).to_contain_text("no place for counts")

        for tab in ("learning", "inside", "mistakes", "numbers", "doctor", "report", "export"):
            visitor.go(page, f"run/short/{tab}")
            expect(page.locator("#panel > *").first).to_be_visible()
            page.wait_for_function("() => [...document.images].every((one) => one.complete)")
            visitor.check(page)
            page.emulate_media(color_scheme="dark")
            visitor.check(page, OF_COLOURS)  # all else is as it was
            page.emulate_media(color_scheme="light")
    finally:
        lab.end()
        if training.poll() is None:
            training.kill()
        training.communicate()


PLACES = (
    *("", "train", "train/folder/words.txt", "train/comes/penguins", "speak", "derive", "xray", "lessons"),
    *("lessons/saturation", "claims", "claims/relu-solves-vanishing", "claims/none-of-this-name", "run/none"),
)


@pytest.mark.parametrize(("viewport", "scheme"), [(PHONE, "light"), (WIDE, "dark")])
def test_every_page_fits_a_phone_and_a_wide_screen(
    visitor: LabVisitor, folder: Path, pellucid_program: Path, viewport: ViewportSize, scheme: str
):
    """At 400 and at 2,560 pixels nothing is wider than its window and nobody meets a barrier."""
    lab = LabProcess(folder, pellucid_program)
    try:
        page = visitor.open(lab, viewport, scheme)
        for place in PLACES:
            visitor.go(page, place)
            expect(page.locator("main h1")).to_be_visible()
            page.wait_for_load_state("networkidle")
            visitor.check(page)
        for name in ("Runs", "Claims"):  # the ends of the way between pages are both in sight
            expect(page.get_by_role("link", name=name, exact=True)).to_be_in_viewport(ratio=1)
    finally:
        lab.end()


def test_a_page_that_was_left_asks_no_more(visitor: LabVisitor, folder: Path, pellucid_program: Path):
    """The first page looks again every few seconds; left while an answer is on its way, it stops all the same."""
    lab = LabProcess(folder, pellucid_program)
    try:
        page = visitor.open(lab)
        expect(page.get_by_text("No run yet")).to_be_visible()
        held: list[Route] = []
        page.route("**/api/home", lambda route: held.append(route))
        page.wait_for_event("request", lambda request: request.url.endswith("/api/home"))
        visitor.go(page, "derive")
        expect(page.get_by_test_id("value")).to_be_visible()
        page.clock.install()
        with page.expect_response("**/api/home") as answered:
            held[0].continue_()
        answered.value.finished()
        page.evaluate("() => fetch('/static/icon.svg').then((answer) => answer.text())")  # all before it was heard
        page.clock.run_for(20_000)
        page.evaluate("() => fetch('/static/icon.svg').then((answer) => answer.text())")
        assert len(held) == 1
    finally:
        lab.end()


def test_a_wrong_inference_is_corrected_in_the_page(visitor: LabVisitor, folder: Path, pellucid_program: Path):
    """What kind of data it is can be said, and all that follows from it follows; the run is trained as it says."""
    lab = LabProcess(folder, pellucid_program)
    try:
        page = visitor.open(lab)
        visitor.go(page, "train/folder/words.txt")
        expect(page.get_by_text("Inferred: list.")).to_be_visible()
        expect(page.get_by_text(f"a list of {len(NAMES)} items")).to_be_visible()
        assert "--kind" not in page.locator("main").inner_text()  # there is a field for it
        page.get_by_label("Kind of data").select_option("text")
        expect(page.get_by_text(re.compile(r"words\.txt: a text of|words\.txt: .*characters"))).to_be_visible()
        expect(page.get_by_text("As you say.")).to_be_visible()
        page.get_by_label("Kind of data").select_option("table")
        expect(page.get_by_role("alert")).to_contain_text("59 classes")  # a table of one column, each row a class
        expect(page.get_by_role("button", name="Start training")).to_be_disabled()
        page.get_by_label("Kind of data").select_option("images")
        expect(page.get_by_role("alert")).to_be_visible()  # a file is no folder; and the way back is there
        page.get_by_label("Kind of data").select_option("text")
        expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_text("More choices").click()
        page.get_by_label("tokens", exact=True).select_option("bytes")
        expect(page.get_by_text(re.compile(r"\(bytes\)"))).to_be_visible()
        page.get_by_label("steps", exact=True).fill("3")
        page.get_by_label("size", exact=True).select_option("tiny")
        page.get_by_label("Name of the run").fill("as-text")
        visitor.check(page)
        page.get_by_role("button", name="Start training").click()
        expect(page.get_by_text("finished", exact=True)).to_be_visible(timeout=4 * PATIENCE)
        assert open_run(folder / "runs" / "as-text").kind == "text"
        assert open_run(folder / "runs" / "as-text").data.tokens == "bytes"
    finally:
        lab.end()


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory, pellucid_program: Path) -> Iterator[LabProcess]:
    """One lab with two small runs of words, one of a vit and one of a table, for journeys that change nothing."""
    folder, before = tmp_path_factory.mktemp("studied"), Path.cwd()
    (folder / "words.txt").write_text("\n".join(NAMES))
    Image.new("L", (8, 8), 200).save(folder / "bright.png")
    os.chdir(folder)
    try:
        for name, steps in (("one", 40), ("two", 5)):
            pellucid.train("words.txt", name=name, model="transformer", size="tiny", steps=steps, threads=1)
        pellucid.train("digits", name="seer", model="vit", size="tiny", steps=2, threads=1)
        pellucid.train("penguins", name="rows", target="species", model="mlp", size="tiny", steps=2, threads=1)
    finally:
        os.chdir(before)
    lab = LabProcess(folder, pellucid_program)
    yield lab
    lab.end()


def test_mistakes_and_calibration_of_a_list_are_the_commands_numbers(visitor: LabVisitor, studied: LabProcess):
    seen = measure_token_mistakes(open_run(studied.folder / "runs" / "one"))
    page = visitor.open(studied)
    visitor.go(page, "run/one/mistakes")
    expect(page.get_by_role("heading", name="What surprised it most")).to_be_visible()
    for line in token_mistake_lines(seen):
        expect(page.get_by_text(line)).to_be_visible()
    worst = page.locator("#panel ol > li").first
    expect(worst).to_contain_text(f"{seen.parts[0].nats:.4f} nats a token")
    for place, token in zip(worst.locator(".letter").all(), seen.parts[0].tokens, strict=True):
        likeliest = "✓" if token.likeliest == token.token else token.likeliest
        assert place.inner_text().split() == [token.token, f"{token.nats:.2f}", likeliest]
    first = page.get_by_role("region", name="Most often confused").get_by_role("row").nth(1)
    told = seen.confusions[0]
    assert first.inner_text().split() == [told.truth, told.likeliest, str(told.n), str(told.of)]
    picture = page.get_by_role("img", name="calibration of the likeliest token")
    expect(picture).to_be_visible()
    drawn = page.evaluate("() => fetch('/api/runs/one/mistakes').then((answer) => answer.json())")["svg"]
    assert f"{100 * seen.calibration.error:.2f} points apart" in " ".join(re.sub("<[^>]*>", " ", drawn).split())
    for viewport, scheme in ((DESK, "light"), (PHONE, "dark")):
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        visitor.check(page)


def test_two_runs_are_surprised_side_by_side(visitor: LabVisitor, studied: LabProcess):
    page = visitor.open(studied)
    visitor.go(page, "speak/one")
    page.get_by_label("Any text").fill("annas")
    page.get_by_label("Beside it").select_option("two")
    for name in ("one", "two"):
        scored = Speaker(studied.folder / "runs" / name).score("annas")
        said = f"{name}: {scored.nats / len(scored.surprises):.4f} nats a token, {scored.nats:.2f} in all"
        expect(page.get_by_text(said)).to_be_visible()
    expect(page.locator(".letter")).to_have_count(2 * len("annas·"))
    second = page.locator(".surprise").nth(1).locator(".letter").first
    second.click()
    expect(page.get_by_text(re.compile(f"“a” after .*: {scored.surprises[0].nats:.3f} nats"))).to_be_visible()
    visitor.check(page)


def test_a_curve_is_looked_at_closely_and_whole_again(visitor: LabVisitor, studied: LabProcess):
    """What stands at the left end of the curve tells what of it is shown."""
    page = visitor.open(studied)
    visitor.go(page, "run/one")
    expect(page.get_by_role("heading", name="The ladder")).to_be_visible()
    page.wait_for_function("() => [...document.images].every((one) => one.complete)")  # late ones move what is below
    curve = page.get_by_role("img", name="Learning rate over steps")
    curve.scroll_into_view_if_needed()
    over = curve.locator(".u-over")
    expect(over).to_be_visible()

    def step_at(share: float) -> int:
        box = over.bounding_box()
        assert box
        page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        shown = curve.locator(".u-value").first
        expect(shown).to_have_text(re.compile(r"^\d+$"))
        return int(shown.inner_text())

    log = (studied.folder / "runs" / "one" / "metrics.jsonl").read_text().splitlines()
    last = json.loads(log[-1])["step"]  # it ends where dev no longer falls
    assert (step_at(0.005), step_at(0.995)) == (1, last)
    step_at(0.5)
    page.mouse.down()
    step_at(0.75)
    page.mouse.up()
    assert step_at(0.005) == pytest.approx(1 + 0.5 * (last - 1), abs=1)
    assert step_at(0.995) == pytest.approx(1 + 0.75 * (last - 1), abs=1)
    box = over.bounding_box()
    assert box
    page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert (step_at(0.005), step_at(0.995)) == (1, last)


def test_mistakes_fit_a_phone_and_can_be_read_in_the_dark(visitor: LabVisitor, studied: LabProcess):
    """A long table keeps what is unseen in it to itself; letters on the hottest ground keep their contrast."""
    page = visitor.open(studied, PHONE, "dark")
    visitor.go(page, "run/rows/mistakes")
    expect(page.get_by_role("heading", name="Answers, one by one")).to_be_visible()
    visitor.check(page)
    visitor.go(page, "run/one/mistakes")
    expect(page.get_by_role("heading", name="What surprised it most")).to_be_visible()
    visitor.check(page)


def test_one_stop_of_the_tab_key_leads_to_all_numbers_of_a_layer(visitor: LabVisitor, studied: LabProcess):
    """Arrow keys move within; the chosen one can be read under the mouse; blocks stand below their network."""
    page = visitor.open(studied, scheme="dark")
    visitor.go(page, "run/one/numbers")
    grid = page.get_by_role("region", name="Numbers, with arrow keys")
    expect(grid.locator("button[tabindex='0']")).to_have_count(1)
    grid.locator("button[tabindex='0']").focus()
    for key in ("ArrowLeft", "ArrowRight", "ArrowDown", "ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    chosen = grid.get_by_role("button", name=re.compile("^row 0, unit 2:"))
    expect(chosen).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="One unit")).to_be_visible()
    chosen.hover()
    expect(chosen).to_have_attribute("aria-pressed", "true")
    visitor.check(page)
    block = page.get_by_role("region", name="Modules").get_by_role("button", name=re.compile(r"^blocks\.0 "))
    inside = page.get_by_role("region", name="Modules").get_by_role("button", name=re.compile("^attention ")).first
    indents = [one.evaluate("one => parseFloat(getComputedStyle(one).paddingLeft)") for one in (block, inside)]
    assert indents[0] < indents[1]
    page.keyboard.press("Tab")
    expect(grid.get_by_role("button", name=re.compile("^row"))).not_to_have_count(0)
    assert page.evaluate("!document.activeElement.closest('.numbers button')")


def test_a_dropped_image_is_what_a_vit_looks_at(visitor: LabVisitor, studied: LabProcess):
    page = visitor.open(studied)
    visitor.go(page, "run/seer/inside")
    picture = page.get_by_role("img", name="attention of the patches")
    read = "(one) => fetch(one.src).then((answer) => answer.text())"
    expect(picture).to_be_visible()
    assert "the first image of digits" in page.evaluate(read, picture.element_handle())
    place = page.locator(".drop")
    place.scroll_into_view_if_needed()
    box = place.bounding_box()
    assert box
    at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + 20}
    data = {"items": [], "files": [str(studied.folder / "bright.png")], "dragOperationsMask": 1}
    browser = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        browser.send("Input.dispatchDragEvent", {"type": kind, **at, "data": data})
    expect(picture).to_have_attribute("src", re.compile("input=dropped"))
    page.wait_for_function("(one) => one.complete && one.naturalWidth > 0", arg=picture.element_handle())
    drawn = page.evaluate(read, picture.element_handle())
    assert "bright.png" in drawn
    assert "the first image of digits" not in drawn
    visitor.check(page)


def test_latex_is_copied_and_a_claim_is_run_to_its_end(visitor: LabVisitor, studied: LabProcess):
    page = visitor.open(studied)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    visitor.go(page, "derive")
    page.get_by_label("Expression").fill("x^2*y")
    for name, value in (("x", "3"), ("y", "2")):
        page.get_by_label(name, exact=True).fill(value)
    expect(page.get_by_test_id("value")).to_have_text("18")
    page.get_by_text("LaTeX", exact=True).click()
    page.get_by_role("button", name="Copy", exact=True).click()
    expect(page.get_by_text("Copied.")).to_be_visible()
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied == derivation_latex(derive("x^2*y", {"x": 3.0, "y": 2.0}).record)

    visitor.go(page, "claims")
    page.get_by_label("Search", exact=True).fill("dice-expected-49-24")
    page.locator(".card").first.click()
    page.get_by_role("button", name="Run it here").click()
    expect(page.get_by_text(re.compile("^Run here in .*: the same verdict as the stored one"))).to_be_visible()
    expect(page.get_by_role("button", name="Run it here")).to_be_enabled()
    expect(page.get_by_role("region", name="Numbers").get_by_text("2.04167").first).to_be_visible()
    visitor.check(page)


@pytest.fixture(scope="module")
def scripted(tmp_path_factory: pytest.TempPathFactory, pellucid_program: Path) -> Iterator[LabProcess]:
    """A lab with a run of a list whose items are script, and beside it a folder whose name is."""
    folder = tmp_path_factory.mktemp("scripted")
    (folder / "items.txt").write_text("\n".join(f"{EVIL}{number}" for number in range(60)))
    runs = folder / "runs"
    asked: dict[str, Any] = {"kind": "list", "tokens": "bpe", "model": "transformer", "size": "tiny", "steps": 2}
    pellucid.train(folder / "items.txt", name="evil", runs=runs, threads=1, **asked)
    shutil.copytree(runs / "evil", runs / EVIL)
    lab = LabProcess(folder, pellucid_program)
    yield lab
    lab.end()


def test_items_samples_and_names_that_are_script_stay_text(visitor: LabVisitor, scripted: LabProcess):
    """Home, every tab of the run, Speak; the policy would stop a script, so what counts is that no element is made."""
    page = visitor.open(scripted)
    page.on("dialog", lambda dialog: (visitor.wrongs.append(f"dialog {dialog.message}"), dialog.dismiss()))

    def check() -> None:
        visitor.check(page)
        for frame in page.frames:
            assert frame.locator("[onerror], img[src=x]").count() == 0, (page.url, frame.url)

    expect(page.get_by_role("link", name=re.compile("^evil"))).to_be_visible()
    home = page.evaluate("() => fetch('/api/home').then((answer) => answer.json())")
    assert [card["name"] for card in home["runs"]] == ["evil"]  # no run is called like the other folder
    check()
    visitor.go(page, f"run/{quote(EVIL, safe='')}")
    expect(page.get_by_text(EVIL).first).to_be_visible()
    check()
    for tab in ("learning", "inside", "mistakes", "numbers", "doctor", "report", "export"):
        visitor.go(page, f"run/evil/{tab}")
        expect(page.locator("#panel > *").first).to_be_visible()
        page.wait_for_function("() => [...document.images].every((one) => one.complete)")
        if tab in ("learning", "report"):  # samples are on both
            place = page.locator("#panel") if tab == "learning" else page.frame_locator("iframe").locator("body")
            expect(place.get_by_text(EVIL).first).to_be_visible()
        check()

    visitor.go(page, "speak/evil")
    page.get_by_label("Beginning").fill(EVIL)
    expect(page.get_by_test_id("decoded")).to_have_text(re.compile(f"^{re.escape(EVIL)}"))
    page.get_by_label("Beam width").fill("3")
    expect(page.locator(".badge").filter(has_text=EVIL).first).to_be_visible()
    expect(page.locator(".sample .text").filter(has_text=EVIL).first).to_be_visible()
    page.locator(".sample summary").first.click()
    expect(page.locator(".chip").filter(has_text=EVIL).first).to_be_visible()
    check()
    page.get_by_label("Beginning").fill("")
    first = page.get_by_role("button", name=re.compile("^place 1: <"))
    expect(first.first).to_be_visible()
    page.get_by_label("Any text").fill(f"{EVIL}7")
    expect(page.locator(".letter").last).to_be_visible()
    assert "".join(page.locator(".letter").all_inner_texts()).replace("␣", " ").rstrip("·").strip() == f"{EVIL}7"
    page.locator(".letter").last.click()
    expect(page.get_by_role("status").filter(has_text="onerror")).to_be_visible()
    check()
