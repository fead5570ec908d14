"""The lab's app behind its door: what is served to whom, and where everything of one start is kept."""

from __future__ import annotations

import hashlib
import socket
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import wait
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from pellucid.api.exports import ExportProcesses
from pellucid.api.processes import TrainingProcesses
from pellucid.http.answers import Refusal, build_app
from pellucid.http.door import Door, DoorRules
from pellucid.lab.memory import ReleasesMemory
from pellucid.lab.session import Session
from pellucid.lab.workers import Worker

UPLOAD_BYTES = 1 << 30
ENDING_SECONDS = 2.0  # for work that is begun when the lab ends
JSON_BYTES = 1 << 20
UPLOADS = ("/api/upload", "/api/upload/folder")
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".json": "application/json",
}


@dataclass
class Lab:
    """Everything of one start: where runs and data are, who works, and whether it ends."""

    runs: Path
    folder: Path
    session: Session
    is_ending: Callable[[], bool] = lambda: False
    speak: Worker = field(default_factory=lambda: Worker("speak"))
    measure: Worker = field(default_factory=lambda: Worker("measure"))

    @property
    def kept(self) -> Path:
        """Where the lab keeps what is its own: dropped files, and what trainings said."""
        return self.runs / ".lab"

    @property
    def dropped(self) -> Path:
        return self.kept / "dropped"

    @cached_property
    def trainings(self) -> TrainingProcesses:
        return TrainingProcesses(self.runs, self.kept)

    @cached_property
    def exports(self) -> ExportProcesses:
        return ExportProcesses(self.runs, self.kept / "exports")

    def background(self, work: Callable[[], None]) -> None:
        """Begin something that takes long, such as a claim in processes of its own; nobody waits for it."""
        threading.Thread(target=work, daemon=True).start()

    def close(self) -> bool:
        """Let go of what waits, and give what is begun a moment to end; whether it did."""
        self.exports.close()
        return not wait([*self.speak.close(), *self.measure.close()], ENDING_SECONDS).not_done


class StaticFiles:
    """The pages' files, read once: what is not among them is not there, whatever a path says."""

    def __init__(self, root: Traversable) -> None:
        self._found = {name: (content, _kind(name), _tag(content)) for name, content in _walk(root)}

    def answer(self, name: str, request: Request) -> Response:
        found = self._found.get(name)
        if found is None:
            raise Refusal(404, "there is nothing at this address", fix="Go to the first page")
        content, kind, tag = found
        headers = {"etag": tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type=kind, headers=headers)


def _walk(root: Traversable, before: str = "") -> Iterable[tuple[str, bytes]]:
    for one in root.iterdir():
        if one.is_dir():
            yield from _walk(one, f"{before}{one.name}/")
        else:
            yield before + one.name, one.read_bytes()


def _kind(name: str) -> str:
    return KINDS.get(Path(name).suffix, "application/octet-stream")


def _tag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:32]}"'


def build_lab(lab: Lab, listener: socket.socket, names: Iterable[str] = ()) -> ASGIApp:
    """The app and its door. names: other hosts that the lab is called by, where it is open to a network."""
    from pellucid.api.views import import_whole_packages
    from pellucid.lab import exports, runs, speaking, teaching, training

    import_whole_packages()
    static = StaticFiles(files("pellucid.lab") / "static")

    # What is in memory is answered where it is asked, without the way through a thread.
    async def shell(request: Request) -> Response:
        token = request.query_params.get("token")
        if token is not None:
            entered = lab.session.enter(token)
            if entered is None:
                return static.answer("closed.html", request)
            return entered
        return static.answer("index.html", request)

    def graph_style(_: Request) -> Response:
        from pellucid.api.views import graph_styles

        return Response(graph_styles(), media_type="text/css; charset=utf-8")

    async def page_file(request: Request) -> Response:
        return static.answer(request.path_params["path"], request)

    routes: list[BaseRoute] = [
        Route("/", shell),
        Route("/static/graph.css", graph_style),
        Route("/static/{path:path}", page_file),
        *runs.routes(lab),
        *exports.routes(lab),
        *training.routes(lab),
        *speaking.routes(lab),
        *teaching.routes(lab),
    ]
    rules = DoorRules.of(
        listener,
        names,
        admits=lab.session.admits,
        is_open=lambda path: path == "/" or path.startswith("/static/"),
        body_bytes=lambda path: UPLOAD_BYTES if path in UPLOADS else JSON_BYTES,
        takes_octets=lambda path: path in UPLOADS,
        in_flight=96,
    )
    return ReleasesMemory(Door(build_app(routes), rules))
