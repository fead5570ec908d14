"""Derive, x-ray, lessons and claims: what is measured while one looks."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pellucid.http.answers import Refusal, json_answer, read_fields
from pellucid.lab.app import Lab

MOST_CLAIMS = 1  # that are run at once
LONGEST_EXPRESSION = 20_000


@dataclass(frozen=True)
class DeriveQuestion:
    expression: str
    values: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class XrayQuestion:
    model: str
    input: str = ""


@dataclass(frozen=True)
class LessonQuestion:
    name: str
    knobs: dict[str, Any] = field(default_factory=dict)


@dataclass
class ClaimUnderWay:
    """A claim that is run here: since when, how long it took last time, and what came out."""

    id: str
    began: float
    expected: float
    result: Any = None
    problem: str = ""

    def plain(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "seconds": time.monotonic() - self.began,
            "expected": self.expected,
            "result": self.result,
            "problem": self.problem,
        }


def routes(lab: Lab) -> list[BaseRoute]:
    under_way: dict[str, ClaimUnderWay] = {}

    async def derive(request: Request) -> Response:
        asked = await read_fields(request, DeriveQuestion)
        if len(asked.expression) > LONGEST_EXPRESSION:
            raise Refusal(413, "the expression is too long to be looked at", fix="Use the terminal: pellucid derive")

        def work() -> Response:
            from pellucid.api.views import plain_derivation_walk

            return json_answer(plain_derivation_walk(asked.expression, asked.values))

        return await run_in_threadpool(work)

    async def xray(request: Request) -> Response:
        asked = await read_fields(request, XrayQuestion)

        def work() -> Response:
            from pellucid.api.views import plain_xray

            return json_answer(plain_xray(asked.model, asked.input))

        return await lab.measure.do(work, key="xray")

    async def lessons(_: Request) -> Response:
        from pellucid.api.draw import describe_lessons

        return json_answer({"lessons": await run_in_threadpool(describe_lessons)})

    async def lesson(request: Request) -> Response:
        asked = await read_fields(request, LessonQuestion)

        def work() -> Response:
            from pellucid.api.views import plain_lesson

            began = time.monotonic()
            found = plain_lesson(asked.name, asked.knobs)
            return json_answer({**found, "seconds": time.monotonic() - began})

        return await lab.measure.do(work, key="lesson")

    async def claims(_: Request) -> Response:
        from pellucid.api.views import plain_claims

        return json_answer(await run_in_threadpool(plain_claims))

    async def claim(request: Request) -> Response:
        from pellucid.api.views import plain_claim_in_full

        return json_answer(await run_in_threadpool(plain_claim_in_full, request.path_params["id"]))

    async def run_claim(request: Request) -> Response:
        from pellucid.api.claims import expected_seconds

        name = request.path_params["id"]
        running = [one for one in under_way.values() if one.result is None and not one.problem]
        if len(running) >= MOST_CLAIMS:
            raise Refusal(429, f"{running[0].id} is being run", fix="Wait for it")
        (found, seconds), *_ = (await run_in_threadpool(expected_seconds, [name])).items()
        job = under_way[found] = ClaimUnderWay(found, time.monotonic(), seconds)

        def work() -> None:
            from pellucid.api.views import run_one_claim

            try:
                job.result = run_one_claim(found)
            except Exception as error:
                job.problem = str(error) or type(error).__name__

        lab.background(work)
        return json_answer(job.plain(), 202)

    async def claim_under_way(request: Request) -> Response:
        job = under_way.get(request.path_params["id"])
        if job is None:
            raise Refusal(404, "that claim was not begun here", fix="Begin it")
        return json_answer(job.plain())

    return [
        Route("/api/derive", derive, methods=["POST"]),
        Route("/api/xray", xray, methods=["POST"]),
        Route("/api/lessons", lessons),
        Route("/api/lessons/draw", lesson, methods=["POST"]),
        Route("/api/claims", claims),
        Route("/api/claims/{id}", claim),
        Route("/api/claims/{id}/run", run_claim, methods=["POST"]),
        Route("/api/claims/{id}/progress", claim_under_way),
    ]
