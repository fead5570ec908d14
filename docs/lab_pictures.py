"""Pictures of the lab in a real browser: those of docs/lab.md, or every page in every width and both colours.

    python docs/lab_pictures.py                  # docs/pictures/lab-*.png
    python docs/lab_pictures.py --every out/lab  # every page at 400, 1,280 and 2,560 pixels, light and dark

The runs that they show are trained first, in four small trainings; --folder keeps them for the next time.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw
from playwright.sync_api import Browser, Page, sync_playwright

PICTURES = Path(__file__).parent / "pictures"
CHROMIUM = "/usr/bin/chromium"
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run")
WIDTHS, SCHEMES = (400, 1280, 2560), ("light", "dark")
PATIENCE = 300_000  # milliseconds
TRAININGS = {
    "names-small": ("names", "--size", "tiny", "--steps", "200"),
    "plants": ("plants.csv", "--target", "kind", "--steps", "100"),
    "shapes-vit": ("shapes", "--model", "vit", "--size", "tiny", "--steps", "60"),
    "names-mlp": ("names", "--model", "mlp", "--size", "tiny", "--steps", "100"),
}


class Shot(NamedTuple):
    """A page, what is done there, and what is waited for."""

    name: str
    place: str
    ready: str  # a CSS selector of something that is there when the page is
    acts: tuple[tuple[str, str], ...] = ()  # labels of fields, and what is filled in


RUN_TABS = ("learning", "inside", "mistakes", "numbers", "doctor", "report", "export")
SPEAK = (("Beginning", "ma"), ("Temperature", "0.8"), ("Any text", "emma"))
SHOTS = (
    Shot("home", "", ".cards .card"),
    Shot("train", "train", ".cards .card"),
    Shot("train-list", "train/comes/names", "main li"),
    Shot("train-table", "train/folder/plants.csv", "main li"),
    Shot("train-images", "train/folder/shapes", "main li"),
    *(
        Shot(f"{run}-{tab}", f"run/{run}/{tab}", "#panel > *")
        for run in TRAININGS
        if run != "names-mlp"
        for tab in RUN_TABS
    ),
    Shot("speak", "speak/names-small", ".branch", (*SPEAK, ("Beside it", "names-mlp"))),
    Shot("beam", "speak/names-small", ".branch", (("Beginning", "ma"), ("Beam width", "3"))),
    Shot("derive", "derive", ".graph svg"),
    Shot("xray", "xray", ".layer"),
    Shot("lessons", "lessons", ".card"),
    *(Shot(f"lesson-{one}", f"lessons/{one}", ".picture img") for one in ("saturation", "road")),
    Shot("claims", "claims", "li .card"),
    Shot("claim", "claims/scaled-dot-product-variance-one", ".head h1"),
    Shot("nowhere", "run/nothing", "main .notice"),
)
IN_DOCS = {
    "lab-home": ("home", "light"),
    "lab-speak": ("speak", "light"),
    "lab-run": ("names-small-learning", "light"),
    "lab-derive": ("derive", "dark"),
    "lab-xray": ("xray", "light"),
}


def make_data(folder: Path) -> None:
    """A table of plants and a folder of shapes, the same every time."""
    rng = random.Random(1)
    heights = {"fern": 40, "moss": 4, "oak": 400}
    rows = ["height,leaves,soil,kind"]
    for _ in range(300):
        kind = rng.choice(sorted(heights))
        leaves = rng.randint(1, 9) + 3 * (kind == "oak")
        rows.append(f"{rng.gauss(heights[kind], heights[kind] / 2):.1f},{leaves},{rng.choice(['clay', 'sand'])},{kind}")
    (folder / "plants.csv").write_text("\n".join(rows))
    for shape in ("circle", "cross", "square"):
        (folder / "shapes" / shape).mkdir(parents=True, exist_ok=True)
        for number in range(40):
            image = Image.new("L", (16, 16), 20)
            draw = ImageDraw.Draw(image)
            x, y, size = rng.randint(1, 5), rng.randint(1, 5), rng.randint(6, 9)
            if shape == "circle":
                draw.ellipse((x, y, x + size, y + size), fill=230)
            elif shape == "square":
                draw.rectangle((x, y, x + size, y + size), fill=230)
            else:
                draw.line((x, y, x + size, y + size), fill=230, width=2)
                draw.line((x + size, y, x, y + size), fill=230, width=2)
            image.save(folder / "shapes" / shape / f"{number}.png")


def train_runs(folder: Path) -> None:
    """The runs that are shown; one that is there is not trained again."""
    for name, words in TRAININGS.items():
        if not (folder / "runs" / name / "finished.json").exists():
            command = [sys.executable, "-m", "pellucid", "train", *words, "--name", name, "--threads", "1"]
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


@contextmanager
def open_lab(folder: Path) -> Iterator[str]:
    """The lab as a process; the link that it printed."""
    words = [sys.executable, "-m", "pellucid", "lab", "--no-open"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8", cwd=folder) as process:
        assert process.stdout
        link = re.search(r"http://\S+", process.stdout.readline())
        assert link
        try:
            yield link[0]
        finally:
            process.terminate()


def open_pages(browser: Browser, link: str) -> dict[str, Page]:
    """A page in each colour scheme; the second comes in by the first one's cookie, for the link works once."""
    first = browser.new_context(color_scheme="light", reduced_motion="reduce")
    page = first.new_page()
    page.goto(link)
    state = first.storage_state()
    dark = browser.new_context(color_scheme="dark", reduced_motion="reduce", storage_state=state).new_page()
    dark.goto(link.split("?")[0])
    for one in (page, dark):
        one.set_default_timeout(PATIENCE)
        one.add_init_script(COUNT_QUESTIONS)
        one.reload()
    return {"light": page, "dark": dark}


def show(page: Page, base: str, shot: Shot) -> None:
    """Go there, do what is done there, and wait until nothing is under way."""
    page.goto(f"{base}/#/nowhere")
    page.goto(f"{base}/#/{shot.place}")
    page.wait_for_selector(shot.ready)
    for label, value in shot.acts:
        field = page.get_by_label(label, exact=True)
        if field.evaluate("one => one.tagName") == "SELECT":
            field.select_option(value)
        else:
            field.fill(value)
    wait_for_answers(page)
    page.mouse.move(0, 0)


# What the page asks for, beside what it follows and what it looks at again every few seconds.
COUNT_QUESTIONS = """
    window.asked = 0;
    const ask = window.fetch;
    window.fetch = (...words) => {
        window.asked += 1;
        return ask(...words).finally(() => { window.asked -= 1; });
    };
"""
IS_STILL = """() => new Promise((tell) => {
    const look = (times) => {
        const isStill = !window.asked && [...document.images].every((one) => one.complete);
        if (isStill && times >= 8) tell(true);
        else setTimeout(() => look(isStill ? times + 1 : 0), 100);
    };
    look(0);
})"""


def wait_for_answers(page: Page) -> None:
    """Until every question has been answered for a while, and every picture is there."""
    page.evaluate(IS_STILL)


def take(page: Page, width: int, path: Path, *, is_whole: bool) -> None:
    page.set_viewport_size({"width": width, "height": 800 if width == 400 else 1440 if width == 2560 else 900})
    wait_for_answers(page)
    page.evaluate("scrollTo(0, 0)")  # where the bar at the top belongs
    page.screenshot(path=path, full_page=is_whole)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--every", type=Path, help="a folder for every page in every width and both colours")
    parser.add_argument("--only", default="", help="a part of the names of the pages that are wanted")
    parser.add_argument("--folder", type=Path, help="where runs are trained, or were")
    asked = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as temporary:
        folder = (asked.folder or Path(temporary)).resolve()
        make_data(folder)
        train_runs(folder)
        with open_lab(folder) as link, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
            pages, base = open_pages(browser, link), link.split("/?")[0]
            for shot in SHOTS:
                if asked.only not in shot.name:
                    continue
                for scheme, page in pages.items():
                    names = [name for name, wanted in IN_DOCS.items() if wanted == (shot.name, scheme)]
                    if not asked.every and not names:
                        continue
                    page.set_viewport_size({"width": 1280, "height": 900})
                    show(page, base, shot)
                    if not asked.every:
                        for name in names:
                            take(page, 1280, PICTURES / f"{name}.png", is_whole=False)
                        continue
                    asked.every.mkdir(parents=True, exist_ok=True)
                    for width in WIDTHS:
                        take(page, width, asked.every / f"{shot.name}-{width}-{scheme}.png", is_whole=True)
            browser.close()


if __name__ == "__main__":
    main()
