"""The door: what is decided about a request before any app sees it.

Loopback is no boundary: every page in the user's browser can send requests there. So each request shows that it came
from us (Host, Origin, Sec-Fetch-Site), who sends it (a key or a cookie), and that it is of a kind and size that we
take. Everything is read from the raw ASGI scope, never from a URL that was put together again. In this order:

    path that is no path                                  400      method that is not known here            405
    headers longer than 16 KB, or more than 64            431      two Host lines, or none                  400
    Host that is not ours (DNS rebinding)                 403      Sec-Fetch-Site of another site           403
    Origin that is not ours, `null` too                   403      no key, or a wrong one                   401
    a body that is neither JSON nor octets                415      a body that is too long                  413
    too many at once                                      429      no answer when the server ends           503

No CORS header is ever sent. Every answer carries the security headers, whoever made it.
"""

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pellucid.http.answers import Refusal, bug_answer, error_answer

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; "
    "connect-src 'self'; frame-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
SECURITY_HEADERS: tuple[tuple[bytes, bytes], ...] = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-store"),
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})
WITH_BODY = frozenset({"POST", "PUT", "DELETE"})
MOST_HEADERS, MOST_HEADER_BYTES = 64, 16 * 1024


class RequestHeaders:
    """The headers of a scope, by lower-case name; a name that stands twice is told."""

    def __init__(self, scope: Scope) -> None:
        self._found: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            self._found.setdefault(name.lower(), []).append(value)

    def every(self, name: str) -> list[str]:
        """All values of that name, in the order they came."""
        return [value.decode("latin-1") for value in self._found.get(name.encode(), [])]

    def one(self, name: str) -> str | None:
        """The value of that name; None where there is none or more than one."""
        values = self.every(name)
        return values[0] if len(values) == 1 else None


def equals_secret(given: str, secret: str) -> bool:
    """Whether both are equal, in a time that does not tell how far they agree."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), secret.encode("utf-8"))


@dataclass(frozen=True)
class BearerKey:
    """Admits who sends `Authorization: Bearer <key>`."""

    key: str = field(repr=False)

    def __call__(self, headers: RequestHeaders) -> bool:
        kind, _, given = (headers.one("authorization") or "").partition(" ")
        return kind.lower() == "bearer" and equals_secret(given.strip(), self.key)


def admit_everyone(_: RequestHeaders) -> bool:
    """No key is asked for."""
    return True


@dataclass(frozen=True)
class DoorRules:
    """What a door lets through.

    host, port: where the server listens; names: other hosts that it may be called by, without port.
    admits: whether the headers hold a key or cookie that is good.
    is_open: paths that hold nothing of anyone's and need no key, such as a page without data.
    body_bytes: the longest body by path; octets: the paths that take `application/octet-stream` besides JSON.
    in_flight: how many requests may be worked on at once.
    is_never_full: paths that are answered beyond that, such as the one that says whether the server is well.
    """

    host: str
    port: int
    names: frozenset[str] = frozenset()
    admits: Callable[[RequestHeaders], bool] = admit_everyone
    is_open: Callable[[str], bool] = lambda path: False
    body_bytes: Callable[[str], int] = lambda path: 1 << 20
    takes_octets: Callable[[str], bool] = lambda path: False
    in_flight: int = 64
    is_never_full: Callable[[str], bool] = lambda path: False

    @classmethod
    def of(cls, listener: socket.socket, names: Iterable[str] = (), **choices: object) -> "DoorRules":
        """The rules for a socket that listens."""
        host, port, *_ = listener.getsockname()
        return cls(str(host), int(port), frozenset(name.lower() for name in names), **choices)  # type: ignore[arg-type]

    def is_own_host(self, host: str) -> bool:
        """Whether a Host header is one that this server is called by; compared whole, never by a part of it.

        >>> rules = DoorRules("127.0.0.1", 8000)
        >>> [rules.is_own_host(host) for host in ("127.0.0.1:8000", "LOCALHOST:8000", "localhost", "127.1:8000")]
        [True, True, False, False]

        A server for the whole network is called by whatever address it has: an address can't be rebound, a name can.

        >>> wide = DoorRules("0.0.0.0", 8000, frozenset({"desk.lan"}))
        >>> [wide.is_own_host(h) for h in ("192.168.0.7:8000", "desk.lan:8000", "attacker.example:8000")]
        [True, True, False]
        """
        host = host.lower()
        name, colon, port = host.rpartition(":")
        if not colon or port != str(self.port):
            return False
        if name in ("127.0.0.1", "localhost", "[::1]") or name in self.names:
            return True
        inner = name[1:-1] if name.startswith("[") and name.endswith("]") else name
        try:
            address = ipaddress.ip_address(inner)
        except ValueError:
            return False
        listens_at = ipaddress.ip_address(self.host)
        return address == listens_at or (listens_at.is_unspecified and not address.is_unspecified)


class Door:
    """ASGI middleware that stands before everything, HTTP and other scopes alike."""

    def __init__(self, app: ASGIApp, rules: DoorRules) -> None:
        self.app = app
        self.rules = rules
        self._under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no lifespan, and no other protocol is spoken here
        is_begun = False

        async def send_safely(message: Message) -> None:
            nonlocal is_begun
            if message["type"] == "http.response.start":
                is_begun = True
                headers = list(message.get("headers", []))
                here = {name.lower() for name, _ in headers}
                headers += [(name, value) for name, value in SECURITY_HEADERS if name not in here]
                message = {**message, "headers": headers}
            await send(message)

        refusal = self.check(scope)
        if refusal is not None:
            await error_answer(refusal)(scope, receive, send_safely)
            return
        counted = _Counted(receive, self.rules.body_bytes(scope["path"]), self._count)
        self._under_way += 1
        try:
            await self.app(scope, counted.receive, send_safely)
        except asyncio.CancelledError:
            if not is_begun:  # asked to end, the server waits no longer
                ending = Refusal(503, "the server is ending", fix="Ask again when it has begun anew")
                await error_answer(ending)(scope, receive, send_safely)
            raise
        except Exception as error:
            if not is_begun:
                # A body that is too long reaches the app as an error, and may come back as another one.
                answer = error_answer(counted.refusal) if counted.refusal else bug_answer(error)
                await answer(scope, receive, send_safely)
        finally:
            self._under_way -= 1

    def _count(self, change: int) -> None:
        self._under_way += change

    def check(self, scope: Scope) -> Refusal | None:
        """Why a request may not pass, or None. It reads the scope and nothing else."""
        headers = RequestHeaders(scope)
        method, path = scope["method"], scope["path"]
        if not path.startswith("/") or not scope.get("raw_path", b"/").startswith(b"/") or "\x00" in path:
            return Refusal(400, "the address is no path", fix="Begin it with /")
        if method not in METHODS:
            return Refusal(405, "this method is not known here", fix=f"Use one of {', '.join(sorted(METHODS))}")
        length = sum(len(name) + len(value) for name, value in scope["headers"])
        if len(scope["headers"]) > MOST_HEADERS or length > MOST_HEADER_BYTES:
            return Refusal(431, "the headers are too long", fix="Send fewer")
        hosts = headers.every("host")
        if len(hosts) != 1:
            return Refusal(400, "one Host is wanted", fix="Send exactly one")
        if not self.rules.is_own_host(hosts[0]):
            return Refusal(403, "this server is not called that", fix="Open it by the address that it printed")
        return (
            self._check_origin(scope, headers, hosts[0])
            or self._check_key(headers, path)
            or self._check_body(headers, method, path)
            or self._check_room(path)
        )

    def _check_origin(self, scope: Scope, headers: RequestHeaders, host: str) -> Refusal | None:
        no = Refusal(403, "another site may not ask here", fix="Open the address that was printed in a tab of its own")
        # A link from elsewhere may show the page, which holds no data; what it loads is then of the same origin.
        is_a_visit = scope["method"] == "GET" and scope["path"] == "/" and headers.one("sec-fetch-mode") == "navigate"
        sites = headers.every("sec-fetch-site")
        if any(site not in ("same-origin", "none") for site in sites) and not is_a_visit:
            return no
        origins = headers.every("origin")
        if any(origin != f"http://{host.lower()}" for origin in origins):
            return no
        return None

    def _check_key(self, headers: RequestHeaders, path: str) -> Refusal | None:
        if self.rules.is_open(path) or self.rules.admits(headers):
            return None
        fix = "Send it as Authorization: Bearer KEY, or use the address that was printed at the start"
        return Refusal(401, "a key is wanted", fix=fix)

    def _check_body(self, headers: RequestHeaders, method: str, path: str) -> Refusal | None:
        if method not in WITH_BODY:
            return None
        kind = (headers.one("content-type") or "").split(";")[0].strip().lower()
        takes = "application/octet-stream" if self.rules.takes_octets(path) else "application/json"
        if kind != takes:
            return Refusal(415, "the body is of another kind", fix=f"Send it as {takes}")
        length = headers.one("content-length")
        if length is not None and (not length.isascii() or not length.isdigit()):
            return Refusal(400, "the length of the body is no number", fix="Send the right one")
        if length is not None and (len(length) > 15 or int(length) > self.rules.body_bytes(path)):
            return _too_long(self.rules.body_bytes(path))
        return None

    def _check_room(self, path: str) -> Refusal | None:
        if self._under_way >= self.rules.in_flight and not self.rules.is_never_full(path):
            return Refusal(429, "too much is asked for at once", fix="Try again in a second")
        return None


def _too_long(most: int) -> Refusal:
    return Refusal(413, f"the body is longer than {most:,} bytes", fix="Send less at once")


class _Counted:
    """A receive that counts: more than may come is refused while it is read, whatever the length said.

    A request whose body is still on its way is not worked on, so that slow clients take no room from others.
    """

    def __init__(self, receive: Receive, most: int, count: Callable[[int], None]) -> None:
        self._receive = receive
        self._most = most
        self._count = count
        self._come = 0
        self._is_whole = False
        self.refusal: Refusal | None = None

    async def receive(self) -> Message:
        message = await self._receive_next()
        if message["type"] == "http.request":
            self._is_whole = not message.get("more_body", False)
            self._come += len(message.get("body", b""))
            if self._come > self._most:
                self.refusal = _too_long(self._most)
                raise self.refusal
        return message

    async def _receive_next(self) -> Message:
        if self._is_whole:
            return await self._receive()
        self._count(-1)
        try:
            return await self._receive()
        finally:
            self._count(1)
