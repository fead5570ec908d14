"""Speak: the decoding tree, samples with their provenance, and the surprise of any text."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from pellucid.api.runs import run_folder
from pellucid.http.answers import json_answer, read_fields
from pellucid.lab.app import Lab

if TYPE_CHECKING:
    from pellucid.api.speak import Speaker

MOST_LOADED = 3  # models at once
MOST_SAMPLES = 50


@dataclass(frozen=True)
class TreeQuestion:
    run: str
    prompt: str = ""
    path: tuple[int, ...] = ()
    temperature: float = 1.0
    top_k: int = 0  # 0: all
    top_p: float = 1.0
    beam: int = 0
    length_penalty: float = 0.0
    seed: int | None = None


@dataclass(frozen=True)
class SampleQuestion:
    run: str
    prompt: str = ""
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0
    count: int = 8


@dataclass(frozen=True)
class TextQuestion:
    runs: tuple[str, ...] = field(default_factory=tuple)
    text: str = ""


def chosen_filters(top_k: int, top_p: float) -> dict[str, float]:
    """The filters as they are asked for: a slider at its end asks for none."""
    return {**({"top_k": top_k} if top_k else {}), **({"top_p": top_p} if top_p < 1 else {})}


def routes(lab: Lab) -> list[BaseRoute]:
    speakers: OrderedDict[str, Speaker] = OrderedDict()

    def speaker(name: str) -> Speaker:
        from pellucid.api.speak import Speaker

        path = run_folder(name, lab.runs)
        # A run that is trained on has other weights than a moment ago.
        weights = path / "model.safetensors"
        key = f"{path}:{weights.stat().st_mtime_ns if weights.is_file() else 0}"
        if key not in speakers:
            speakers[key] = Speaker(path)
            while len(speakers) > MOST_LOADED:
                speakers.popitem(last=False)
        speakers.move_to_end(key)
        return speakers[key]

    async def tree(request: Request) -> Response:
        asked = await read_fields(request, TreeQuestion)

        def work() -> Response:
            found = speaker(asked.run).tree(
                asked.prompt,
                asked.path,
                temperature=asked.temperature,
                filters=chosen_filters(asked.top_k, asked.top_p),
                seed=asked.seed,
                beam=asked.beam,
                length_penalty=asked.length_penalty,
            )
            return json_answer(found)

        return await lab.speak.do(work, key=f"tree {asked.run}")

    async def samples(request: Request) -> Response:
        asked = await read_fields(request, SampleQuestion)

        def work() -> Response:
            from pellucid.api.views import plain_samples

            filters = chosen_filters(asked.top_k, asked.top_p) if asked.temperature else {}
            return json_answer(
                plain_samples(
                    speaker(asked.run),
                    prompt=asked.prompt,
                    temperature=asked.temperature,
                    seed=asked.seed,
                    count=min(asked.count, MOST_SAMPLES),
                    filters=filters,
                )
            )

        return await lab.speak.do(work, key=f"samples {asked.run}")

    async def surprise(request: Request) -> Response:
        asked = await read_fields(request, TextQuestion)

        def work() -> Response:
            from pellucid.api.views import plain_surprise

            return json_answer({"runs": [plain_surprise(name, speaker(name), asked.text) for name in asked.runs[:2]]})

        return await lab.speak.do(work, key="surprise")

    async def facts(request: Request) -> Response:
        name = request.path_params["name"]
        return await lab.speak.do(lambda: json_answer(speaker(name).facts()))

    return [
        Route("/api/speak/tree", tree, methods=["POST"]),
        Route("/api/speak/samples", samples, methods=["POST"]),
        Route("/api/speak/surprise", surprise, methods=["POST"]),
        Route("/api/runs/{name}/speaker", facts),
    ]
