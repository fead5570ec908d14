"""The lab asked a million times, of everything that it has: `python -m trust.lab_soak`.

The lab is a process with two runs, one that stopped and one that was trained to its end. Four visitors ask for pages,
runs, trees, samples, surprises, derivations, x-rays, figures and files, drop files, follow a run and leave, and send
what is wrong. Each begins with one of every kind; from then on `MIX` says how often each kind comes. What takes the lab
long is rare, or a million would take days: of 1,000 requests 955 are for files, for the page's shell, or are refused,
45 are computed, and the rarest kinds come once.

The first fifth of the requests warms up what is loaded once and kept. From then on memory may grow by less than 1 MB in
100,000 requests, by a line through all measurements, one each second; threads and open files must be as many on average
in the last fifth as in the second, to within one; and no answer may be 500 or above.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from trust.lab_slow import LabProcess
from trust.tiny_runs import made

from pellucid import train

VISITORS = 4
MOST_GROWTH = 1.0  # MB in 100,000 requests
RUN, TRAINED = "small", "trained"  # one that stopped, whose followers wait for news; one whose page is whole
Question = tuple[str, str, bytes | None]


def some_text(rng: random.Random, most: int = 8) -> str:
    return "".join(rng.choice("aeilmno") for _ in range(rng.randrange(1, most + 1)))


def post(path: str, body: object) -> Question:
    return "POST", path, json.dumps(body).encode()


def get(path: str) -> Question:
    return "GET", path, None


def ask_tree(rng: random.Random) -> Question:
    asked = {"prompt": some_text(rng, 3), "temperature": rng.randrange(1, 40) / 20, "beam": rng.choice([0, 0, 3])}
    return post("/api/speak/tree", {"run": RUN, **asked})


def ask_derivation(rng: random.Random) -> Question:
    values = {"x": rng.randrange(1, 40) / 20, "w": 2, "b": 0.5, "y": 3}
    return post("/api/derive", {"expression": "tanh(x*w + b)^2 / y", "values": values})


def ask_samples(rng: random.Random) -> Question:
    asked = {"prompt": some_text(rng, 2), "seed": rng.randrange(1000), "count": 2}
    return post("/api/speak/samples", {"run": RUN, **asked})


def ask_xray(rng: random.Random) -> Question:
    return post("/api/xray", {"model": f"nn.Sequential(nn.Linear(8, {rng.randrange(1, 99)}), nn.ReLU())"})


# How many of 1,000 requests are of each kind, and one of it, with values that change.
MIX: dict[str, tuple[int, Callable[[random.Random], Question]]] = {
    "shell": (205, lambda rng: get("/")),
    "script": (180, lambda rng: get("/static/app.js")),
    "large script": (130, lambda rng: get("/static/vendor/uplot.js")),
    "file": (140, lambda rng: get(f"/api/runs/{TRAINED}/files/run.json")),
    "no path": (75, lambda rng: get("/%00")),
    "path that leads out": (75, lambda rng: get("/api/runs/..%2f..")),
    "run that is not there": (75, lambda rng: get(f"/api/runs/{some_text(rng)}")),
    "question that is not there": (75, lambda rng: post("/api/speak/nothing", {"run": some_text(rng)})),
    "home": (10, lambda rng: get("/api/home")),
    "derivation": (10, ask_derivation),
    "tree": (2, ask_tree),
    "surprise": (6, lambda rng: post("/api/speak/surprise", {"runs": [RUN], "text": some_text(rng)})),
    "run": (2, lambda rng: get(f"/api/runs/{TRAINED}")),
    "modules": (2, lambda rng: get(f"/api/runs/{RUN}/modules?text={some_text(rng)}")),
    "samples": (2, ask_samples),
    "x-ray": (2, ask_xray),
    "preview": (2, lambda rng: post("/api/train/preview", {"where": "folder", "name": "own.txt"})),
    "lessons": (2, lambda rng: get("/api/lessons")),
    "figure": (2, lambda rng: get(f"/api/runs/{RUN}/figures/attention-maps?input={some_text(rng)}")),
    "claims": (1, lambda rng: get("/api/claims")),
    "follow": (1, lambda rng: get(f"/api/runs/{RUN}/events")),
    "drop": (1, lambda rng: ("POST", f"/api/upload?name={some_text(rng)}.txt", some_text(rng).encode() * 20)),
}


def make_runs(folder: Path) -> None:
    """The folder that the lab is started in: a list, and two runs on it."""
    made(folder, RUN)
    train(folder / "own.txt", name=TRAINED, runs=folder / "runs", model="transformer", size="tiny", steps=5, threads=1)


class Soaker(threading.Thread):
    """One visitor, who keeps the connection as browsers do. until: the time of the clock after which none is asked."""

    def __init__(self, lab: LabProcess, seed: int, n: int, until: float = float("inf")) -> None:
        super().__init__(daemon=True)
        self.lab, self.rng, self.n, self.until = lab, random.Random(seed), n, until
        self.by_status: Counter[int] = Counter()
        self.by_kind: Counter[str] = Counter()
        self.wrong: list[str] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.lab.port, timeout=120)
        names, shares = list(MIX), [share for share, _ in MIX.values()]
        for name in [*names, *self.rng.choices(names, shares, k=max(0, self.n - len(names)))][: self.n]:
            if time.monotonic() > self.until:
                break
            method, path, body = MIX[name][1](self.rng)
            self.by_kind[name] += 1
            kind = "application/octet-stream" if path.startswith("/api/upload") else "application/json"
            headers = {"cookie": self.lab.cookie, **({"content-type": kind} if body is not None else {})}
            try:
                connection.request(method, path, body, headers)
                answer = connection.getresponse()
                if path.endswith("/events"):
                    answer.readline()
                    connection.close()  # and leaves
                else:
                    answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()  # it was idle for too long
                self.by_status[0] += 1
                continue
            self.by_status[answer.status] += 1
            if answer.status >= 500:
                self.wrong.append(f"{answer.status} {method} {path}")
        connection.close()


def slope_of(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the line with the least squares.

    >>> slope_of([(0, 1), (1, 3), (2, 5)])
    2.0
    """
    mean_x, mean_y = (sum(values) / len(points) for values in zip(*points, strict=True))
    rise = sum([(x - mean_x) * (y - mean_y) for x, y in points])
    return float(rise / sum([(x - mean_x) ** 2 for x, _ in points]))


def growth_between(seen: Sequence[int]) -> float:
    """How much more there is on average in the last quarter than in the first: of four fifths, each is a fifth.

    >>> growth_between([5, 6, 5, 5, 5, 6, 6, 7])
    1.0
    """
    part = max(1, len(seen) // 4)
    return statistics.fmean(seen[-part:]) - statistics.fmean(seen[:part])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="end after so long, however many there were"
    )
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_runs(folder)
        lab = LabProcess(folder)
        began = time.monotonic()
        n_each, until = asked.requests // VISITORS, began + 60 * asked.minutes
        soakers = [Soaker(lab, asked.seed * 1000 + one, n_each, until) for one in range(VISITORS)]
        for soaker in soakers:
            soaker.start()
        seen: list[tuple[int, float, int, int]] = []
        n_told = 0
        while any(soaker.is_alive() for soaker in soakers):
            seen.append((sum(soaker.by_status.total() for soaker in soakers), *lab.sizes()))
            if seen[-1][0] >= asked.requests * n_told / 20:
                n_told += 1
                print("after {:9,}: {:6.1f} MB, {} threads, {} open files".format(*seen[-1]), flush=True)
            time.sleep(1)
        seconds = time.monotonic() - began
        time.sleep(1)
        at_end = lab.sizes()
        code = lab.end()
    statuses = sum((soaker.by_status for soaker in soakers), Counter())
    kinds = sum((soaker.by_kind for soaker in soakers), Counter())
    wrong = [problem for soaker in soakers for problem in soaker.wrong]
    warm = [one for one in seen if one[0] >= statuses.total() / 5] or seen[-2:]
    growth = 1e5 * slope_of([(n, megabytes) for n, megabytes, _, _ in warm])
    print(f"{statuses.total():,} requests in {seconds:.0f} s: {dict(sorted(statuses.items()))}")
    print(", ".join(f"{name} {n:,}" for name, n in kinds.items()))
    print(f"memory {growth:+.2f} MB in 100,000 requests after the first fifth; at the end {at_end[0]:.1f} MB")
    is_flat = growth < MOST_GROWTH
    for word, at in (("threads", 2), ("open files", 3)):
        counts = [int(one[at]) for one in warm]
        more = growth_between(counts)
        is_flat &= more < 1
        print(f"{word}: {min(counts)} to {max(counts)}, on average {more:+.2f}; at the end {at_end[at - 1]:.0f}")
    for problem in wrong[:10]:
        print(f"    {problem}")
    return int(bool(wrong) or not is_flat or code != 143)


if __name__ == "__main__":
    sys.exit(main())
