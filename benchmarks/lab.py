"""What the lab costs: its start, its first page, a slider in Speak, and ten tabs that watch one training.

    python benchmarks/lab.py

Prints a table, with the least and the most beside each median. Times of other processes on the machine are in the
wall-clock figures. What watchers cost a training is measured twice, in turn with and without them: as CPU time of the
training for the same steps, and as the steps that it made in a second, in which the lab's own work counts too.
The first page is timed in Chromium where there is one: from the address to a run's card that can be clicked.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

WATCHERS = 10
CHROMIUM = Path("/usr/bin/chromium")
FIRST_PAGE = (
    *("/", "/static/app.js", "/static/lab.css", "/static/kit.js", "/static/pages/home.js"),
    *("/static/vendor/preact.js", "/static/vendor/hooks.js", "/static/vendor/signals.js", "/api/home"),
)


class LabProcess:
    """The lab as a process of its own, and the cookie that its link gives."""

    def __init__(self, folder: Path) -> None:
        began = time.perf_counter()
        words = [sys.executable, "-m", "pellucid", "lab", "--no-open"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8", cwd=folder)
        assert self.process.stdout
        link = re.search(r"http://127\.0\.0\.1:(\d+)(/\?token=\S+)", self.process.stdout.readline())
        assert link
        self.start_seconds = time.perf_counter() - began
        self.link = link[0]
        self.port = int(link[1])
        self._token = link[2]

    def enter(self) -> None:
        """Take the cookie that the link gives once."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", self._token)
        self.cookie = (connection.getresponse().getheader("set-cookie") or "").split(";")[0]
        connection.close()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        headers = {"cookie": self.cookie, "content-type": "application/json"}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        said = answer.read()
        connection.close()
        assert answer.status < 300, said
        return said

    def watch(self, run: str, is_over: threading.Event) -> int:
        """Read a run's events until told to stop; how many came."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        connection.request("GET", f"/api/runs/{run}/events", headers={"cookie": self.cookie})
        answer, n = connection.getresponse(), 0
        while not is_over.is_set() and answer.readline():
            n += 1
        connection.close()
        return n

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def time_slider(lab: LabProcess, run: str, n: int) -> list[float]:
    """Milliseconds of the decoding tree at one temperature after another, over HTTP."""
    lab.ask("POST", "/api/speak/tree", {"run": run, "prompt": "ma"})
    times = []
    for number in range(n):
        began = time.perf_counter()
        lab.ask("POST", "/api/speak/tree", {"run": run, "prompt": "ma", "temperature": 0.2 + number / n})
        times.append(1e3 * (time.perf_counter() - began))
    return times


def time_first_page(folder: Path, rounds: int) -> list[float]:
    """Seconds from the address to a card that can be clicked, in Chromium, each time of a lab that has just begun."""
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        for _ in range(rounds):
            lab, context = LabProcess(folder), browser.new_context()
            page = context.new_page()
            began = time.perf_counter()
            page.goto(lab.link, wait_until="commit")
            page.locator(".card").first.click(trial=True)
            times.append(time.perf_counter() - began)
            context.close()
            lab.end()
        browser.close()
    return times


def cost_of_training(folder: Path, name: str, steps: int, lab: LabProcess | None) -> tuple[float, float]:
    """Seconds of CPU that a training of so many steps takes, watched or not, and its steps in a second."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    words = ["train", "names", "--size", "small", "--steps", str(steps), "--name", name, "--threads", "1"]
    training = subprocess.Popen(
        [sys.executable, "-m", "pellucid", *words], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    is_over = threading.Event()
    watchers = []
    if lab is not None:
        while not (folder / "runs" / name / "run.json").exists() and training.poll() is None:
            time.sleep(0.1)
        watchers = [threading.Thread(target=lab.watch, args=(name, is_over), daemon=True) for _ in range(WATCHERS)]
        for watcher in watchers:
            watcher.start()
    training.wait()
    is_over.set()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    timed = [json.loads(line) for line in (folder / "runs" / name / "timings.jsonl").read_text().splitlines()]
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, timed[-1]["step"] / timed[-1]["seconds"]


def print_row(label: str, values: list[float], unit: str, digits: int) -> None:
    middle, low, high = (f"{one:.{digits}f}" for one in (statistics.median(values), min(values), max(values)))
    print(f"{label:<58}{middle:>8} {unit:<8}({low} to {high})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--slides", type=int, default=60)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        words = ["train", "names", "--size", "medium", "--steps", "20", "--name", "medium", "--threads", "1"]
        subprocess.run(
            [sys.executable, "-m", "pellucid", *words], cwd=folder, check=True, capture_output=True, env=environment
        )
        starts, pages = [], []
        for _ in range(asked.rounds):
            lab = LabProcess(folder)
            starts.append(lab.start_seconds)
            lab.enter()
            began = time.perf_counter()
            for path in FIRST_PAGE:
                lab.ask("GET", path)
            pages.append(time.perf_counter() - began)
            lab.end()
        seen = time_first_page(folder, asked.rounds) if CHROMIUM.exists() else []
        lab = LabProcess(folder)
        lab.enter()
        slides = time_slider(lab, "medium", asked.slides)
        alone, watched = [], []
        for number in range(asked.rounds):
            alone.append(cost_of_training(folder, f"alone-{number}", asked.steps, None))
            watched.append(cost_of_training(folder, f"watched-{number}", asked.steps, lab))
        lab.end()
    print_row(f"start to link, of {asked.rounds}", starts, "s", 2)
    print_row("first page and its data", pages, "s", 2)
    if seen:
        print_row("first page in Chromium, until a card can be clicked", seen, "s", 2)
    print_row(f"a slider in Speak, medium transformer, of {asked.slides}", slides, "ms", 1)
    cpu = [100 * (after[0] / before[0] - 1) for before, after in zip(alone, watched, strict=True)]
    speed = [100 * (1 - after[1] / before[1]) for before, after in zip(alone, watched, strict=True)]
    print_row(f"CPU of a training with {WATCHERS} watchers over one without", cpu, "%", 1)
    print_row(f"steps a second lost to {WATCHERS} watchers", speed, "%", 1)


if __name__ == "__main__":
    main()
