"""/v1/completions in the words of OpenAI's API: a body to prompts and options, and pieces of text to answers.

https://platform.openai.com/docs/api-reference/completions

What of it changes nothing here is taken at its neutral value and refused at any other, so that nobody believes in a
penalty that is not there. Beyond it: `top_k`, and `unknown` for characters that the data never had; each choice tells
its `seed`, with which it can be drawn again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pellucid.api.serving import FILTERS, CompletionOptions, PreparedPrompt, ServedRun, TokenLog
from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.http.answers import Refusal
from pellucid.serve.generation import TIME_LIMIT, Said

MOST_PROMPTS = 256
NEUTRAL: Mapping[str, tuple[object, ...]] = {  # fields of the API that are known here and change nothing
    "best_of": (None, 1),
    "frequency_penalty": (None, 0),
    "presence_penalty": (None, 0),
    "logit_bias": (None, {}),
    "suffix": (None, ""),
}
LEAST_LOG = -9999.0  # what stands for the logarithm of 0, as in OpenAI's answers: JSON has no infinity


@dataclass(frozen=True)
class CompletionCall:
    """A request for completions that was understood."""

    prompts: tuple[str | tuple[int, ...], ...]
    options: CompletionOptions
    has_seed: bool
    is_streamed: bool
    tells_usage: bool  # in a stream; an answer at once always does

    def prepare(self, served: ServedRun) -> list[PreparedPrompt]:
        """Each prompt, found to be good. Without a seed each gets one by chance, else each is as it were alone."""
        found = []
        for prompt in self.prompts:
            options = self.options if self.has_seed else replace(self.options, seed=secrets.randbits(53))
            found.append(served.prepare(prompt, options))
        return found


def read_call(body: dict[str, Any]) -> CompletionCall:
    """A body as a call; what is wrong in it is refused by its name.

    >>> call = read_call({"prompt": ["a", "b"], "max_tokens": 3, "stop": ".", "temperature": 0})
    >>> call.prompts, call.options.max_tokens, call.options.stop
    (('a', 'b'), 3, ('.',))
    >>> read_call({"max_token": 3})
    Traceback (most recent call last):
    pellucid.errors.PellucidError: there is no field called 'max_token'. Perhaps you meant max_tokens.
    """
    fields = _Fields(body)
    for name, neutral in NEUTRAL.items():
        given = body.get(name)
        if not any(given == one and isinstance(given, bool) == isinstance(one, bool) for one in neutral):
            raise PellucidError(f"{name} is not done here", fix="Leave it out")
    filters = {one.name: fields.take(one.name, one.type) for one in FILTERS}
    seed = fields.take("seed", int)
    given = {
        "max_tokens": fields.take("max_tokens", int),
        "temperature": fields.take("temperature", float),
        "n": fields.take("n", int),
        "logprobs": fields.take("logprobs", int),
        "echo": fields.take("echo", bool),
        "unknown": fields.take("unknown", str),
    }
    options = CompletionOptions(
        **{name: value for name, value in given.items() if value is not None},
        seed=seed or 0,
        stop=_read_stop(body.get("stop")),
        filters={name: value for name, value in filters.items() if value is not None},
    )
    stream_options = body.get("stream_options")
    if stream_options is not None and (
        not isinstance(stream_options, dict) or set(stream_options) - {"include_usage", "include_obfuscation"}
    ):
        raise PellucidError("stream_options is no object with include_usage", fix="Leave it out")
    tells_usage = bool((stream_options or {}).get("include_usage"))
    return CompletionCall(
        _read_prompts(body.get("prompt", "")), options, seed is not None, bool(fields.take("stream", bool)), tells_usage
    )


KNOWN = frozenset(
    (
        *("model", "prompt", "max_tokens", "temperature", "n", "logprobs", "echo", "unknown", "seed", "stop"),
        *("stream", "stream_options", "user", *NEUTRAL, *(one.name for one in FILTERS)),
    )
)


class _Fields:
    """Values of a body by name, each of the type that it should have."""

    def __init__(self, body: dict[str, Any]) -> None:
        for name in body:
            if name not in KNOWN:
                fix = did_you_mean(name, KNOWN, f"It takes {', '.join(sorted(KNOWN))}")
                raise PellucidError(f"there is no field called {quoted(name, 40)}", fix=fix)
        self.body = body

    def take(self, name: str, type_: type) -> Any:
        """The value, or None where there is none; a whole number is taken for a float, and nothing else for another."""
        value = self.body.get(name)
        if value is None:
            return None
        wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}[type_]
        is_it = type(value) is type_ or (type_ is float and type(value) is int)
        if not is_it:
            raise PellucidError(f"{name} is {quoted(str(value), 40)}", fix=f"Send {wanted}")
        if type_ is float and abs(value) > 1e300:
            raise PellucidError(f"{name} is too large", fix="Send a smaller number")
        return float(value) if type_ is float else value


def _read_stop(given: object) -> tuple[str, ...]:
    texts = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise PellucidError("stop is neither a text nor a list of texts", fix='Send "stop": ["\\n"]')
    return tuple(texts)


def _read_prompts(given: object) -> tuple[str | tuple[int, ...], ...]:
    """A text, a list of texts, tokens, or a list of lists of tokens."""
    if given is None:
        given = ""
    if isinstance(given, str):
        return (given,)
    if isinstance(given, list) and given:
        if all(type(token) is int for token in given):
            return (tuple(given),)
        if len(given) > MOST_PROMPTS:
            raise PellucidError(f"{len(given):,} prompts came", fix=f"Send at most {MOST_PROMPTS} at a time")
        if all(isinstance(prompt, str) for prompt in given):
            return tuple(given)
        if all(isinstance(prompt, list) and prompt and all(type(token) is int for token in prompt) for prompt in given):
            return tuple(tuple(prompt) for prompt in given)
    raise PellucidError(
        "the prompt is neither a text, nor a list of texts, nor tokens, nor a list of lists of tokens",
        fix='Send "prompt": "a text"',
    )


def require_model(body: Mapping[str, Any], name: str) -> None:
    """Refuse to answer for another model than the one that is here."""
    given = body.get("model", name)
    if given != name:
        shown = quoted(given, 60) if isinstance(given, str) else "that"
        raise Refusal(404, f"there is no model called {shown} here", fix=f"Ask for {quoted(name)}")


@dataclass
class _Choice:
    """One completion as it grows."""

    index: int
    seed: int
    wants_logs: bool
    texts: list[str] = field(default_factory=list)
    tokens: list[TokenLog] = field(default_factory=list)
    finish: str | None = None
    stop_reason: str | None = None

    def add(self, said: Said) -> None:
        piece = said.piece
        self.texts.append(piece.text)
        self.tokens += piece.tokens
        if piece.finish:
            self.finish = piece.finish
            self.stop_reason = TIME_LIMIT if said.is_late else piece.stop_text or None

    def take(self) -> dict[str, Any]:
        """It as JSON, and empty again: all of an answer, or the next part of a stream."""
        text, tokens = "".join(self.texts), self.tokens
        self.texts, self.tokens = [], []
        return {
            "index": self.index,
            "text": text,
            "logprobs": _logs(tokens) if self.wants_logs else None,
            "finish_reason": self.finish,
            "stop_reason": self.stop_reason,
            "seed": self.seed,
        }


class CompletionAnswer:
    """The answer to one call: all at once, or part by part."""

    def __init__(self, served: ServedRun, prompts: Sequence[PreparedPrompt]) -> None:
        self.head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": served.name,
            "system_fingerprint": f"fp_{served.fingerprint}",
        }
        n = prompts[0].options.n
        self.choices = {
            (place, sample): _Choice(place * n + sample, prompt.options.seed, prompt.options.logprobs is not None)
            for place, prompt in enumerate(prompts)
            for sample in range(n)
        }
        self.n_prompt = sum(len(prompt.tokens) for prompt in prompts)
        self.n_drawn = 0

    def add(self, found: Iterable[Said]) -> list[_Choice]:
        """Take pieces; back come the choices that have something new to say."""
        touched: dict[int, _Choice] = {}
        for said in found:
            choice = self.choices[said.prompt, said.sample]
            choice.add(said)
            self.n_drawn += said.piece.n_drawn
            if said.piece.text or said.piece.finish or said.piece.tokens:
                touched[choice.index] = choice
        return list(touched.values())

    def whole(self) -> dict[str, Any]:
        return {**self.head, "choices": [choice.take() for choice in self.choices.values()], "usage": self.usage()}

    def parts(self, found: Iterable[Said], encode: Callable[[object], bytes], *, tells_usage: bool) -> bytes:
        """Pieces as events of a stream, one for each choice."""
        usage = {"usage": None} if tells_usage else {}
        return b"".join(
            b"data: " + encode({**self.head, "choices": [choice.take()], **usage}) + b"\n\n"
            for choice in self.add(found)
        )

    def usage(self) -> dict[str, int]:
        total = self.n_prompt + self.n_drawn
        return {"prompt_tokens": self.n_prompt, "completion_tokens": self.n_drawn, "total_tokens": total}


def _logs(tokens: Sequence[TokenLog]) -> dict[str, list[Any]]:
    """How likely each token was, in the columns that OpenAI's API has. The chosen one is always among the likeliest."""
    return {
        "tokens": [one.token for one in tokens],
        "token_logprobs": [_finite(one.log_probability) for one in tokens],
        "top_logprobs": [
            None
            if one.log_probability is None
            else {token: _finite(log) for token, log in (*one.likeliest, (one.token, one.log_probability))}
            for one in tokens
        ],
        "text_offset": [one.offset for one in tokens],
    }


def _finite(log: float | None) -> float | None:
    return None if log is None else max(log, LEAST_LOG)
