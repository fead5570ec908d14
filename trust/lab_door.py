"""The lab's door under attack: malformed and hostile requests without end, and a thousand half-open connections.

    python trust/lab_door.py --requests 100000 --half-open 1000

Every answer must be one that we meant: no 5xx, every security header on each, no request that hangs, and while the
half-open connections stand, a good request is answered. Prints one line of JSON.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import random
import socket
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from pellucid.http.door import SECURITY_HEADERS
from pellucid.http.server import HttpServer, Limits, open_listener
from pellucid.lab.app import Lab, build_lab
from pellucid.lab.session import Session

PATHS = (
    *("/", "/api/home", "/api/runs/x", "/api/runs/x/events", "/api/runs/x/files/run.json", "/api/data"),
    *("/static/app.js", "/api/derive", "/api/speak/tree", "/api/speak/samples", "/api/speak/surprise", "/api/upload"),
    *("/api/train/start", "/api/train/preview", "/api/claims/x", "/api/claims/x/run", "/api/lessons/draw", "/?token=x"),
    *("/api/runs/x/stop", "/api/runs/x/unit?row=1&unit=-1&path=a", "/api/runs/x/figures/confusion?layer=x", "//"),
    *("/static/../app.py", "/%00", "/api/runs/..%2f..%2fetc%2fpasswd", "/static/%2e%2e/%2e%2e/lab/app.py", "*", "x"),
    *("/" + "a" * 9000, "/\u00e9"),
)
METHODS = ("GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "FOO", "", "G ET", "get")
VERSIONS = (*["HTTP/1.1"] * 9, "HTTP/1.0", "HTTP/3", "")
BODIES = (
    *(b"", b"{}", b"[]", b"null", b'{"expression":"1/0"}', b'{"expression":"x","values":{"x":NaN}}', b"\xff\xfe{}"),
    *(b'{"run":"\\ud800"}', b'{"expression":"' + b"(" * 5000 + b'"}', b"[" * 20_000, b'{"a":1,"a":2}', b"{" * 100),
    *(
        b'{"run":"x","path":["a"]}',
        b'{"run":"../../etc","prompt":"\\u0000"}',
        b'{"model":"__import__(1)"}',
        b"9" * 6000,
    ),
    *(b'{"where":"folder","name":"../x","options":{"steps":1e999}}', b'{"temperature":-1,"run":"x"}'),
    *(b'{"name":"saturation","knobs":{"scale":"<script>"}}', b'{"expression":"sin(sin(","values":{"":1}}'),
    *(b'{"run":"x","beam":99999999999999999999}', b'{"runs":[1,2],"text":5}'),
)
HEADERS = (
    *("Origin: https://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site", "Cookie: a=b; ; =; pellucid-1-2="),
    *(
        "Range: bytes=0-,0-,0-",
        "Content-Type: text/html",
        "Content-Type: application/octet-stream",
        "Content-Length: -1",
    ),
    *(
        "Content-Length: 99999999999",
        "Transfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "X: " + "y" * 3000,
    ),
    *(
        "Expect: 100-continue",
        "Upgrade: websocket",
        "Host: attacker.example",
        "Host:",
        "If-None-Match: \x01",
        "\x00: x",
    ),
    *("Accept-Encoding: gzip;q=nan", "Content-Length: 1\r\nContent-Length: 2", " x: y"),
)
SHORT = Limits(header_seconds=1.0, body_seconds=1.0, idle_seconds=1.0)  # so that what hangs is cut soon
AT_ONCE = 16
PATIENCE = 60.0  # seconds that an answer may take on a machine that has other things to do


@dataclass
class Attack:
    """What came of an attack."""

    n_requests: int = 0
    n_unanswered: int = 0  # that neither answered nor closed
    by_status: dict[int, int] = field(default_factory=dict)
    server_errors: list[str] = field(default_factory=list)
    without_headers: list[str] = field(default_factory=list)
    n_half_open: int = 0
    seconds_meanwhile: list[float] = field(default_factory=list)  # of good requests


def attack(
    port: int, session: Session, *, n_requests: int, n_half_open: int, seed: int, seconds: float = math.inf
) -> Attack:
    """Send requests that nobody should, some with the cookie and some without; then hold connections half open.

    seconds: after them no further request is made.
    """
    found, began = Attack(), time.monotonic()

    def one(number: int) -> tuple[bytes, bytes, bool] | None:
        if time.monotonic() - began > seconds:
            return None
        words = make_request(random.Random(f"{seed} {number}"), port, session)
        return (words, *send(port, words))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for made in pool.map(one, range(n_requests)):
            if made is not None:
                words, said, is_over = made
                found.n_requests += 1
                found.n_unanswered += not is_over
                judge(found, words, said)
    hold_half_open(port, session, n_half_open, found)
    return found


def make_request(rng: random.Random, port: int, session: Session) -> bytes:
    """One request: of our addresses with odd parts, or bytes at random."""
    if rng.random() < 0.1:
        return rng.randbytes(rng.randrange(1, 2000)) + rng.choice([b"", b"\r\n\r\n"])
    method = rng.choice(METHODS if rng.random() < 0.3 else ("GET", "POST"))
    lines = [f"{method} {rng.choice(PATHS)} {rng.choice(VERSIONS)}", "Connection: close"]
    if rng.random() < 0.9:
        lines.append(f"Host: 127.0.0.1:{port}")
    if rng.random() < 0.8:
        lines.append(f"Cookie: {session.cookie}={session.secret}")
    body = rng.choice(BODIES)
    if rng.random() < 0.8:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += rng.sample(HEADERS, rng.choice([0, 0, 1, 2]))
    words = "\r\n".join(lines).encode("utf-8", "replace") + b"\r\n\r\n" + body
    if rng.random() < 0.1:
        at = rng.randrange(len(words))
        words = words[:at] + rng.randbytes(3) + words[at + 3 :]
    return words


def send(port: int, words: bytes) -> tuple[bytes, bool]:
    """What came back, and whether it came to an end: an answer, or a closed connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
        said = b""
        try:
            connection.sendall(words)
            while part := connection.recv(65_536):
                said += part
                if said.startswith(b"HTTP/1.1 200") and b"text/event-stream" in said:
                    break  # a stream of a run ends when we go
        except TimeoutError:
            return said, False
        except OSError:
            return said, True
        return said, True


def judge(found: Attack, words: bytes, said: bytes) -> None:
    for answer in said.split(b"HTTP/1.1 ")[1:]:
        status = int(answer[:3])
        found.by_status[status] = found.by_status.get(status, 0) + 1
        if status >= 500:
            found.server_errors.append(repr(words[:400]))
        head = answer.split(b"\r\n\r\n")[0].lower()
        if status != 100 and not all(name in head for name, _ in SECURITY_HEADERS):
            found.without_headers.append(repr(words[:400]))


def hold_half_open(port: int, session: Session, n: int, found: Attack) -> None:
    """Open connections that never finish a request, and ask something good now and then meanwhile."""
    cookie = f"{session.cookie}={session.secret}"
    good = f"GET /api/home HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
    begun = (b"", b"GET /api", b"POST /api/derive HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
    held = []
    try:
        for number in range(n):
            connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            with contextlib.suppress(OSError):
                connection.sendall(begun[number % 3])
            held.append(connection)
            found.n_half_open += 1
            if number % max(1, n // 20) == 0:
                began = time.perf_counter()
                said, is_over = send(port, good.encode())
                found.seconds_meanwhile.append(time.perf_counter() - began)
                found.n_unanswered += not (is_over and said.startswith(b"HTTP/1.1 200"))
    finally:
        for connection in held:
            connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--half-open", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="make no further request after them")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        listener = open_listener("127.0.0.1", 0)
        lab = Lab(Path(folder) / "runs", Path(folder), Session(listener.getsockname()[1]))
        with HttpServer(build_lab(lab, listener), listener, SHORT).in_thread():
            began = time.monotonic()
            port = listener.getsockname()[1]
            found = attack(
                port,
                lab.session,
                n_requests=asked.requests,
                n_half_open=asked.half_open,
                seed=asked.seed,
                seconds=60 * asked.minutes,
            )
            seconds = time.monotonic() - began
        lab.close()
    print(
        json.dumps(
            {
                "requests": found.n_requests,
                "unanswered": found.n_unanswered,
                "server_errors": found.server_errors[:5],
                "without_headers": found.without_headers[:5],
                "by_status": dict(sorted(found.by_status.items())),
                "half_open": found.n_half_open,
                "median_ms_meanwhile": round(1e3 * statistics.median(found.seconds_meanwhile), 1),
                "seed": asked.seed,
                "seconds": round(seconds),
            }
        )
    )
    raise SystemExit(bool(found.server_errors or found.without_headers or found.n_unanswered))


if __name__ == "__main__":
    main()
