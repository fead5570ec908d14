"""uvicorn on a socket, with a limit on every time that a client can take and on every connection that it can hold.

What uvicorn leaves open is closed here: a request whose headers or body do not arrive, an answer that nobody reads,
connections without end. A connection too many does not shut others out: the one that has waited longest for the rest
of a request makes room, so that a thousand half-open ones leave the server usable. Where a thousand ask at the same
moment they are read a few at a time, and what is urgent goes before them.
"""

import asyncio
import contextlib
import errno
import ipaddress
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from pellucid.errors import PellucidError
from pellucid.http.answers import error_body
from pellucid.http.door import SECURITY_HEADERS

HEADER_BYTES = 16 * 1024
WAITING_ROOM = 1024  # connections that the system holds until they are taken in
TAKEN_IN = 4  # of them at a turn of the loop
READ_AT_ONCE = 4  # connections that are listened to at a turn of the loop
Listener = socket.socket  # for those who only hand it on


@dataclass(frozen=True)
class Limits:
    """How long a client may take, how much it may send at once, and how many connections there may be."""

    header_seconds: float = 10.0
    body_seconds: float = 10.0
    body_bytes_per_second: float = 1e5  # slower than this no body may be after its first seconds, however long it is
    idle_seconds: float = 15.0  # between two requests of one connection
    write_seconds: float = 12.0  # in which nobody reads what was sent
    ending_seconds: float = 2.0  # for answers under way, once the server was asked to end
    connections: int = 256  # twice as many for a moment, so that a crowd shuts out nobody who has just come
    grace_seconds: float = 0.2
    request_bytes: int = 1 << 30  # where the connection is cut, whoever still reads; DoorRules has the app's own limit


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach that host.

    >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0"), is_loopback("example.org")
    (True, True, False, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one. It is open before any address is printed."""
    try:
        # Only the address itself is looked up for a number, so that nothing is asked of a name server.
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise PellucidError(
            f"the host {host!r} is not known here", fix="Try {host}", options={"host": "127.0.0.1"}
        ) from error
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(WAITING_ROOM)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PellucidError(
                f"port {port} is in use by another program", fix="Try {port} for a free one", options={"port": 0}
            ) from error
        raise PellucidError(
            f"nothing can listen at {host}, port {port}: {error.strerror}",
            fix="Try {host} and a port above 1023",
            options={"host": "127.0.0.1"},
        ) from error
    return listener


class HttpServer:
    """An ASGI app on a listening socket, from `run` until a signal or `stop`.

    on_end: called once when the end begins, in the server's own thread, so that streams can be told to finish.
    urgent: with what a request begins that goes before all others that have come.
    """

    def __init__(
        self,
        app: ASGIApp,
        listener: socket.socket,
        limits: Limits,
        *,
        on_end: Callable[[], None] = lambda: None,
        urgent: tuple[bytes, ...] = (),
    ) -> None:
        self.listener = listener
        self.ended_by: int | None = None
        protocol = type("LimitedProtocol", (_LimitedProtocol,), {"limits": limits, "queue": _Queue(urgent)})
        config = uvicorn.Config(
            app,
            http=protocol,
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            log_level="critical",
            access_log=False,  # it would hold what people ask for
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=max(1, round(limits.idle_seconds)),
            timeout_graceful_shutdown=max(1, round(limits.ending_seconds)),
            h11_max_incomplete_event_size=HEADER_BYTES,
            backlog=TAKEN_IN,
        )
        self._server = _Server(config, self._noted, on_end)

    @property
    def address(self) -> tuple[str, int]:
        """The host and port that it listens at."""
        host, port, *_ = self.listener.getsockname()
        return str(host), int(port)

    @property
    def is_ending(self) -> bool:
        """Whether it was asked to end; a stream without an end of its own asks this now and then."""
        return self._server.should_exit

    def run(self, on_ready: Callable[[], None] = lambda: None) -> int | None:
        """Answer until SIGINT, SIGTERM or `stop`; the number of the signal that ended it, if one did."""
        self._server.on_ready = on_ready
        self._server.run(sockets=[self.listener])
        return self.ended_by

    def stop(self) -> None:
        """Ask it to end: no new connections, a moment for answers under way. From any thread."""
        self._server.end()

    @contextlib.contextmanager
    def in_thread(self) -> Iterator["HttpServer"]:
        """Run it beside what is in the block, and end it afterwards."""
        ready = threading.Event()
        thread = threading.Thread(target=self.run, args=(ready.set,), daemon=True)
        thread.start()
        ready.wait(30)
        try:
            yield self
        finally:
            self.stop()
            thread.join(30)

    def _noted(self, number: int) -> None:
        self.ended_by = number


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready and ends without raising the signal again."""

    def __init__(self, config: uvicorn.Config, on_signal: Callable[[int], None], on_end: Callable[[], None]) -> None:
        super().__init__(config)
        self.on_signal = on_signal
        self.on_ready: Callable[[], None] = lambda: None
        self.on_end = on_end

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            listener.listen(WAITING_ROOM)
        if self.started:
            self.on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.on_end()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.on_signal(sig)
        if self.should_exit and sig == signal.SIGINT:
            self.force_exit = True
        self.end()

    def end(self) -> None:
        self.should_exit = True


class _Queue:
    """What connections have sent and nobody has read yet: so much of it is read at a turn of the loop, and no more.

    Else a crowd that comes between two turns is answered in one, and everybody waits for all of it.
    """

    def __init__(self, urgent: tuple[bytes, ...]) -> None:
        self.urgent = urgent
        self.waiting: deque[tuple[_LimitedProtocol, bytes]] = deque()
        self.n_left = READ_AT_ONCE
        self.is_due = False

    def put(self, connection: "_LimitedProtocol", data: bytes) -> None:
        is_next = bool(self.n_left) and not self.waiting
        if is_next or data.startswith(self.urgent):
            self.n_left = max(0, self.n_left - 1)
            connection.read(data)
        else:
            connection.transport.pause_reading()
            self.waiting.append((connection, data))
        self._go_on(connection.loop)

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self.is_due:
            self.is_due = True
            loop.call_soon(self._begin_turn, loop)

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self.is_due, self.n_left = False, READ_AT_ONCE
        while self.waiting and self.n_left:
            connection, data = self.waiting.popleft()
            if not connection.transport.is_closing():
                self.n_left -= 1
                connection.read(data)
                if not connection.flow.read_paused:
                    connection.transport.resume_reading()
        if self.waiting:
            self._go_on(loop)


class _LimitedProtocol(H11Protocol):
    """One connection, on which everything that a client should do has its time."""

    limits: Limits
    queue: _Queue
    _deadline: asyncio.TimerHandle | None = None
    _write_deadline: asyncio.TimerHandle | None = None
    _turn: asyncio.TimerHandle | None = None
    _is_new = True
    _received = 0  # bytes of the request that is arriving
    _is_in_body = False
    _begun_at = 0.0
    _body_begun_at = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._begun_at = self.loop.time()
        self._arm(self.limits.header_seconds)
        # A timer, and no look at the clock: it comes after what has arrived was read, however busy the loop is.
        self._turn = self.loop.call_later(self.limits.grace_seconds, self._end_grace)
        if len(self.connections) > self.limits.connections:
            self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in (self._deadline, self._write_deadline, self._turn):
            if timer is not None:
                timer.cancel()
        self._deadline = self._write_deadline = self._turn = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.queue.put(self, data)

    def read(self, data: bytes) -> None:
        """Take what came, when its turn is."""
        if self._deadline is None and self._is_waiting:
            self._begun_at = self.loop.time()
            self._arm(self.limits.header_seconds)
        self._received += len(data)
        if self._received > self.limits.request_bytes:
            self.transport.abort()
            return
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_deadline = self.loop.call_later(self.limits.write_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_deadline is not None:
            self._write_deadline.cancel()
            self._write_deadline = None

    def send_400_response(self, msg: str) -> None:
        # Called while h11's error is being handled, which knows the better number: 431 for headers without end.
        error = sys.exception()
        status = getattr(error, "error_status_hint", 400) if isinstance(error, h11.RemoteProtocolError) else 400
        self._refuse(431 if status == 431 else 400, "the request is not HTTP that can be understood")

    @property
    def _is_waiting(self) -> bool:
        """Whether it waits for (the rest of) a request, and no app works on one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    def _follow(self) -> None:
        """Set the time of whatever has to come next."""
        if self.transport.is_closing():
            return
        if self.conn.their_state is h11.SEND_BODY:
            if not self._is_in_body:
                self._is_in_body = True
                self._body_begun_at = self.loop.time()
            allowed = self.limits.body_seconds + self._received / self.limits.body_bytes_per_second
            self._arm(max(0.0, self._body_begun_at + allowed - self.loop.time()))
        elif self.conn.their_state is not h11.IDLE or self.timeout_keep_alive_task is not None:
            # The request is whole, or another may come: then the time for idle connections holds.
            self._received = 0
            self._is_in_body = False
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    def _arm(self, seconds: float) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(seconds, self._late)

    def _end_grace(self) -> None:
        self._is_new = False

    def _late(self) -> None:
        self._deadline = None
        self._refuse(408, "the request did not arrive in time")

    def _make_room(self) -> None:
        """Close the connection that has waited longest for a request; where all are at work, this one."""
        waiting = [one for one in self.connections if isinstance(one, _LimitedProtocol) and one._is_waiting]
        longest = min(waiting, key=lambda one: (one._is_new, one._begun_at), default=self)
        if longest._is_new and len(self.connections) <= 2 * self.limits.connections:
            return
        longest.transport.abort()
        self.connections.discard(longest)

    def _refuse(self, status: int, what: str) -> None:
        """A last answer, where one can still be given, and the end of the connection."""
        if self.transport.is_closing():
            return
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = error_body(PellucidError(what, fix="Send it again, whole"))
            headers = [
                *((name, value) for name, value in SECURITY_HEADERS),
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            with contextlib.suppress(h11.LocalProtocolError):
                for event in (
                    h11.Response(status_code=status, headers=headers),
                    h11.Data(data=body),
                    h11.EndOfMessage(),
                ):
                    self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()
