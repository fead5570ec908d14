"""/v1/predict: rows of a table, images or sources of pairs in; answers with their probabilities out.

{"rows": [{"bill_length_mm": 39.1, "island": "Biscoe"}]}     tables, values by column
{"images": ["iVBORw0KGgo…"]}                                 images, each a PNG, JPEG, WebP, BMP or GIF file in base64
{"sources": ["DAA"], "beam": 4}                              pairs
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from pellucid.api.serving import Predictions, ServedRun, note_words
from pellucid.errors import PellucidError, did_you_mean, quoted

KNOWN = ("model", "rows", "images", "sources", "beam")
Value = str | int | float | bool | None


def predict(served: ServedRun, body: dict[str, Any]) -> Predictions:
    """The answers to a body; what is wrong in it is refused by its name."""
    for name in body:
        if name not in KNOWN:
            raise PellucidError(
                f"there is no field called {quoted(name, 40)}",
                fix=did_you_mean(name, KNOWN, f"It takes {', '.join(KNOWN)}"),
            )
    given = [name for name in ("rows", "images", "sources") if body.get(name) is not None]
    if len(given) != 1:
        wanted = {"table": "rows", "images": "images", "pairs": "sources"}.get(served.kind, "rows")
        raise PellucidError(f"{' and '.join(given) or 'nothing to predict'} came", fix=f'Send "{wanted}" alone')
    (name,) = given
    if not isinstance(body[name], list):
        raise PellucidError(f"{name} is no list", fix=f'Send "{name}": [...]')
    beam = body.get("beam", 0)
    if type(beam) is not int or (beam and name != "sources"):
        raise PellucidError("beam is for sources, and a whole number", fix="Leave it out")
    if name == "rows":
        return served.predict_rows([_read_row(row) for row in body[name]])
    if name == "images":
        return served.predict_images([_read_file(text, place) for place, text in enumerate(body[name], 1)])
    if not all(isinstance(source, str) for source in body[name]):
        raise PellucidError("a source is no text", fix='Send "sources": ["..."]')
    return served.predict_sources(body[name], beam)


def _read_row(row: object) -> dict[str, Value]:
    if not isinstance(row, dict) or not all(isinstance(value, str | int | float | None) for value in row.values()):
        raise PellucidError(
            "a row is no object of numbers and texts", fix='Send each as {"column": 1.5, "other": "text"}'
        )
    huge = next((name for name, value in row.items() if isinstance(value, int) and abs(value) >= 2**63), None)
    if huge is not None:
        raise PellucidError(f"the number of {quoted(huge, 40)} is too large", fix="Send it as a text or a fraction")
    return row


def _read_file(text: object, place: int) -> bytes:
    """An image in base64, with or without the `data:image/png;base64,` of a web page before it."""
    if not isinstance(text, str):
        raise PellucidError(f"image {place:,} is no text", fix="Send each as the base64 of a file")
    head, comma, rest = text.partition(",")
    content = rest if comma and head.startswith("data:image/") and head.endswith(";base64") else text
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError) as error:
        raise PellucidError(f"image {place:,} is no base64", fix="Send each as the base64 of a file") from error


def answer_of(found: Predictions, served: ServedRun) -> dict[str, Any]:
    """Predictions as JSON: of each its answer, the probability where there is one, and the likeliest beside it."""
    return {
        "object": "list",
        "model": served.name,
        "system_fingerprint": f"fp_{served.fingerprint}",
        "target": found.target,
        "task": found.task,
        "data": _rows(found),
        "notes": note_words(found.notes),
    }


def _rows(found: Predictions) -> Sequence[dict[str, Any]]:
    return [
        {
            "index": place,
            "answer": one.answer if one.value is None else one.value,
            "probability": one.probability,
            "likeliest": [{"answer": answer, "probability": share} for answer, share in one.ranked],
        }
        for place, one in enumerate(found.predictions)
    ]
