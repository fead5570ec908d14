"""Runs: as cards, live, in full; their figures, files, the doctor, and single numbers."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from pellucid.api.runs import RunFollower, describe_whole, list_runs, run_file, run_folder
from pellucid.errors import PellucidError
from pellucid.http.answers import Refusal, json_answer
from pellucid.lab.app import Lab
from pellucid.records import as_plain

if TYPE_CHECKING:
    from pellucid.api.numbers import NetworkNumbers

LOOK_SECONDS = 0.5  # between two looks at a run's folder
STILL_SECONDS = 15.0  # after which a line is sent even where nothing is new, so that a client that left is noticed
MOST_KEPT = 4  # networks with their numbers, and what was measured of runs
MOST_POINTS = 3_000  # of a curve that are told at once
# A picture may hold styles of its own and nothing else; a file is never shown in our name.
PICTURE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox"
DRAWN_WITH = ("input", "layer", "head", "least")


def routes(lab: Lab) -> list[BaseRoute]:
    numbers: OrderedDict[tuple[str, str], NetworkNumbers] = OrderedDict()
    measured: OrderedDict[tuple[str, int], dict[str, Any]] = OrderedDict()
    followers: dict[str, SharedFollower] = {}

    def folder_of(request: Request) -> Path:
        try:
            return run_folder(request.path_params["name"], lab.runs)
        except PellucidError as error:
            raise Refusal(404, error.what, fix=error.fix) from error

    def home(_: Request) -> Response:
        from pellucid.api.preview import list_data

        return json_answer({"runs": list_runs(lab.runs), "data": list_data(lab.folder, lab.dropped)})

    def whole(request: Request) -> Response:
        return json_answer(describe_whole(folder_of(request)))

    async def events(request: Request) -> Response:
        name = request.path_params["name"]
        return StreamingResponse(_follow(lab, request, name, followers), media_type="text/event-stream")

    async def figure(request: Request) -> Response:
        path, name = folder_of(request), request.path_params["figure"]
        asked: dict[str, Any] = {
            one: request.query_params[one] for one in DRAWN_WITH if request.query_params.get(one, "") != ""
        }
        return await lab.speak.do(lambda: _draw(lab, path, name, asked), key=f"figure {path.name} {name}")

    def file(request: Request) -> Response:
        path = folder_of(request)
        try:
            found = run_file(path, request.path_params["file"])
        except PellucidError as error:
            raise Refusal(404, error.what, fix=error.fix) from error
        headers = {
            "content-disposition": f'attachment; filename="{path.name}-{found.name}"',
            "content-security-policy": PICTURE_POLICY,
        }
        return Response(found.read_bytes(), media_type="application/octet-stream", headers=headers)

    async def report(request: Request) -> Response:
        # The report is a page of its own, with a policy that lets it load nothing; it is shown in a frame.
        page = await run_in_threadpool(lambda: run_file(folder_of(request), "report.html").read_bytes())
        policy = PICTURE_POLICY.replace("sandbox", "frame-ancestors 'self'; sandbox")
        headers = {"content-security-policy": policy, "x-frame-options": "SAMEORIGIN"}
        return Response(page, media_type="text/html; charset=utf-8", headers=headers)

    async def examine(request: Request) -> Response:
        path = folder_of(request)

        def work() -> Response:
            from pellucid.api.doctor import doctor_run
            from pellucid.api.views import plain_findings

            diagnosis = doctor_run(path)
            return json_answer(
                {"findings": plain_findings(diagnosis), "seconds": diagnosis.seconds, "n_rules": len(diagnosis.rules)}
            )

        return await lab.measure.do(work)

    async def mistakes(request: Request) -> Response:
        path = folder_of(request)

        def work() -> Response:
            from pellucid.api.views import plain_token_mistakes

            # It takes seconds, and a run that has ended stays what it is until it is trained again.
            key = (str(path), run_file(path, "finished.json").stat().st_mtime_ns)
            if key not in measured:
                measured[key] = plain_token_mistakes(path)
                while len(measured) > MOST_KEPT:
                    measured.popitem(last=False)
            measured.move_to_end(key)
            return json_answer(measured[key])

        return await lab.measure.do(work, key=f"mistakes {path.name}")

    def network(path: Path, text: str) -> NetworkNumbers:
        from pellucid.api.numbers import NetworkNumbers

        key = (str(path), text)
        if key not in numbers:
            numbers[key] = NetworkNumbers(path, text)
            while len(numbers) > MOST_KEPT:
                numbers.popitem(last=False)
        numbers.move_to_end(key)
        return numbers[key]

    async def modules(request: Request) -> Response:
        path, text = folder_of(request), request.query_params.get("text", "")

        def work() -> Response:
            found = network(path, text)
            return json_answer({"text": found.text, "rows": found.rows, "modules": found.modules()})

        return await lab.speak.do(work)

    async def module(request: Request) -> Response:
        path, text, of = folder_of(request), request.query_params.get("text", ""), request.query_params.get("path", "")
        return await lab.speak.do(lambda: json_answer(network(path, text).numbers(of)))

    async def unit(request: Request) -> Response:
        path, query = folder_of(request), request.query_params
        try:
            row, number = int(query.get("row", "")), int(query.get("unit", ""))
        except ValueError as error:
            raise Refusal(400, "row and unit are no numbers", fix="Give both") from error
        text, of = query.get("text", ""), query.get("path", "")
        return await lab.speak.do(lambda: json_answer(network(path, text).unit(of, row, number)))

    return [
        Route("/api/home", home),
        Route("/api/runs/{name}", whole),
        Route("/api/runs/{name}/events", events),
        Route("/api/runs/{name}/figures/{figure}", figure),
        Route("/api/runs/{name}/files/{file}", file),
        Route("/api/runs/{name}/report", report),
        Route("/api/runs/{name}/doctor", examine, methods=["POST"]),
        Route("/api/runs/{name}/mistakes", mistakes),
        Route("/api/runs/{name}/modules", modules),
        Route("/api/runs/{name}/numbers", module),
        Route("/api/runs/{name}/unit", unit),
    ]


def _draw(lab: Lab, path: Path, name: str, asked: dict[str, Any]) -> Response:
    from pellucid.api.draw import draw
    from pellucid.api.views import page_svg

    for number in ("layer", "head"):
        if number in asked:
            asked[number] = int(asked[number]) if asked[number].isdigit() else asked[number]
    if "least" in asked:
        asked["least"] = float(asked["least"])
    if (word := asked.get("input", "")).startswith("dropped:"):
        from pellucid.lab.uploads import dropped_file

        asked["input"] = str(dropped_file(lab, word.removeprefix("dropped:")))
    elif name == "patch-attention" and "input" in asked:
        raise PellucidError("an image is wanted", fix="Drop one")
    drawn = draw(name, path, **asked).drawing
    return Response(
        page_svg(drawn),
        media_type="image/svg+xml",
        headers={
            "content-security-policy": PICTURE_POLICY,
            "x-pellucid-title": drawn.title.encode("ascii", "replace").decode(),
        },
    )


class SharedFollower:
    """One look at a run's folder for all who watch it, in however many tabs; who comes later is told all of it too."""

    def __init__(self, path: Path) -> None:
        self.told: list[dict[str, Any]] = []
        self.n_begun = 0  # how often all was told anew
        self.n_watchers = 0
        self._follower = RunFollower(path)
        self._looked_at = -math.inf
        self._lock = asyncio.Lock()

    async def look(self) -> None:
        """Put what is new to what was told, unless somebody has just looked."""
        async with self._lock:
            if time.monotonic() - self._looked_at < LOOK_SECONDS / 2:
                return
            news = await run_in_threadpool(self._follower.news)
            self._looked_at = time.monotonic()
            if news.get("is_anew"):
                self.told, self.n_begun = [], self.n_begun + 1
            if news:
                self.told.append(_thinned(news))


async def _follow(lab: Lab, request: Request, name: str, followers: dict[str, SharedFollower]) -> AsyncIterator[str]:
    """A run's news as server-sent events, until it has ended and all was told, or nobody listens any more.

    Before its folder is there, what its process says is told.
    """
    said = None
    while not lab.is_ending() and not await request.is_disconnected():
        try:
            path = run_folder(name, lab.runs)
            break
        except PellucidError:
            code = lab.trainings.ended_with(name)
            text = lab.trainings.said(name)
            if code is not None or (not text and name not in lab.trainings.under_way()):
                yield _event({"said": text, "state": "failed" if text else "nowhere", "exit_code": code})
                return
            if text != said:
                said = text
                yield _event({"said": text})
        await asyncio.sleep(LOOK_SECONDS)
    else:
        return
    if name not in followers:
        followers[name] = SharedFollower(path)
    follower = followers[name]
    follower.n_watchers += 1
    try:
        async for news in _watch(lab, request, follower):
            if news and news.get("state") == "stopped":
                news = {**news, "said": lab.trainings.said(name)}
            yield _event(news) if news else ": still here\n\n"
    except PellucidError as error:
        yield _event({"state": "damaged", "said": str(error)})
    finally:
        follower.n_watchers -= 1
        if not follower.n_watchers and followers.get(name) is follower:
            del followers[name]


async def _watch(lab: Lab, request: Request, follower: SharedFollower) -> AsyncIterator[dict[str, Any]]:
    """What one of those who watch was not told yet; {} where nothing is new for long."""
    n_begun, n_told, still = -1, 0, 0.0
    while not lab.is_ending() and not await request.is_disconnected():
        await follower.look()
        if follower.n_begun != n_begun:
            n_begun, n_told = follower.n_begun, 0
        still = 0.0 if n_told < len(follower.told) else still + LOOK_SECONDS
        for news in follower.told[n_told:]:
            n_told += 1
            yield news
            if news.get("is_over"):
                return
        if still >= STILL_SECONDS:
            still = 0.0
            yield {}
        await asyncio.sleep(LOOK_SECONDS)


def _thinned(news: dict[str, Any]) -> dict[str, Any]:
    """Of a long curve that is told at once, every n-th point and the last."""
    lines = news.get("metrics", [])
    if len(lines) <= MOST_POINTS:
        return news
    stride = -(-len(lines) // MOST_POINTS)
    return {**news, "metrics": [*lines[:-1:stride], lines[-1]]}


def _event(news: dict[str, Any]) -> str:
    return f"data: {json.dumps(as_plain(news), ensure_ascii=True, allow_nan=False)}\n\n"
