"""What the lab costs: its start, its first page, a slider in Speak, and ten tabs that watch one training.

    python benchmarks/lab.py

Prints a table. Times of other processes on the machine are in the wall-clock figures; the share that watchers cost a
training is measured as CPU time of the training for the same steps, in turn with and without watchers.
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
        self.port = int(link[1])
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("GET", link[2])
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


def cpu_of_training(folder: Path, name: str, steps: int, lab: LabProcess | None) -> float:
    """Seconds of CPU that a training of so many steps takes, watched or not."""
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
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
            began = time.perf_counter()
            for path in FIRST_PAGE:
                lab.ask("GET", path)
            pages.append(time.perf_counter() - began)
            lab.end()
        lab = LabProcess(folder)
        slides = time_slider(lab, "medium", asked.slides)
        alone, watched = [], []
        for number in range(asked.rounds):
            alone.append(cpu_of_training(folder, f"alone-{number}", asked.steps, None))
            watched.append(cpu_of_training(folder, f"watched-{number}", asked.steps, lab))
        lab.end()
    share = statistics.median(watched) / statistics.median(alone) - 1
    print(f"{'start to link, median of ' + str(asked.rounds):<58}{statistics.median(starts):8.2f} s")
    print(f"{'first page and its data, median':<58}{statistics.median(pages):8.2f} s")
    slider = f"a slider in Speak, medium transformer, median of {asked.slides}"
    print(f"{slider:<58}{statistics.median(slides):8.1f} ms")
    print(f"{'CPU of a training with ' + str(WATCHERS) + ' watchers over one without':<58}{100 * share:+8.1f} %")


if __name__ == "__main__":
    main()
