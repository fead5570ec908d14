"""JSON in and out. What comes in is strict, what goes out is finite, and every error has one form.

{"error": {"message": "width 0 is not above 0. Try width=1.", "what": ..., "where": ..., "fix": ..., "column": ...}}
"""

import dataclasses
import json
import math
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from pellucid.errors import ExpressionError, PellucidError, printable, python_spelling
from pellucid.records.plain import as_plain, from_plain

Fields = TypeVar("Fields")
DEEPEST_JSON = 64


class Refusal(PellucidError):
    """A request that cannot be answered, with HTTP's number for it."""

    def __init__(self, status: int, what: str, *, fix: str) -> None:
        super().__init__(what, fix=fix)
        self.status = status


def error_body(error: PellucidError, spell: Callable[[str, object], str] = python_spelling) -> bytes:
    """The one form of an error, its options spelled as in Python unless `spell` does it otherwise."""
    words = {name: error.spelled(getattr(error, name), spell) for name in ("what", "where", "fix")}
    column = error.column if isinstance(error, ExpressionError) else None
    return _encoded({"error": {"message": error.line(spell), **words, "column": column}})


def error_answer(error: PellucidError) -> Response:
    """An error of ours as an answer: 400, or the number that a Refusal has."""
    status = error.status if isinstance(error, Refusal) else 400
    headers = {"retry-after": "1"} if status in (429, 503) else None
    return Response(error_body(error), status, headers, media_type="application/json")


def json_answer(record: object, status: int = 200) -> Response:
    """A record, or anything made of dictionaries, lists and numbers; what is not finite becomes a word."""
    return Response(_encoded(as_plain(record)), status, media_type="application/json")


def _encoded(plain: object) -> bytes:
    # A lone surrogate, as in the name of a file that is no UTF-8, must not end in an error.
    return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


async def read_json(request: Request) -> dict[str, Any]:
    """The body as one JSON object. Anything else is refused with 400: no NaN, no names twice, no lone surrogates."""
    return parse_json(await request.body())


def parse_json(body: bytes) -> dict[str, Any]:
    """What `read_json` reads.

    >>> parse_json(b'{"a": 1}')
    {'a': 1}
    >>> parse_json(b'{"a": NaN}')
    Traceback (most recent call last):
    pellucid.http.answers.Refusal: the body is not JSON: NaN is no number of JSON. Send one object, as {"name": 1}.
    """
    if _depth(body) > DEEPEST_JSON:
        raise _not_json(f"it is nested deeper than {DEEPEST_JSON}")
    try:
        text = body.decode("utf-8")
        found = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once, parse_float=_finite)
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise _not_json("it is not UTF-8 text") from error
    except (ValueError, RecursionError) as error:
        raise _not_json(printable(str(error))[:120]) from error
    if not isinstance(found, dict):
        raise _not_json("it is not an object")
    return found


async def read_fields(request: Request, kind: type[Fields]) -> Fields:
    """The body as a dataclass: its fields by name, with its defaults; a name or a type that does not fit is refused."""
    return as_fields(await read_json(request), kind)


def as_fields(plain: dict[str, Any], kind: type[Fields]) -> Fields:
    """The fields of a dataclass out of a JSON object.

    >>> @dataclasses.dataclass
    ... class Move:
    ...     name: str
    ...     by: float = 1.0
    >>> as_fields({"name": "x", "by": 2}, Move)
    Move(name='x', by=2.0)
    >>> as_fields({"name": 3}, Move)
    Traceback (most recent call last):
    pellucid.http.answers.Refusal: a field does not fit: Move.name cannot be 3. It takes name: str, by: float.
    """
    hints = {field.name: field.type for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    takes = ", ".join(f"{name}: {getattr(hint, '__name__', hint)}" for name, hint in hints.items())
    try:
        made = from_plain(kind, plain)
    except ValueError as error:
        raise Refusal(400, f"a field does not fit: {printable(str(error))[:120]}", fix=f"It takes {takes}") from error
    if not _is_finite(dataclasses.asdict(made)):  # type: ignore[call-overload]
        raise Refusal(400, "a number is not finite", fix="Send a finite number")
    return made


def build_app(routes: Sequence[BaseRoute]) -> Starlette:
    """A Starlette app whose errors are all answers: ours 400, unknown paths 404, bugs 500 with a report on stderr."""
    app = Starlette(routes=list(routes))
    app.router.redirect_slashes = False
    app.add_exception_handler(PellucidError, _ours)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _bug)
    return app


def bug_answer(error: BaseException) -> Response:
    """A fault of pellucid's: the client hears only that, the terminal its place."""
    if sys.stderr is not None:
        if os.environ.get("PELLUCID_DEBUG") == "1":
            traceback.print_exception(error)
        else:
            last = traceback.extract_tb(error.__traceback__)[-1:]
            place = f" at {last[0].filename.rpartition('/')[2]}:{last[0].lineno}" if last else ""
            print(f"pellucid: a bug: {type(error).__name__}{place}; PELLUCID_DEBUG=1 shows all", file=sys.stderr)
    fault = PellucidError("a bug in pellucid", fix="The terminal that it runs in says where")
    return Response(error_body(fault), 500, media_type="application/json")


async def _ours(_: Request, error: Exception) -> Response:
    assert isinstance(error, PellucidError)
    return error_answer(error)


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    says = {404: "there is nothing at this address", 405: "this address takes another method"}
    what = says.get(error.status_code, "the request cannot be answered")
    answer = error_answer(Refusal(error.status_code, what, fix="See the documentation for what there is"))
    answer.headers.update(error.headers or {})
    return answer


async def _bug(_: Request, error: Exception) -> Response:
    return bug_answer(error)


async def _gone(_: Request, error: Exception) -> Response:
    return Response(status_code=400)  # nobody reads it: the client has left


def _not_json(why: str) -> Refusal:
    return Refusal(400, f"the body is not JSON: {why}", fix='Send one object, as {"name": 1}')


def _depth(body: bytes) -> int:
    """At least how deep the brackets go; those inside of strings count too, which only a very odd string notices."""
    depth = deepest = 0
    for byte in body.translate(None, _NOT_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is too large a number")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _is_finite(plain: object) -> bool:
    if isinstance(plain, dict):
        return all(_is_finite(one) for one in plain.values())
    if isinstance(plain, list):
        return all(_is_finite(one) for one in plain)
    return not (isinstance(plain, float) and not math.isfinite(plain))
