"""A thousand slow connections to the lab while somebody uses it: `python -m trust.lab_slow`.

The lab is a process with its usual limits. A quarter of the connections say nothing, a quarter send the headers of a
request a byte at a time, a quarter its body, and a quarter ask for much and read none of it. Meanwhile one visitor asks
for the first page's data, again and again. What must hold: every good request is answered, after 15 seconds the server
has let go of every slow connection, and the visitor's 99th percentile is below 250 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ALL_GONE = 15.0  # seconds
QUICK = 0.25
SHAPES = ("silent", "headers", "body", "unread")


class LabProcess:
    """`pellucid lab` as a process of its own, and the cookie that its link gives."""

    def __init__(self, folder: Path) -> None:
        words = [sys.executable, "-m", "pellucid", "lab", "--no-open"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8", cwd=folder)
        assert self.process.stdout
        link = re.search(r"http://127\.0\.0\.1:(\d+)(/\?token=\S+)", self.process.stdout.readline())
        assert link
        self.port = int(link[1])
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", link[2])
        self.cookie = (connection.getresponse().getheader("set-cookie") or "").split(";")[0]
        connection.close()

    def request(self, method: str, path: str, *headers: str) -> bytes:
        """The head of a request that brings the cookie."""
        lines = (f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}", f"Cookie: {self.cookie}", *headers)
        return "\r\n".join(lines).encode() + b"\r\n\r\n"

    def sizes(self) -> tuple[float, int, int]:
        """Resident megabytes, threads and open files."""
        folder = Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
        return int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), len(list((folder / "fd").iterdir()))

    def end(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(60)
        if self.process.stdout:
            self.process.stdout.close()
        return code


async def be_slow(lab: LabProcess, shape: str) -> None:
    """One slow client, until the server ends it or half a minute is over."""
    raw = socket.socket()
    raw.setblocking(False)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
        async with asyncio.timeout(2 * ALL_GONE):
            await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", lab.port))
            reader, writer = await asyncio.open_connection(sock=raw, limit=2048)
            with contextlib.closing(writer):
                if shape == "unread":
                    writer.write(lab.request("GET", "/static/vendor/uplot.js", "Connection: close"))
                    await asyncio.sleep(2 * ALL_GONE)
                head = lab.request("POST", "/api/derive", "Content-Type: application/json", "Content-Length: 4000")
                words = {"silent": b"", "headers": head, "body": head + b"{" * 4000}[shape]
                at = len(head) if shape == "body" else 0
                writer.write(words[:at])
                while not reader.at_eof():
                    writer.write(words[at : at + 1])
                    at += 1
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(reader.read(2048), 0.5)
    raw.close()


class Visitor(threading.Thread):
    """Asks for the first page's data, each time on a new connection; a thread, so that no slow client delays it."""

    def __init__(self, lab: LabProcess) -> None:
        super().__init__(daemon=True)
        self.lab = lab
        self.waits: list[float] = []
        self.missed: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        request = self.lab.request("GET", "/api/home", "Connection: close")
        while not self.is_over.wait(0.02):
            began = time.perf_counter()
            try:
                with socket.create_connection(("127.0.0.1", self.lab.port), timeout=60) as connection:
                    connection.sendall(request)
                    said = b"".join(iter(lambda: connection.recv(65_536), b""))
            except OSError as error:
                said = repr(error).encode()
            self.waits.append(time.perf_counter() - began)
            if not said.startswith(b"HTTP/1.1 200"):
                self.missed.append(said[:60].decode("latin-1"))


async def measure(lab: LabProcess, n: int) -> dict[str, float]:
    """Open so many slow connections and use the lab; what came of it."""
    at_first = lab.sizes()[2]
    visitor = Visitor(lab)
    visitor.start()
    began = time.monotonic()
    slow = [asyncio.create_task(be_slow(lab, SHAPES[number % len(SHAPES)])) for number in range(n)]
    await asyncio.sleep(1)
    opened, most = time.monotonic() - began, lab.sizes()[2] - at_first
    while lab.sizes()[2] > at_first + 1 and time.monotonic() - began < 3 * ALL_GONE:  # one is the visitor's
        most = max(most, lab.sizes()[2] - at_first)
        await asyncio.sleep(0.1)
    gone = time.monotonic() - began
    visitor.is_over.set()
    await asyncio.to_thread(visitor.join)
    for task in slow:
        task.cancel()
    await asyncio.gather(*slow, return_exceptions=True)
    waits = sorted(visitor.waits)
    return {
        "opened in": opened,
        "most at once": most,
        "gone after": gone,
        "visits": len(waits),
        "not answered": len(visitor.missed),
        "median": waits[len(waits) // 2],
        "p99": waits[int(len(waits) * 0.99)],
        "longest": waits[-1],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--connections", type=int, default=1_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lab = LabProcess(Path(folder))
        try:
            found = asyncio.run(measure(lab, asked.connections))
        finally:
            lab.end()
    print(f"{asked.connections:,} slow connections, at most {found['most at once']:.0f} held at once")
    print(f"all let go of after {found['gone after']:.1f} s")
    waits = ", ".join(f"{name} {1e3 * found[name]:.0f} ms" for name in ("median", "p99", "longest"))
    print(f"{found['visits']:.0f} visits meanwhile, {found['not answered']:.0f} not answered: {waits}")
    return int(found["gone after"] > ALL_GONE or found["not answered"] > 0 or found["p99"] > QUICK)


if __name__ == "__main__":
    sys.exit(main())
