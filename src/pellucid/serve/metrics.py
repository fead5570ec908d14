"""What happened, as Prometheus reads it: counts, gauges and times, in its text format.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping

from starlette.types import ASGIApp, Message, Receive, Scope, Send

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class TimeHistogram:
    """How many of the times were at most so long.

    >>> times = TimeHistogram((0.1, 1.0))
    >>> for seconds in (0.05, 0.5, 0.7, 3):
    ...     times.add(seconds)
    >>> print("\\n".join(times.lines("wait_seconds")))
    wait_seconds_bucket{le="0.1"} 1
    wait_seconds_bucket{le="1.0"} 3
    wait_seconds_bucket{le="+Inf"} 4
    wait_seconds_sum 4.25
    wait_seconds_count 4
    """

    def __init__(self, bounds: tuple[float, ...] = SECONDS) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds

    def lines(self, name: str) -> list[str]:
        total, found = 0, []
        for bound, count in zip([*map(str, self.bounds), "+Inf"], self.counts, strict=True):
            total += count
            found.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*found, f"{name}_sum {self.sum:.6g}", f"{name}_count {total}"]


class Metrics:
    """Counts of one server. Requests are counted in the event loop, tokens in the thread that draws them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.answers: Counter[tuple[str, int]] = Counter()  # by path and status
        self.prompt_tokens = self.drawn_tokens = self.steps = self.given_up = self.predicted = 0
        self.request_seconds, self.first_token_seconds = TimeHistogram(), TimeHistogram()
        self.began = time.monotonic()

    def count_answer(self, path: str, status: int, seconds: float) -> None:
        with self._lock:
            self.answers[path, status] += 1
            self.request_seconds.add(seconds)

    def count_first_token(self, seconds: float) -> None:
        with self._lock:
            self.first_token_seconds.add(seconds)

    def count_prompt(self, n_tokens: int) -> None:
        with self._lock:
            self.prompt_tokens += n_tokens

    def count_predicted(self, n_examples: int) -> None:
        with self._lock:
            self.predicted += n_examples

    def count_step(self, n_tokens: int) -> None:
        with self._lock:
            self.steps += 1
            self.drawn_tokens += n_tokens

    def count_given_up(self) -> None:
        with self._lock:
            self.given_up += 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """All of it. gauges: name -> what it is, and its value now."""
        with self._lock:
            counted = sorted(self.answers.items())
            totals = {
                "prompt_tokens": ("Tokens of prompts that were read.", self.prompt_tokens),
                "completion_tokens": ("Tokens that were drawn.", self.drawn_tokens),
                "generation_steps": ("Steps, each of one token for everything that runs.", self.steps),
                "requests_given_up": ("Requests whose client left before the end.", self.given_up),
                "predictions": ("Examples that were predicted.", self.predicted),
            }
            times = {
                "request_seconds": ("Time from a request to the end of its answer.", self.request_seconds),
                "first_token_seconds": ("Time from a request to its first token.", self.first_token_seconds),
            }
            lines = _head("requests_total", "Answers by path and status.", "counter")
            lines += [
                f'pellucid_requests_total{{path="{path}",status="{status}"}} {n}' for (path, status), n in counted
            ]
            for name, (what, value) in totals.items():
                lines += [*_head(f"{name}_total", what, "counter"), f"pellucid_{name}_total {value}"]
            for name, (what, histogram) in times.items():
                lines += [*_head(name, what, "histogram"), *histogram.lines(f"pellucid_{name}")]
        uptime = ("Seconds since the start.", time.monotonic() - self.began)
        for name, (what, number) in {**gauges, "uptime_seconds": uptime}.items():
            lines += [*_head(name, what, "gauge"), f"pellucid_{name} {number:.10g}"]
        return "\n".join(lines) + "\n"


def _head(name: str, what: str, kind: str) -> list[str]:
    return [f"# HELP pellucid_{name} {what}", f"# TYPE pellucid_{name} {kind}"]


class CountedAnswers:
    """ASGI middleware that counts every answer, those of the door too. Paths that are not known count as one."""

    def __init__(self, app: ASGIApp, metrics: Metrics, is_known: Callable[[str], bool]) -> None:
        self.app, self.metrics, self.is_known = app, metrics, is_known

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.monotonic(), 0

        async def send_counted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_counted)
        finally:
            if scope["type"] == "http" and status:
                path = scope["path"] if self.is_known(scope["path"]) else "other"
                self.metrics.count_answer(path, status, time.monotonic() - began)
