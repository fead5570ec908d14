"""A run for other tools: begun here, written and checked in a process of its own, and taken along as one zip file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from pellucid.errors import PellucidError
from pellucid.http.answers import Refusal, json_answer, read_fields
from pellucid.lab.app import Lab

PART_BYTES = 1 << 20


@dataclass(frozen=True)
class ExportQuestion:
    to: str
    network_only: bool = False


def routes(lab: Lab) -> list[BaseRoute]:
    def exports(request: Request) -> Response:
        return json_answer(lab.exports.describe(request.path_params["name"]))

    async def export(request: Request) -> Response:
        asked, name = await read_fields(request, ExportQuestion), request.path_params["name"]
        job = await run_in_threadpool(lab.exports.start, name, asked.to, is_network_only=asked.network_only)
        return json_answer(job.describe(), 202)

    def exported(request: Request) -> Response:
        name, to = request.path_params["name"], request.path_params["to"]
        try:
            path = lab.exports.find_zip(name, to)
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        except PellucidError as error:
            raise Refusal(404, error.what, fix=error.fix) from error
        except OSError as error:
            raise Refusal(404, "that was not exported here", fix="Export it first") from error
        headers = {
            "content-disposition": f'attachment; filename="{path.name}"',
            "content-length": str(os.fstat(descriptor).st_size),
            "content-security-policy": "default-src 'none'; sandbox",
        }
        return StreamingResponse(_parts(descriptor), media_type="application/octet-stream", headers=headers)

    return [
        Route("/api/runs/{name}/exports", exports),
        Route("/api/runs/{name}/exports", export, methods=["POST"]),
        Route("/api/runs/{name}/exports/{to}.zip", exported),
    ]


def _parts(descriptor: int) -> Iterator[bytes]:
    """A file in parts, so that a large one is never in memory as a whole."""
    with os.fdopen(descriptor, "rb") as file:
        while part := file.read(PART_BYTES):
            yield part
