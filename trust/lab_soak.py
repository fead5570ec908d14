"""The lab asked a million times, of everything that it has: `python -m trust.lab_soak`.

The lab is a process with two runs, one that stopped and one that was trained to its end. Several visitors ask for
pages, runs, trees, samples, surprises, derivations, x-rays, figures and files, drop files, follow a run and leave, and
send what is wrong. The first fifth of the requests warms up what is loaded once and kept. From then on memory may grow
by less than 1 MB in 100,000 requests, by a line through all measurements; threads and open files must stay as many as
they were; and no answer may be 500 or above.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trust.lab_slow import LabProcess
from trust.tiny_runs import made

from pellucid import train

VISITORS = 4
MOST_GROWTH = 1.0  # MB in 100,000 requests
RUN, TRAINED = "small", "trained"  # one that stopped, whose followers wait for news; one whose page is whole
Question = tuple[str, str, bytes | None]


def make_runs(folder: Path) -> None:
    """The folder that the lab is started in: a list, and two runs on it."""
    made(folder, RUN)
    train(folder / "own.txt", name=TRAINED, runs=folder / "runs", model="transformer", size="tiny", steps=5, threads=1)


def choose_question(rng: random.Random) -> Question:
    """One of the things that pages ask, with values that change."""
    temperature = rng.randrange(1, 40) / 20
    text = "".join(rng.choice("aeilmno") for _ in range(rng.randrange(1, 9)))
    posted = {
        "/api/derive": {"expression": "tanh(x*w + b)^2 / y", "values": {"x": temperature, "w": 2, "b": 0.5, "y": 3}},
        "/api/speak/tree": {"run": RUN, "prompt": text[:3], "temperature": temperature, "beam": rng.choice([0, 0, 3])},
        "/api/speak/surprise": {"runs": [RUN], "text": text},
        "/api/speak/nothing": {"run": text},
        "/api/speak/samples": {"run": RUN, "prompt": text[:2], "seed": rng.randrange(1000), "count": 2},
        "/api/xray": {"model": f"nn.Sequential(nn.Linear(8, {rng.randrange(1, 99)}), nn.ReLU())"},
        "/api/train/preview": {"where": "folder", "name": "own.txt"},
    }
    got = (
        *(
            "/",
            "/static/app.js",
            "/static/vendor/uplot.js",
            "/api/home",
            f"/api/runs/{TRAINED}",
            "/%00",
            "/api/runs/..%2f..",
        ),
        *(f"/api/runs/{TRAINED}/files/run.json", f"/api/runs/{text}", f"/api/runs/{RUN}/events", "/api/lessons"),
        *(
            f"/api/runs/{RUN}/modules?text={text}",
            f"/api/runs/{RUN}/figures/attention-maps?input={text}",
            "/api/claims",
        ),
    )
    # What takes long is rare, so that a million requests take hours and not days.
    chance, is_long = rng.random(), rng.random() < 0.03
    if chance < 0.005:
        return "POST", f"/api/upload?name={text}.txt", text.encode() * 20
    if chance < 0.3:
        path = rng.choice(list(posted)[4:] if is_long else list(posted)[:4])
        return "POST", path, json.dumps(posted[path]).encode()
    return "GET", rng.choice(got[9:] if is_long else got[:9]), None


class Soaker(threading.Thread):
    """One visitor, who keeps the connection as browsers do."""

    def __init__(self, lab: LabProcess, seed: int, n: int) -> None:
        super().__init__(daemon=True)
        self.lab, self.rng, self.n = lab, random.Random(seed), n
        self.by_status: Counter[int] = Counter()
        self.wrong: list[str] = []

    def run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.lab.port, timeout=120)
        for _ in range(self.n):
            method, path, body = choose_question(self.rng)
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


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_runs(folder)
        lab = LabProcess(folder)
        began = time.monotonic()
        soakers = [Soaker(lab, asked.seed * 1000 + one, asked.requests // VISITORS) for one in range(VISITORS)]
        for soaker in soakers:
            soaker.start()
        seen: list[tuple[int, float, int, int]] = []
        n_told = 0
        while any(soaker.is_alive() for soaker in soakers):
            seen.append((sum(soaker.by_status.total() for soaker in soakers), *lab.sizes()))
            if seen[-1][0] >= asked.requests * n_told / 10:
                n_told += 1
                print("after {:9,}: {:6.1f} MB, {} threads, {} open files".format(*seen[-1]), flush=True)
            time.sleep(1)
        seconds = time.monotonic() - began
        time.sleep(1)
        at_end = lab.sizes()
        code = lab.end()
    warm = [one for one in seen if one[0] >= asked.requests / 5] or seen[-2:]
    growth = 1e5 * slope_of([(n, megabytes) for n, megabytes, _, _ in warm])
    statuses = sum((soaker.by_status for soaker in soakers), Counter())
    wrong = [problem for soaker in soakers for problem in soaker.wrong]
    n_threads, n_files = max(one[2] for one in warm), max(one[3] for one in warm)
    print(f"{statuses.total():,} requests in {seconds:.0f} s: {dict(sorted(statuses.items()))}")
    print(f"memory {growth:+.2f} MB in 100,000 requests after the first fifth; at the end {at_end[0]:.1f} MB")
    print(f"threads: {warm[0][2]} after the first fifth, at most {n_threads}")
    print(f"open files: {warm[0][3]} after the first fifth, at most {n_files}, at the end {at_end[2]}")
    for problem in wrong[:10]:
        print(f"    {problem}")
    is_flat = growth < MOST_GROWTH and n_threads <= warm[0][2] + 1 and at_end[2] <= warm[0][3]
    return int(bool(wrong) or not is_flat or code != 143)


if __name__ == "__main__":
    sys.exit(main())
