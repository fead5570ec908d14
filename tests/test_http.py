"""The room that answers over HTTP: the door decides by the scope alone, and no client can hold the server up."""

import ast
import asyncio
import contextlib
import itertools
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

import pellucid.http
import pellucid.http.server as server_module
from pellucid.errors import PellucidError
from pellucid.http.answers import build_app, json_answer, parse_json, read_fields
from pellucid.http.door import SECURITY_HEADERS, BearerKey, Door, DoorRules, equals_secret
from pellucid.http.server import HttpServer, Limits, is_loopback, open_listener

KEY = "a-key-of-this-test"
SHORT = Limits(header_seconds=0.4, body_seconds=0.4, idle_seconds=1, write_seconds=0.5, connections=20)


@dataclass
class Echo:
    text: str = "nothing"
    factor: float = 1.0


async def echo(request: Request) -> Response:
    return json_answer(await read_fields(request, Echo))


async def upload(request: Request) -> Response:
    return json_answer({"bytes": sum([len(part) async for part in request.stream()])})


def fail(_: Request) -> Response:
    raise ZeroDivisionError


def refuse(_: Request) -> Response:
    raise PellucidError("width 0 came", fix="Try {width}", options={"width": 1})


async def pour(_: Request) -> Response:
    async def parts() -> Any:
        for _ in range(4_000):
            yield b"x" * 65_536

    return StreamingResponse(parts(), media_type="text/plain")


ROUTES = [
    Route("/echo", echo, methods=["POST"]),
    Route("/upload", upload, methods=["POST"]),
    Route("/fail", fail),
    Route("/refuse", refuse),
    Route("/pour", pour),
    Route("/open", lambda _: json_answer({"open": True})),
]


def rules(listener: socket.socket) -> DoorRules:
    return DoorRules.of(
        listener,
        admits=BearerKey(KEY),
        is_open=lambda path: path == "/open",
        body_bytes=lambda path: 2_000_000 if path == "/upload" else 10_000,
        takes_octets=lambda path: path == "/upload",
        in_flight=8,
    )


@pytest.fixture(scope="module")
def server() -> Iterator[HttpServer]:
    listener = open_listener("127.0.0.1", 0)
    with HttpServer(Door(build_app(ROUTES), rules(listener)), listener, SHORT).in_thread() as running:
        yield running


def ask(server: HttpServer, words: bytes, *, wait: float = 10.0) -> bytes:
    """Everything that comes back for these bytes until the server closes, or nothing more comes for a while."""
    with socket.create_connection(server.address, timeout=wait) as connection:
        with contextlib.suppress(OSError):  # it may close while we still send
            connection.sendall(words)
        said = b""
        with contextlib.suppress(OSError):
            while part := connection.recv(65_536):
                said += part
        return said


def request_bytes(
    server: HttpServer, method: str, path: str, body: bytes = b"", *, drop: tuple[str, ...] = (), **headers: str
) -> bytes:
    lines = {
        "host": f"127.0.0.1:{server.address[1]}",
        "authorization": f"Bearer {KEY}",
        "connection": "close",
        **({"content-type": "application/json", "content-length": str(len(body))} if method == "POST" else {}),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items() if name not in drop)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + body


def read_until(connection: socket.socket, end: bytes, times: int = 1) -> bytes:
    said = b""
    while said.count(end) < times:
        part = connection.recv(65_536)
        assert part, said
        said += part
    return said


def status(said: bytes) -> int:
    return int(said.split(b" ")[1]) if said else 0


def answer(server: HttpServer, *words: Any, **headers: Any) -> tuple[int, Any]:
    said = ask(server, request_bytes(server, *words, **headers))
    head, _, body = said.partition(b"\r\n\r\n")
    for name, _ in SECURITY_HEADERS:
        assert name in head.lower()
    assert b"access-control" not in head.lower()
    return status(said), json.loads(body) if body else None


def test_answers_and_errors_have_one_form(server, capsys):
    assert answer(server, "POST", "/echo", b'{"factor": 2}') == (200, {"text": "nothing", "factor": 2.0})
    code, said = answer(server, "GET", "/refuse")
    assert code == 400
    assert said["error"] == {
        "message": "width 0 came. Try width=1.",
        "what": "width 0 came",
        "where": "",
        "fix": "Try width=1",
        "column": None,
    }
    assert answer(server, "GET", "/nothing")[0] == 404
    assert answer(server, "GET", "/echo")[0] == 405
    assert answer(server, "GET", "/open", drop=("authorization",)) == (200, {"open": True})
    code, said = answer(server, "GET", "/fail")
    assert (code, said["error"]["what"]) == (500, "a bug in pellucid")
    assert "ZeroDivisionError at test_http.py" in capsys.readouterr().err


ODD_BODIES = [
    *(b'{"factor":NaN}', b'{"factor":"NaN"}', b'{"factor":"nan"}', b'{"factor":1e999}', b'{"factor":-Infinity}'),
    *(b'{"text":"\\ud800"}', b"[]", b"null", b"", b'{"text"', b'{"text":"a","text":"b"}', b"[" * 9_999),
    *(b'{"factor":' + b"9" * 5_000 + b"}", b'{"text":"\xff"}', '{"text":"a"}'.encode("utf-16"), b"\xef\xbb\xbf{}"),
    *(b'{"text":1}', b'{"factor":true}', b'{"other":1}', b'{"text":null}', b'{"a":' * 1_500),
]


@pytest.mark.parametrize("body", ODD_BODIES)
def test_no_body_is_our_fault(server, body):
    code, said = answer(server, "POST", "/echo", body)
    assert code == 400
    assert said["error"]["fix"]


def test_depth_is_bounded_before_it_is_read():
    with pytest.raises(PellucidError, match="nested deeper than 64"):
        parse_json(b'{"a":' * 65 + b"1" + b"}" * 65)
    assert parse_json(b'{"a":' * 64 + b"1" + b"}" * 64)


def test_sizes_are_limited_whatever_was_announced(server):
    octets = {"content_type": "application/octet-stream"}
    assert answer(server, "POST", "/upload", b"x" * 1_500_000, **octets) == (200, {"bytes": 1_500_000})
    assert answer(server, "POST", "/upload", b"x", **octets, content_length="99999999999")[0] == 413
    assert answer(server, "POST", "/upload", b"x", **octets, content_length="9" * 30)[0] == 400
    chunks = b"".join(b"10000\r\n" + b"x" * 65_536 + b"\r\n" for _ in range(40))
    words = request_bytes(server, "POST", "/upload", **octets, transfer_encoding="chunked", drop=("content-length",))
    assert status(ask(server, words + chunks + b"0\r\n\r\n")) == 413
    assert status(ask(server, request_bytes(server, "GET", "/open", x="y" * 20_000))) == 431
    assert status(ask(server, request_bytes(server, "GET", "/open", **{f"x{n}": "y" for n in range(80)}))) == 431
    assert status(ask(server, request_bytes(server, "GET", "/open")[:-2] + b"x: " + b"y" * 1_000_000)) in (431, 0)


@pytest.mark.parametrize(
    "words",
    [
        *(b"\x00\x01\x02\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        *(b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\nab",
        b"GET / HTTP/1.1\r\nHost: \xff\r\nX: \x00\r\n\r\n",
        b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
        b"GET http://evil.example/echo HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    ],
)
def test_what_is_no_request_of_ours_is_refused(server, words):
    said = ask(server, words)
    assert 400 <= status(said) < 500, said[:200]
    assert b"content-security-policy" in said.lower()


def test_slow_clients_are_cut_off(server):
    whole = request_bytes(server, "POST", "/echo", b'{"text": "a"}')
    begun = time.monotonic()
    for part in (b"", whole[:20], whole[:-3]):  # nothing, half of the headers, half of the body
        assert status(ask(server, part)) in (0, 408)
    with socket.create_connection(server.address, timeout=10) as connection:  # an answer, and then nothing more
        connection.sendall(request_bytes(server, "GET", "/open", connection="keep-alive"))
        assert read_until(connection, b'"open":true}').startswith(b"HTTP/1.1 200")
        assert connection.recv(65_536) == b""
    with socket.create_connection(server.address, timeout=10) as connection:  # asks for much, and reads nothing
        connection.sendall(request_bytes(server, "GET", "/pour"))
        time.sleep(1.5)
        connection.settimeout(5)
        with contextlib.suppress(ConnectionError):
            read = 0
            while part := connection.recv(1 << 20):
                read += len(part)
            assert read < 4_000 * 65_536
    assert time.monotonic() - begun < 30  # not a measurement: without the limits it would wait for ever


def test_a_body_has_time_as_long_as_it_comes_and_no_longer(server):
    """Not by when it began: a byte now and then does not keep a connection, and a long upload is not cut off."""
    body = b"x" * 1_900_000
    head = request_bytes(
        server, "POST", "/upload", content_type="application/octet-stream", content_length=str(len(body))
    )
    for size, pause, expected in ((190_000, 0.09, 200), (1, 0.05, 408)):
        with socket.create_connection(server.address, timeout=10) as connection:
            connection.sendall(head + body[:size])
            connection.settimeout(pause)
            said = b""
            for at in range(size, len(body), size):
                with contextlib.suppress(TimeoutError):
                    said = connection.recv(65_536)
                    break
                connection.sendall(body[at : at + size])
            connection.settimeout(10)
            assert status(said or connection.recv(65_536)) == expected


def test_bodies_that_do_not_come_take_no_room(server):
    """Twice as many requests as may be worked on wait for the rest of a body, and others are answered."""
    half_open = []
    try:
        for _ in range(16):
            half_open.append(socket.create_connection(server.address, timeout=5))
            half_open[-1].sendall(request_bytes(server, "POST", "/echo", b'{"text": "a"}')[:-3])
        for _ in range(10):
            assert answer(server, "GET", "/open")[0] == 200
    finally:
        for connection in half_open:
            connection.close()


def test_half_open_connections_leave_it_usable(server):
    half_open = []
    try:
        for _ in range(60):  # three times as many as it keeps
            connection = socket.create_connection(server.address, timeout=5)
            connection.sendall(b"GET /open HTTP/1.1\r\nHost:")
            half_open.append(connection)
        for _ in range(10):
            assert answer(server, "GET", "/open")[0] == 200
    finally:
        for connection in half_open:
            connection.close()


def test_a_crowd_is_read_a_few_at_a_time_and_what_is_urgent_before_it():
    """All of it comes between two turns of the loop, the urgent request last."""
    handled: list[str] = []

    async def handle(request: Request) -> Response:
        handled.append(request.url.path)
        if request.url.path == "/hold":
            has_begun.set()
            all_sent.wait(10)  # the loop itself stands still
        return Response("done")

    has_begun, all_sent = threading.Event(), threading.Event()
    routes = [Route(path, handle) for path in ("/hold", "/crowd", "/urgent")]
    listener = open_listener("127.0.0.1", 0)
    door = Door(build_app(routes), DoorRules.of(listener, in_flight=200))
    with (
        HttpServer(door, listener, Limits(), urgent=(b"GET /urgent ",)).in_thread() as server,
        contextlib.ExitStack() as stack,
    ):
        open_one = lambda: stack.enter_context(socket.create_connection(server.address, timeout=10))  # noqa: E731
        head = f"GET {{}} HTTP/1.1\r\nHost: 127.0.0.1:{server.address[1]}\r\nConnection: close\r\n\r\n"
        crowd = [open_one() for _ in range(60)]
        urgent, holding = open_one(), open_one()
        holding.sendall(head.format("/hold").encode())
        assert has_begun.wait(10)
        for one in crowd:
            one.sendall(head.format("/crowd").encode())
        urgent.sendall(head.format("/urgent").encode())
        all_sent.set()
        for one in (*crowd, urgent, holding):
            assert one.recv(100).startswith(b"HTTP/1.1 200")
    assert sorted(handled) == ["/crowd"] * 60 + ["/hold", "/urgent"]
    assert handled.index("/urgent") <= 2 * server_module.READ_AT_ONCE


def test_several_requests_on_one_connection(server):
    one = request_bytes(server, "POST", "/echo", b'{"text": "a"}', connection="keep-alive")
    with socket.create_connection(server.address, timeout=10) as connection:
        for _ in range(3):
            connection.sendall(one)
            assert read_until(connection, b'"factor":1.0}').startswith(b"HTTP/1.1 200")
        time.sleep(0.6)  # longer than a request may take, and shorter than a connection may be idle
        connection.sendall(one * 3)  # and three at once
        assert read_until(connection, b'"factor":1.0}', 3).count(b"HTTP/1.1 200") == 3


def scope(method: str = "GET", path: str = "/echo", **headers: str | list[str]) -> dict[str, Any]:
    lines = [
        (name.replace("_", "-").encode(), value.encode("latin-1"))
        for name, values in headers.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    return {"type": "http", "method": method, "path": path, "raw_path": path.encode(), "headers": lines}


HOSTS = {
    **dict.fromkeys(["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000", "[::1]:8000"], True),
    **dict.fromkeys(
        [
            *("attacker.example:8000", "127.0.0.1.nip.io:8000", "localhost.evil.com", "localhost@evil.com", ""),
            *("127.0.0.1:8000/?x=", "0.0.0.0:8000", "127.1:8000", "2130706433", "localhost.:8000", "localhost:1"),
            *(
                "localhost",
                "127.0.0.1",
                "127.0.0.1:8000/open?",
                "a/?x=",
                "127.0.0.1:08000",
                " 127.0.0.1:8000",
                "[::]:8000",
            ),
        ],
        False,
    ),
}
ORIGINS = {
    None: True,
    "own": True,
    **dict.fromkeys(
        [
            *("https://evil.com", "null", "http://127.0.0.1:8000.evil.com", "http://127.0.0.1:8000@evil.com", ""),
            *("https://127.0.0.1:8000", "HTTP://127.0.0.1:8000/", "http://127.0.0.1:9999", "http://127.0.0.1:8000/"),
        ],
        False,
    ),
}
SITES = {None: True, "same-origin": True, "none": True, "same-site": False, "cross-site": False, "odd": False}
KEYS = {f"Bearer {KEY}": True, f"bearer {KEY}": True, None: False, "Bearer ": False, f"Basic {KEY}": False, KEY: False}
KINDS = {
    "application/json": True,
    "application/json; charset=utf-8": True,
    **dict.fromkeys(["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", None], False),
}


def test_the_door_lets_through_exactly_what_the_table_says():
    """Every combination of Host, Origin, Sec-Fetch-Site, key, kind of body and method."""
    door = Door(build_app(ROUTES), DoorRules("127.0.0.1", 8000, admits=BearerKey(KEY)))
    passed = tried = 0
    methods = {"GET": True, "POST": True, "FOO": False, "OPTIONS": False, "TRACE": False}
    everything = list(itertools.product(HOSTS, ORIGINS, SITES, KEYS, KINDS, methods))
    for host, origin, site, key, kind, method in random.Random(0).sample(everything, 20_000) + everything[:300]:
        given = {
            "host": host,
            "origin": f"http://{host.lower()}" if origin == "own" else origin,
            "sec_fetch_site": site,
            "authorization": key,
            "content_type": kind,
        }
        refusal = door.check(scope(method, **{name: value for name, value in given.items() if value is not None}))
        is_allowed = HOSTS[host] and ORIGINS[origin] and SITES[site] and KEYS[key] and methods[method]
        is_allowed = is_allowed and (method == "GET" or KINDS[kind])
        assert (refusal is None) == is_allowed, given
        passed += is_allowed
        tried += 1
    assert 50 < passed < tried / 10


def test_a_visit_from_elsewhere_sees_the_empty_page_only():
    door = Door(
        build_app(ROUTES), DoorRules("127.0.0.1", 8000, admits=BearerKey(KEY), is_open=lambda path: path == "/")
    )
    visit = {"host": "127.0.0.1:8000", "sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert door.check(scope(path="/", **visit)) is None
    for other in (
        scope(path="/echo", **visit),
        scope("POST", "/", **visit),
        scope(path="/", **{**visit, "sec_fetch_mode": "cors"}),
    ):
        refusal = door.check(other)
        assert refusal is not None
        assert refusal.status == 403
    assert door.check(scope(host=["127.0.0.1:8000", "127.0.0.1:8000"])).status == 400
    assert door.check(scope(path="//x\x00", host="127.0.0.1:8000")).status == 400


def test_too_many_at_once_are_sent_away():
    release = threading.Event()
    listener = open_listener("127.0.0.1", 0)

    async def wait(_: Request) -> Response:
        while not release.is_set():
            await asyncio.sleep(0.01)
        return json_answer({})

    door = Door(
        build_app([Route("/wait", wait), Route("/open", lambda _: json_answer({}))]),
        DoorRules.of(listener, in_flight=4),
    )
    with HttpServer(door, listener, SHORT).in_thread() as server:
        said: list[int] = []
        threads = [
            threading.Thread(target=lambda: said.append(answer(server, "GET", "/wait")[0]), daemon=True)
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        while door._under_way < 4:
            time.sleep(0.01)
        full = ask(server, request_bytes(server, "GET", "/open"))
        assert status(full) == 429
        assert b"retry-after: 1" in full
        release.set()
        for thread in threads:
            thread.join(10)
        assert said == [200] * 4
        assert answer(server, "GET", "/open")[0] == 200


PROGRAM = """
import asyncio, sys
from starlette.responses import StreamingResponse
from starlette.routing import Route
from pellucid.http.answers import build_app
from pellucid.http.door import Door, DoorRules
from pellucid.http.server import HttpServer, Limits, open_listener

async def endless(_):
    async def parts():
        while not server.is_ending:
            yield b"more "
            await asyncio.sleep(0.05)
        yield b"end"
    return StreamingResponse(parts())

listener = open_listener("127.0.0.1", 0)
server = HttpServer(Door(build_app([Route("/", endless)]), DoorRules.of(listener)), listener, Limits())
print("ended by", server.run(lambda: print(server.address[1], flush=True)))
"""


def test_what_is_not_answered_when_the_server_ends_is_told_so():
    is_begun = threading.Event()

    async def wait(_: Request) -> Response:
        is_begun.set()
        await asyncio.sleep(600)
        return json_answer({})

    listener = open_listener("127.0.0.1", 0)
    limits = Limits(ending_seconds=1)
    server = HttpServer(Door(build_app([Route("/wait", wait)]), DoorRules.of(listener)), listener, limits)
    with server.in_thread(), socket.create_connection(server.address, timeout=60) as connection:
        connection.sendall(request_bytes(server, "GET", "/wait"))
        assert is_begun.wait(60)
        server.stop()
        assert status(connection.recv(65_536)) == 503


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_after_the_answers_under_way(number):
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout
        port = int(process.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            said = read_until(connection, b"more")
            os.kill(process.pid, number)
            while part := connection.recv(65_536):
                said += part
        assert said.endswith(b"end\r\n0\r\n\r\n")
        assert process.stdout.read() == f"ended by {int(number)}\n"
    assert process.returncode == 0


def test_a_port_in_use_is_told():
    with open_listener("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(PellucidError, match=f"port {port} is in use"):
            open_listener("127.0.0.1", port)
    with pytest.raises(PellucidError, match="not known here"):
        open_listener("no such host", 0)
    assert is_loopback("::1")


def test_secrets_are_compared_in_constant_time():
    assert equals_secret("ä" * 9, "ä" * 9)
    assert not equals_secret("\ud800", "a")
    for path in Path(pellucid.http.__path__[0]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
                words = {word.id for word in ast.walk(node) if isinstance(word, ast.Name)}
                words |= {word.attr for word in ast.walk(node) if isinstance(word, ast.Attribute)}
                assert not words & {"key", "token", "secret", "given", "cookie"}, f"{path.name}:{node.lineno}"
