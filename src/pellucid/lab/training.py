"""Data that are dropped or picked, what they are and how they divide, and trainings in processes of their own."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pellucid.api.preview import find_source, list_data, preview_data, preview_plan, preview_split, train_choices
from pellucid.api.runs import run_folder
from pellucid.errors import PellucidError
from pellucid.http.answers import Refusal, json_answer, read_fields
from pellucid.lab.app import Lab
from pellucid.records import DatasetFacts

DROPPED = re.compile(r"[0-9a-f]{16}/[A-Za-z0-9_][A-Za-z0-9._-]{0,80}")
ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}")


@dataclass(frozen=True)
class PickedData:
    """Data by where they are and what they are called there; never by a path."""

    where: str
    name: str
    options: dict[str, Any] = field(default_factory=dict)
    run: str = ""


def routes(lab: Lab) -> list[BaseRoute]:
    def source_of(picked: PickedData) -> str:
        if picked.where == "dropped":
            return str(dropped_file(lab, picked.name))
        return find_source(picked.where, picked.name, lab.folder)

    async def upload(request: Request) -> Response:
        return json_answer(await _keep(lab, request))

    async def preview(request: Request) -> Response:
        picked = await read_fields(request, PickedData)
        source = source_of(picked)
        return await lab.measure.do(lambda: json_answer(preview_data(source, picked.options)), key="preview")

    async def split(request: Request) -> Response:
        picked = await read_fields(request, PickedData)
        source = source_of(picked)
        return await lab.measure.do(lambda: json_answer({"text": preview_split(source, picked.options)}), key="split")

    async def plan(request: Request) -> Response:
        picked = await read_fields(request, PickedData)
        source = source_of(picked)
        return await lab.measure.do(lambda: json_answer(preview_plan(source, picked.options)), key="plan")

    async def start(request: Request) -> Response:
        picked = await read_fields(request, PickedData)
        source = source_of(picked)
        name = await run_in_threadpool(lab.trainings.start, source, picked.options, picked.run)
        return json_answer({"run": name}, 201)

    async def stop(request: Request) -> Response:
        path = run_folder(request.path_params["name"], lab.runs)
        await run_in_threadpool(lab.trainings.stop, path.name)
        return json_answer({})

    async def resume(request: Request) -> Response:
        path = run_folder(request.path_params["name"], lab.runs)
        await run_in_threadpool(lab.trainings.resume, path.name)
        return json_answer({})

    async def choices(_: Request) -> Response:
        return json_answer(train_choices())

    async def data(_: Request) -> Response:
        return json_answer({"data": list_data(lab.folder, lab.dropped)})

    async def warm(_: Request) -> Response:
        def work() -> Response:
            import importlib

            importlib.import_module("torch")
            return json_answer({})

        return await lab.measure.do(work, key="warm")

    return [
        Route("/api/upload", upload, methods=["POST"]),
        Route("/api/data", data),
        Route("/api/train/choices", choices),
        Route("/api/train/preview", preview, methods=["POST"]),
        Route("/api/train/split", split, methods=["POST"]),
        Route("/api/train/plan", plan, methods=["POST"]),
        Route("/api/train/start", start, methods=["POST"]),
        Route("/api/runs/{name}/stop", stop, methods=["POST"]),
        Route("/api/runs/{name}/resume", resume, methods=["POST"]),
        Route("/api/warm", warm, methods=["POST"]),
    ]


def safe_name(name: str) -> str:
    """What is left of the name that a file had, for people to know it by.

    >>> safe_name("../../etc/pass wd.TXT"), safe_name(""), safe_name('"><svg onload=x>.csv')
    ('pass-wd.txt', 'data', 'svg-onload-x.csv')
    """
    last = re.split(r"[/\\\\]", name)[-1]
    stem, dot, ending = last.rpartition(".")
    if not stem or not ENDING.fullmatch(f".{ending}"):
        stem, dot, ending = last, "", ""
    stem = re.sub(r"[^A-Za-z0-9_]+", "-", stem).strip("-")[:56] or "data"
    return f"{stem}{dot}{ending.lower()}"


def dropped_file(lab: Lab, word: str) -> Path:
    """A file that was dropped, by what it was called in our list."""
    path = lab.dropped / word
    if not DROPPED.fullmatch(word) or path.is_symlink() or not path.is_file():
        raise PellucidError("that file was never dropped here", fix="Drop it again")
    return path


async def _keep(lab: Lab, request: Request) -> DatasetFacts:
    """Write what comes into a file of our own as it comes; its folder is called by what is in it."""
    name = safe_name(request.query_params.get("name", "")[:400])
    lab.dropped.mkdir(parents=True, exist_ok=True, mode=0o700)
    digest, n_bytes = hashlib.sha256(), 0
    descriptor, temporary = tempfile.mkstemp(prefix=".tmp-", dir=lab.dropped)
    try:
        with os.fdopen(descriptor, "wb") as file:
            async for part in request.stream():
                digest.update(part)
                n_bytes += len(part)
                await run_in_threadpool(file.write, part)
        if not n_bytes:
            raise Refusal(400, "the file is empty", fix="Drop another")
        folder = lab.dropped / digest.hexdigest()[:16]
        folder.mkdir(exist_ok=True, mode=0o700)
        os.replace(temporary, folder / name)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return DatasetFacts(f"{folder.name}/{name}", "", "", "dropped", n_bytes)
