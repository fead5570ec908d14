"""The addresses of a server, and how it is put together and run.

GET /v1/models    POST /v1/completions    POST /v1/predict    GET /health    GET /metrics
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Iterator

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from pellucid.api.serving import ServedRun
from pellucid.errors import PellucidError, quoted
from pellucid.http.answers import Refusal, build_app, read_json
from pellucid.http.door import BearerKey, Door, DoorRules, admit_everyone
from pellucid.http.server import HttpServer, Limits, Listener
from pellucid.serve.completion_calls import CompletionAnswer, CompletionCall, read_call, require_model
from pellucid.serve.generation import Busy, GenerationThread, Said, Ticket
from pellucid.serve.metrics import CONTENT_TYPE, CountedAnswers, Metrics
from pellucid.serve.options import ServeOptions
from pellucid.serve.prediction_calls import answer_of, predict

COMPLETION_BYTES = 1 << 20  # of a body; a prompt is a few thousand tokens
PREDICTION_BYTES = 16 << 20
# Beside those that are answered: whoever comes when all is full is told 429, and for that has to be let in.
MORE_CONNECTIONS = 2048
OTHER_FILES = 128  # that are open beside connections
MOST_PREDICTING = 16  # requests that wait for the one thread that predicts
PATHS = ("/v1/models", "/v1/completions", "/v1/predict", "/health", "/metrics")


class Service:
    """What the addresses answer with: the run, the thread that draws, and the counts."""

    def __init__(self, served: ServedRun, options: ServeOptions) -> None:
        self.served, self.options = served, options
        self.metrics = Metrics()
        self.keeps_bits = served.keeps_bits()
        self.generation: GenerationThread | None = None
        if served.writes:
            batch = served.completion_batch(options.batch)
            self.generation = GenerationThread(batch, options.batch, options.queue, self.metrics)
        self._predicting = asyncio.Lock()
        self._n_predicting = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[Service]:
        """While this holds, prompts are gone on with."""
        if self.generation is not None:
            self.generation.start()
        try:
            yield self
        finally:
            if self.generation is not None:
                self.generation.end()

    def app(self) -> Starlette:
        routes = [
            Route("/v1/models", self.list_models, methods=["GET"]),
            Route("/v1/models/{name:path}", self.show_model, methods=["GET"]),
            Route("/v1/completions", self.complete, methods=["POST"]),
            Route("/v1/predict", self.predict, methods=["POST"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/metrics", self.show_metrics, methods=["GET"]),
        ]
        app = build_app(routes)
        app.add_exception_handler(PellucidError, _refused)
        return app

    async def list_models(self, request: Request) -> Response:
        return _answer({"object": "list", "data": [self._model()]})

    async def show_model(self, request: Request) -> Response:
        require_model({"model": request.path_params["name"]}, self.served.name)
        return _answer(self._model())

    def _model(self) -> dict[str, object]:
        served = self.served
        return {
            "id": served.name,
            "object": "model",
            "created": served.created,
            "owned_by": "pellucid",
            "kind": served.kind,
            "fingerprint": f"fp_{served.fingerprint}",
            **({"longest_prompt": served.language_model.longest_prompt} if served.writes else {}),
        }

    async def health(self, request: Request) -> Response:
        running = {} if self.generation is None else {
            "running": self.generation.n_running, "waiting": self.generation.n_waiting
        }  # fmt: skip
        bits = {} if self.keeps_bits is None else {"same_bits_in_any_batch": self.keeps_bits}
        return _answer({"status": "ok", "fingerprint": f"fp_{self.served.fingerprint}", **running, **bits})

    async def show_metrics(self, request: Request) -> Response:
        gauges: dict[str, tuple[str, float]] = {"memory_bytes": ("Resident memory.", _resident_bytes())}
        if self.generation is not None:
            gauges["completions_running"] = ("Completions that are drawn for.", self.generation.n_running)
            gauges["completions_waiting"] = ("Completions that wait.", self.generation.n_waiting)
        return Response(self.metrics.text(gauges), media_type=CONTENT_TYPE)

    async def complete(self, request: Request) -> Response:
        began = time.monotonic()
        body = await read_json(request)
        require_model(body, self.served.name)
        call = read_call(body)
        prompts = call.prepare(self.served)
        assert self.generation is not None, "a run that writes no text refuses every prompt"
        self.metrics.count_prompt(sum(len(prompt.tokens) for prompt in prompts))
        ticket = self.generation.submit(prompts, self.options.seconds, is_streamed=call.is_streamed)
        answer = CompletionAnswer(self.served, prompts)
        leaving = asyncio.ensure_future(_left(request))
        try:
            # Of a stream the first piece is waited for, so that a request that waited in vain still gets its 429.
            found = await _next(ticket, leaving)
        except BaseException:
            self.generation.give_up(ticket)
            raise
        finally:
            leaving.cancel()
        self.metrics.count_first_token(ticket.first_token_at - began)
        if call.is_streamed:
            return StreamingResponse(self._stream(ticket, answer, call, found), media_type="text/event-stream")
        answer.add(found)
        return _answer(answer.whole())

    async def _stream(
        self, ticket: Ticket, answer: CompletionAnswer, call: CompletionCall, found: list[Said]
    ) -> AsyncIterator[bytes]:
        """Events as pieces come. Where the client leaves, it is cancelled at a `yield`, and the ticket given up."""
        try:
            while True:
                if part := answer.parts(found, _encoded, tells_usage=call.tells_usage):
                    yield part
                if ticket.is_finished:
                    break
                found = await ticket.next()
            if call.tells_usage:
                yield b"data: " + _encoded({**answer.head, "choices": [], "usage": answer.usage()}) + b"\n\n"
            yield b"data: [DONE]\n\n"
        finally:
            assert self.generation is not None
            self.generation.give_up(ticket)

    async def predict(self, request: Request) -> Response:
        body = await read_json(request)
        require_model(body, self.served.name)
        if self.served.writes:
            raise PellucidError(
                f"the network of {quoted(self.served.name)} goes on with a text, and predicts nothing",
                fix="Ask /v1/completions",
            )
        if self._n_predicting >= MOST_PREDICTING:
            raise Busy(1)
        self._n_predicting += 1
        try:
            async with self._predicting:
                found = await asyncio.to_thread(predict, self.served, body)
        finally:
            self._n_predicting -= 1
        self.metrics.count_predicted(len(found.predictions))
        return _answer(answer_of(found, self.served))


async def _next(ticket: Ticket, leaving: asyncio.Future[None]) -> list[Said]:
    """What comes for a ticket, unless its client leaves before."""
    coming = asyncio.ensure_future(ticket.next())
    try:
        await asyncio.wait((coming, leaving), return_when=asyncio.FIRST_COMPLETED)
        if coming.done():
            return coming.result()
        raise ClientDisconnect
    finally:
        coming.cancel()


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _encoded(plain: object) -> bytes:
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def _answer(plain: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_encoded(plain), status, headers, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    """An error of ours in the form that OpenAI's clients read; options are spelled as fields of the body."""
    assert isinstance(error, PellucidError)
    status = error.status if isinstance(error, Refusal) else 400
    kinds = {404: "not_found_error", 429: "rate_limit_error"}
    message = error.line(lambda name, value: f'"{name}"' if value is None else f'"{name}": {json.dumps(value)}')
    plain = {"message": message, "type": kinds.get(status, "invalid_request_error"), "param": None, "code": None}
    headers = {"retry-after": str(error.retry_after)} if isinstance(error, Busy) else None
    return _answer({"error": plain}, status, headers)


def _resident_bytes() -> float:
    """Memory of this process; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096.0
    except OSError:
        return 0.0


def _allow_connections(wanted: int) -> int:
    """How many connections there may be: as many as wanted, where the system lets so many files be open."""
    try:
        import resource
    except ImportError:
        return min(wanted, 400)  # Windows waits for 512 sockets at most
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    if soft != unlimited and soft < wanted + OTHER_FILES:
        more = wanted + OTHER_FILES if hard == unlimited else min(hard, wanted + OTHER_FILES)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (more, hard))
            soft = more
    return wanted if soft == unlimited else max(16, min(wanted, soft - OTHER_FILES))


def build_server(service: Service, listener: Listener) -> HttpServer:
    """The service at its address. Whoever is not on this machine has to send a key."""
    options = service.options
    key = options.read_key()
    rules = DoorRules.of(
        listener,
        admits=BearerKey(key) if key else admit_everyone,
        is_open=lambda path: path == "/health",
        body_bytes=lambda path: PREDICTION_BYTES if path == "/v1/predict" else COMPLETION_BYTES,
        in_flight=options.batch + options.queue + 64,
        is_never_full=lambda path: path == "/health",
    )
    app: ASGIApp = CountedAnswers(Door(service.app(), rules), service.metrics, PATHS.__contains__)
    limits = Limits(
        ending_seconds=max(1.0, options.grace),
        connections=_allow_connections(options.batch + options.queue + MORE_CONNECTIONS),
        request_bytes=1 << 25,
    )
    return HttpServer(app, listener, limits, urgent=(b"GET /health ",))
