"""Load on `pellucid serve`, all of it on this machine: `python -m trust.serving --count 100000`.

Clients ask at once, over connections that they keep. Nine in ten requests are good, and their text is compared with
what the same request gave before: alone or among others, it may never differ. A tenth is malformed, oversized, cut off
or slow. What must hold:

    no answer of 500 or above, and none to a good request but 200 or 429 (with Retry-After)
    no request that was sent whole is left without an answer
    memory grows by less than 5 % after the first tenth; threads do not, and open files are as many as connections
    a thousand completions at once are each answered with 200 or 429, while /health answers within 100 ms (p99)
    and memory grows by less than 100 MB; with 1, 8 and 64 requests in flight an answer has the same bytes
    at the end, asked to stop while it writes, it finishes what runs and leaves with 143

It ends by itself: after --count requests, or after --minutes.
"""

import argparse
import asyncio
import contextlib
import http.client
import json
import multiprocessing
import multiprocessing.connection
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from trust.tiny_runs import NAMES, made

ROOT = Path(__file__).parent.parent
LONGEST_ANSWER = 120.0  # seconds; without an answer by then a request counts as lost
GROWTH = 0.05
CLIENTS = 32
AT_ONCE = 1000
HEALTH_SECONDS = 0.1  # of /health while so many ask, p99
CROWD_MEGABYTES = 100
IN_FLIGHT = (1, 8, 64)

Answer = TypeVar("Answer")


class Server:
    """`pellucid serve` in a process of its own."""

    def __init__(self, run: Path, *words: str) -> None:
        command = [sys.executable, "-m", "pellucid", "serve", str(run), "--port", "0", *words]
        # Its tests are of ours alone: threads and clocks of the machine stay out of it.
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, cwd=run.parent, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        if found is None:
            sys.exit(f"the server did not start: {line} {self.process.communicate()[1]}")
        self.port = int(found[1])

    def sizes(self) -> tuple[float, int, int]:
        """Resident megabytes, threads and open files."""
        folder = Path(f"/proc/{self.process.pid}")
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
        return int(status["VmRSS"].split()[0]) / 1024, int(status["Threads"]), len(list((folder / "fd").iterdir()))

    def end(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(90)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return -9


class Connection:
    """A connection that is kept, and made again where the server closed it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.reader: asyncio.StreamReader | None = None
        self.writer: asyncio.StreamWriter | None = None

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.reader is None or self.writer is None or self.writer.is_closing() or self.reader.at_eof():
            self.close()
            self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 22)
        return self.reader, self.writer

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None

    def head(self, method: str, path: str, length: int | None, **headers: str) -> bytes:
        lines = {"Host": f"127.0.0.1:{self.port}", "Content-Type": "application/json", **headers}
        if length is not None:
            lines["Content-Length"] = str(length)
        return "\r\n".join(
            [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
        ).encode()

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        _, writer = await self.open()
        writer.write(self.head(method, path, len(body) if method == "POST" else None, **headers) + body)
        return await self.answer()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        assert self.reader is not None
        raw = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            parts = []
            while size := int(await self.reader.readline(), 16):
                parts.append(await self.reader.readexactly(size))
                await self.reader.readexactly(2)
            await self.reader.readexactly(2)
            body = b"".join(parts)
        else:
            body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection") == "close":
            self.close()
        return int(first.split()[1]), headers, body


def good_calls(chance: random.Random, n: int) -> list[dict[str, Any]]:
    """Different requests for completions; each is asked many times."""
    found: list[dict[str, Any]] = []
    for seed in range(n):
        name = chance.choice(NAMES)
        call: dict[str, Any] = {"prompt": name[: chance.randrange(len(name))], "seed": seed}
        call["max_tokens"] = chance.choice([1, 4, 8, 8, 16, 40])
        if chance.random() < 0.2:
            call["n"] = chance.choice([2, 3])
        if chance.random() < 0.3:
            call["temperature"] = chance.choice([0, 0.5, 1.5])
        if chance.random() < 0.2:
            call["top_p"] = 0.8
        if chance.random() < 0.2:
            call["stop"] = [chance.choice(["a", "na", "li"])]
        if chance.random() < 0.1:
            call["logprobs"] = 2
        if chance.random() < 0.1:
            call["echo"] = True
        found.append(call)
    return found


def texts_of(body: bytes, *, is_stream: bool) -> list[str]:
    """The texts of an answer by choice, whether it came at once or in parts."""
    found: dict[int, str] = {}
    if is_stream:
        events = [line[6:] for line in body.split(b"\n\n") if line.startswith(b"data: ")]
        assert events[-1] == b"[DONE]", events[-1]
        parts = [json.loads(event) for event in events[:-1]]
    else:
        parts = [json.loads(body)]
    for part in parts:
        for choice in part["choices"]:
            found[choice["index"]] = found.get(choice["index"], "") + choice["text"]
    return [found[index] for index in sorted(found)]


MALFORMED = (
    b"", b"{", b"null", b"[]", b'"text"', b'{"prompt": NaN}', b'{"prompt": "\\ud800"}', b'{"prompt": "\xff"}',
    b'{"prompt": "a", "prompt": "b"}', b'{"max_tokens": -1}', b'{"max_tokens": 1.5}', b'{"max_tokens": "5"}',
    b'{"max_tokens": 1000000000}', b'{"n": 0}', b'{"n": true}', b'{"temperature": -1}', b'{"temperature": 1e999}',
    b'{"top_p": 2}', b'{"top_p": 0}', b'{"seed": -1}', b'{"seed": 18446744073709551616}', b'{"stop": [""]}',
    b'{"stop": [1]}', b'{"logprobs": 99}', b'{"prompt": [[]]}', b'{"prompt": [1, "a"]}', b'{"prompt": [99999]}',
    b'{"prompt": [-1]}', b'{"prompt": {"a": 1}}', b'{"prompt": "\xc3\xa9"}', b'{"model": "other"}', b'{"strem": true}',
    b'{"best_of": 3}', b'{"stream": "yes"}', b'{"prompt": "' + b"a" * 5000 + b'"}', b"[" * 100_000,
    b'{"n": ' + b"9" * 5000 + b"}", b'{"logit_bias": {"1": 5}}',
)  # fmt: skip


class Load:
    """What is asked, and what came of it."""

    def __init__(self, port: int, count: int, seed: int) -> None:
        self.port, self.count = port, count
        self.chance = random.Random(seed)
        self.calls = good_calls(self.chance, 200)
        self.known: dict[int, list[str]] = {}
        self.found: Counter[str] = Counter()
        self.faults: list[str] = []
        self.seconds: list[float] = []

    def fault(self, words: str) -> None:
        self.found["faults"] += 1
        if len(self.faults) < 20:
            self.faults.append(words)

    async def client(self, stop_at: float) -> None:
        connection = Connection(self.port)
        while self.count > 0 and time.monotonic() < stop_at:
            self.count -= 1
            bad = self.chance.random() < 0.1
            act = self.chance.choice(BAD) if bad else Load.good
            try:
                await asyncio.wait_for(act(self, connection), LONGEST_ANSWER)
                self.found["bad" if bad else "good"] += 1
            except Exception as error:  # whatever happens to one request must not end the others
                self.fault(f"{act.__name__}: {type(error).__name__} {error}")
                connection.close()
        connection.close()

    async def good(self, connection: Connection) -> None:
        if self.chance.random() < 0.05:
            status, _, _ = await connection.ask("GET", self.chance.choice(["/v1/models", "/health", "/metrics"]))
            if status != 200:
                self.fault(f"a GET was answered with {status}")
            return
        place = self.chance.randrange(len(self.calls))
        is_stream = self.chance.random() < 0.2
        body = json.dumps({**self.calls[place], "stream": is_stream}).encode()
        began = time.monotonic()
        status, headers, answer = await connection.ask("POST", "/v1/completions", body)
        self.seconds.append(time.monotonic() - began)
        if status == 429 and int(headers["retry-after"]) >= 1:
            self.found["429"] += 1
            return
        if status != 200:
            self.fault(f"a good request was answered with {status}: {answer[:200]!r}")
            return
        texts = texts_of(answer, is_stream=is_stream)
        if self.known.setdefault(place, texts) != texts:
            self.fault(f"{self.calls[place]} gave {texts}, and before {self.known[place]}")
        self.found["texts compared"] += 1

    async def malformed(self, connection: Connection) -> None:
        body = self.chance.choice(MALFORMED)
        status, _, answer = await connection.ask("POST", "/v1/completions", body)
        if not 400 <= status < 500:
            self.fault(f"{body[:60]!r} was answered with {status}: {answer[:200]!r}")

    async def strange(self, connection: Connection) -> None:
        """No HTTP, or HTTP that is not for us."""
        connection.close()
        _, writer = await connection.open()
        words = self.chance.choice(
            [
                os.urandom(200) + b"\r\n\r\n",
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 100 + b"\r\n\r\n",
                connection.head("GET", "/v1/models", None, Host="attacker.example"),
                connection.head("POST", "/v1/completions", -5),
                connection.head("TRACE", "/", None),
                connection.head("GET", "/nothing", None),
                connection.head("GET", "/v1/completions", None),
            ]
        )
        writer.write(words)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, IndexError, ValueError):
            status, _, _ = await connection.answer()
            if not 400 <= status < 500:
                self.fault(f"{words[:60]!r} was answered with {status}")
        connection.close()

    async def oversized(self, connection: Connection) -> None:
        connection.close()
        _, writer = await connection.open()
        kind = self.chance.choice(["length", "body", "headers"])
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            if kind == "length":
                writer.write(connection.head("POST", "/v1/completions", 99_999_999_999))
            elif kind == "headers":
                writer.write(connection.head("GET", "/v1/models", None, **{"X-Long": "a" * 100_000}))
            else:
                writer.write(connection.head("POST", "/v1/completions", 1_100_000) + b"a" * 1_100_000)
            status, _, _ = await connection.answer()
            if status not in (413, 431, 400):
                self.fault(f"oversized {kind} was answered with {status}")
        connection.close()

    async def cut_off(self, connection: Connection) -> None:
        """A request of which only a part comes, or whose client leaves before its answer, or within it."""
        connection.close()
        reader, writer = await connection.open()
        body = json.dumps({"prompt": "", "max_tokens": 4000, "n": 2, "temperature": 3, "stream": True}).encode()
        whole = connection.head("POST", "/v1/completions", len(body)) + body
        kind = self.chance.choice(["within the request", "before the answer", "within the answer"])
        writer.write(whole[: self.chance.randrange(1, len(whole))] if kind == "within the request" else whole)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await writer.drain()
            if kind == "within the answer":
                await reader.readexactly(100)
        connection.close()

    async def slow(self, connection: Connection) -> None:
        """A good request that comes in pieces; it has to be answered all the same."""
        connection.close()
        _, writer = await connection.open()
        body = json.dumps(self.calls[0]).encode()
        whole = connection.head("POST", "/v1/completions", len(body)) + body
        for at in range(0, len(whole), 40):
            writer.write(whole[at : at + 40])
            await writer.drain()
            await asyncio.sleep(0.02)
        status, _, _ = await connection.answer()
        if status not in (200, 429):
            self.fault(f"a slow request was answered with {status}")


BAD: tuple[Callable[[Load, Connection], Any], ...] = (
    Load.malformed, Load.malformed, Load.strange, Load.oversized, Load.cut_off, Load.slow
)  # fmt: skip


@contextlib.asynccontextmanager
async def last_requests(port: int) -> AsyncIterator[list[asyncio.Task[tuple[int, dict[str, str], bytes]]]]:
    """Requests that are being answered while the server is asked to end."""
    body = json.dumps({"prompt": "", "max_tokens": 300, "temperature": 3, "seed": 5, "stream": True}).encode()
    connections = [Connection(port) for _ in range(4)]
    tasks = [asyncio.ensure_future(one.ask("POST", "/v1/completions", body)) for one in connections]
    await asyncio.sleep(0.3)
    yield tasks
    for one in connections:
        one.close()


def watch_health(port: int, caller: multiprocessing.connection.Connection) -> None:
    """Ask for /health over one connection again and again until told to end, and send what each took, in seconds.

    It is open before the crowd comes: whoever opens one behind a thousand others waits until they were let in.
    """
    waits: list[float] = []
    problems: list[str] = []
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LONGEST_ANSWER)
    connection.connect()
    caller.send("ready")
    while not caller.poll():
        began = time.monotonic()
        try:
            connection.request("GET", "/health")
            with connection.getresponse() as answer:
                answer.read()
            if answer.status != 200:
                problems.append(f"it was answered with {answer.status}")
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            problems.append(f"{type(error).__name__} {error}")
        waits.append(time.monotonic() - began)
        time.sleep(0.005)
    connection.close()
    caller.send((waits, problems))


async def ask_crowd(load: Load, server: Server, n: int) -> None:
    """So many clients with a connection of their own, all at once; /health is asked over another meanwhile."""
    before, statuses = server.sizes()[0], Counter[int]()

    async def client(place: int) -> None:
        connection = Connection(server.port)
        body = json.dumps(load.calls[place % len(load.calls)]).encode()
        try:
            status, headers, answer = await asyncio.wait_for(
                connection.ask("POST", "/v1/completions", body), LONGEST_ANSWER
            )
            statuses[status] += 1
            if status not in (200, 429) or (status == 429 and int(headers["retry-after"]) < 1):
                load.fault(f"one of {n} at once was answered with {status}: {answer[:200]!r}")
        except Exception as error:  # whatever happens to one request must not end the others
            load.fault(f"one of {n} at once: {type(error).__name__} {error}")
        finally:
            connection.close()

    # In a process of its own: what a thousand clients take of this one is not what the server takes.
    apart = multiprocessing.get_context("spawn")
    ours, theirs = apart.Pipe()
    watching = apart.Process(target=watch_health, args=(server.port, theirs))
    watching.start()
    theirs.close()
    await asyncio.to_thread(ours.recv)  # it is ready
    await asyncio.gather(*(client(place) for place in range(n)))
    ours.send("end")
    waits, problems = await asyncio.to_thread(ours.recv)
    watching.join()
    for problem in problems:
        load.fault(f"/health: {problem}")
    grown = server.sizes()[0] - before
    print(f"{n:,} at once".ljust(21), f"{statuses[200]:,} answered, {statuses[429]:,} told to come back (429)")
    if not waits:
        load.fault("/health was never answered meanwhile")
        return
    ordered = sorted(waits)
    p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
    print(f"/health meanwhile, ms p50 {1000 * p50:.0f}, p99 {1000 * p99:.0f} of {len(waits):,}; memory {grown:+.1f} MB")
    if p99 > HEALTH_SECONDS:
        load.fault(f"/health took {1000 * p99:.0f} ms (p99) while {n:,} asked at once")
    if grown > CROWD_MEGABYTES:
        load.fault(f"memory grew by {grown:.1f} MB with {n:,} at once")


async def compare_in_flight(load: Load, port: int) -> None:
    """The same requests with different numbers of them under way: what comes back must be the same to the byte."""
    found: list[list[bytes]] = []
    for n_at_once in IN_FLIGHT:
        answers, left = [b""] * len(load.calls), list(range(len(load.calls)))

        async def client(answers: list[bytes], left: list[int]) -> None:
            connection = Connection(port)
            with contextlib.closing(connection):
                while left:
                    place = left.pop()
                    body = json.dumps({**load.calls[place], "logprobs": 2}).encode()
                    status, _, answer = await connection.ask("POST", "/v1/completions", body)
                    # Each answer has a number and a time of its own; the rest is what was drawn.
                    answers[place] = answer[answer.index(b'"choices"') :] if status == 200 else b""

        await asyncio.gather(*(client(answers, left) for _ in range(n_at_once)))
        found.append(answers)
    n_same = sum(one != b"" and all(one == other[place] for other in found) for place, one in enumerate(found[0]))
    flights = ", ".join(map(str, IN_FLIGHT))
    print(f"{flights} in flight".ljust(21), f"{n_same} of {len(load.calls)} requests gave the same bytes")
    if n_same < len(load.calls):
        load.fault(f"{len(load.calls) - n_same} requests gave other bytes with {flights} in flight")


async def run_load(server: Server, count: int, seed: int, minutes: float) -> tuple[Load, bool]:
    stop_at = time.monotonic() + 60 * minutes
    load = Load(server.port, max(count // 10, 50), seed)
    await asyncio.gather(*(load.client(stop_at) for _ in range(CLIENTS)))
    before = server.sizes()
    load.count = count - max(count // 10, 50)
    await asyncio.gather(*(load.client(stop_at) for _ in range(CLIENTS)))
    await asyncio.sleep(0.5)
    after = server.sizes()
    growth = after[0] / before[0] - 1
    n_done = load.found["good"] + load.found["bad"] + load.found["faults"]
    print(f"requests              {n_done:,} of {count:,}: {load.found['good']:,} good, {load.found['bad']:,} bad")
    print(f"answered 429          {load.found['429']:,}")
    print(f"texts compared        {load.found['texts compared']:,} with {len(load.known):,} different requests")
    print(f"memory, MB            {before[0]:.1f} after a tenth, {after[0]:.1f} at the end: {growth:+.2%}")
    print(f"threads, open files   {before[1]}, {before[2]} -> {after[1]}, {after[2]}")
    ordered = sorted(load.seconds)
    if ordered:
        p50, p99 = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.99)]
        print(f"completions, ms       p50 {1000 * p50:.0f}, p99 {1000 * p99:.0f}, {CLIENTS} clients at a time")
    if growth > GROWTH:
        load.fault(f"memory grew by {growth:.2%}")
    if after[1] > before[1] or after[2] > before[2] + CLIENTS:
        load.fault("threads or open files grew")
    await ask_crowd(load, server, min(AT_ONCE, count))
    await compare_in_flight(load, server.port)
    async with last_requests(server.port) as tasks:
        code = await asyncio.to_thread(server.end)
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    whole = [one for one in answers if not isinstance(one, BaseException) and one[2].endswith(b"data: [DONE]\n\n")]
    print(f"asked to end          {len(whole)} of {len(answers)} running requests were finished; exit code {code}")
    if len(whole) < len(answers) or code != 143:
        load.fault(f"it did not end well: {code}, {[str(one)[:80] for one in answers]}")
    return load, n_done >= count


def run_apart(work: Coroutine[Any, Any, Answer]) -> Answer:
    """What a coroutine gives, run by a loop in a thread of its own: in this one a browser's may be running already."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=120.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        server = Server(made(Path(folder), "tiny"), "--batch", "32", "--queue", "128")
        try:
            load, is_whole = run_apart(run_load(server, asked.count, asked.seed, asked.minutes))
        finally:
            if server.process.poll() is None:
                server.process.kill()
        _, said = server.process.communicate()
    if said:
        load.fault(f"the server said: {said[:400]}")
    print(f"faults                {load.found['faults']}")
    for fault in load.faults:
        print(f"  {fault}")
    if not is_whole:
        print("it ran out of time before all requests were sent")
    return 0 if not load.found["faults"] and is_whole else 1


if __name__ == "__main__":
    sys.exit(main())
