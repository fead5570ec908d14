"""Data that were dropped or picked, what they are and how they divide, and trainings in processes of their own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pellucid.api.preview import find_source, list_data, preview_data, preview_plan, preview_split, train_choices
from pellucid.api.runs import run_folder
from pellucid.http.answers import json_answer, read_fields
from pellucid.lab.app import Lab
from pellucid.lab.uploads import dropped_data, keep_file, keep_folder


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
            return str(dropped_data(lab, picked.name))
        return find_source(picked.where, picked.name, lab.folder)

    async def read_picked(request: Request) -> PickedData:
        picked = await read_fields(request, PickedData)
        if not picked.options.get("from_run"):
            return picked
        begins = run_folder(str(picked.options["from_run"]), lab.runs).resolve()  # a run of ours by its name, no path
        return replace(picked, options={**picked.options, "from_run": str(begins)})

    async def upload(request: Request) -> Response:
        return json_answer(await keep_file(lab, request))

    async def upload_folder(request: Request) -> Response:
        return json_answer(await keep_folder(lab, request))

    async def preview(request: Request) -> Response:
        picked = await read_picked(request)
        source = source_of(picked)
        return await lab.measure.do(lambda: json_answer(preview_data(source, picked.options)), key="preview")

    async def split(request: Request) -> Response:
        picked = await read_picked(request)
        source = source_of(picked)
        return await lab.measure.do(lambda: json_answer({"text": preview_split(source, picked.options)}), key="split")

    async def plan(request: Request) -> Response:
        picked = await read_picked(request)
        source = source_of(picked)
        return await lab.measure.do(lambda: json_answer(preview_plan(source, picked.options)), key="plan")

    async def start(request: Request) -> Response:
        picked = await read_picked(request)
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
        Route("/api/upload/folder", upload_folder, methods=["POST"]),
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
