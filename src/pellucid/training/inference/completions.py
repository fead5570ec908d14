"""Completions: prompts that a model goes on with, many at a time, in pieces of text as they come.

Each is drawn as `pellucid sample` draws it: the same prompt, seed and options give the same text, whichever others are
drawn beside it. Stop texts end a completion before they are said, even where they lie across tokens; whatever could
still become one is held back until it is known.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from pellucid.data import Vocabulary
from pellucid.data.streamed_text import StreamedText
from pellucid.data.vocabularies import require_ids
from pellucid.decoding.continuous import ContinuousBatch, DrawnToken, DrawRequest
from pellucid.decoding.options import FILTERS, MOST_SEED, UNKNOWN, require_seed, require_temperature, require_top_k_fits
from pellucid.decoding.sampling import NEVER, allows_unsure
from pellucid.errors import PellucidError, TooLarge, quoted
from pellucid.options import check_options, option
from pellucid.training.inference.language_models import LanguageModel, encode_known

Key = TypeVar("Key", bound=Hashable)

MOST_TOKENS = 4096  # of one completion
MOST_CHOICES = 64  # completions of one prompt
MOST_STOPS, LONGEST_STOP = 16, 200
MOST_LIKELIEST = 20
LONG = 20_000  # characters


@dataclass(frozen=True)
class CompletionOptions:
    """How a prompt is gone on with; the names are those of OpenAI's completions."""

    max_tokens: int = option(16, "Most tokens of a completion.", noun="max_tokens", minimum=0, maximum=MOST_TOKENS)
    temperature: float = option(1.0, "Softmax temperature; 0 always takes the likeliest token.")
    n: int = option(1, "Completions of each prompt.", noun="n", maximum=MOST_CHOICES)
    seed: int = option(0, "Random seed; the same seed gives the same completions.", minimum=0, maximum=MOST_SEED)
    stop: tuple[str, ...] = ()  # texts before which a completion ends
    logprobs: int | None = option(
        None, "How many of the likeliest tokens are told at each place.", minimum=0, maximum=MOST_LIKELIEST
    )
    echo: bool = False  # whether the prompt stands before the completion
    unknown: str = option("error", "Characters that the data never have", choices=UNKNOWN)
    filters: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        require_seed(self.seed)
        require_temperature(self.temperature)
        check_options(self)
        for one in FILTERS:
            if one.name in self.filters:
                one.option.check(one.option.noun, self.filters[one.name], one.type)
        if len(self.stop) > MOST_STOPS:
            raise PellucidError(f"{len(self.stop)} stop texts came", fix=f"Give at most {MOST_STOPS}")
        if not all(1 <= len(text) <= LONGEST_STOP for text in self.stop):
            raise PellucidError(
                "a stop text is empty or very long", fix=f"Give texts of 1 to {LONGEST_STOP} characters"
            )
        if not self.max_tokens and not self.echo:
            raise PellucidError("max_tokens is 0, and nothing is echoed", fix="Ask for 1 or more")


class TokenLog(NamedTuple):
    """A token of a completion, and how likely it was."""

    token: str
    log_probability: float | None  # under the model as it is, before temperature and filters; None before which is none
    likeliest: tuple[tuple[str, float], ...]
    offset: int  # where its text begins, in characters of prompt and completion where the prompt is echoed


class CompletionPiece(NamedTuple):
    """What there is more of one completion."""

    text: str
    tokens: tuple[TokenLog, ...] = ()  # empty unless asked for
    n_drawn: int = 0  # tokens that were drawn for it
    finish: str = ""  # "stop": its end or a stop text came; "length": it is as long as it may be; "": it goes on
    stop_text: str = ""  # which stop text ended it


@dataclass(frozen=True)
class PreparedPrompt:
    """A prompt that was found to be good, and what is drawn for it."""

    tokens: tuple[int, ...]
    text: str
    options: CompletionOptions
    request: DrawRequest


def prepare_prompt(model: LanguageModel, prompt: str | Sequence[int], options: CompletionOptions) -> PreparedPrompt:
    """Refuse what cannot be gone on with. prompt: a text, or its tokens without a boundary."""
    vocabulary = model.vocabulary
    if "top_k" in options.filters:
        require_top_k_fits(int(options.filters["top_k"]), len(vocabulary))
    if isinstance(prompt, str):
        longest = max(len(token) for token in vocabulary.tokens)
        # A text of so many letters has more tokens than fit, and to cut it into tokens would take long.
        if len(prompt) > max(LONG, longest * model.longest_prompt):
            raise _too_long(f"at least {len(prompt) // longest:,}", model)
        tokens, _ = encode_known(prompt, vocabulary, options.unknown, "the prompt")
        text = prompt if options.unknown == "error" else vocabulary.decode(tokens)
    else:
        require_ids(prompt, len(vocabulary))
        tokens = list(prompt)
        if any(vocabulary.is_boundary(token) for token in tokens):
            raise PellucidError(
                f"a token of the prompt is a boundary, {quoted(vocabulary.tokens[0])}",
                fix="Leave it out: an item begins by itself",
            )
        text = vocabulary.decode(tokens)
    if len(tokens) > model.longest_prompt:
        raise _too_long(f"{len(tokens):,}", model)
    request = DrawRequest(
        start=tuple(model.start(tokens)),
        n_samples=options.n,
        longest=options.max_tokens,
        stop=vocabulary.closing if model.is_list else NEVER,
        seed=options.seed,
        temperature=options.temperature,
        n_likeliest=options.logprobs or 0,
        filters=options.filters if options.temperature else {},  # the likeliest token passes every filter
    )
    return PreparedPrompt(tuple(tokens), text, options, request)


def _too_long(n_tokens: str, model: LanguageModel) -> TooLarge:
    return TooLarge(
        f"the prompt has {n_tokens} tokens, and the model reads {model.longest_prompt:,}", fix="Send the end of it"
    )


class _Writing:
    """One completion on its way from tokens to text."""

    def __init__(self, vocabulary: Vocabulary, options: CompletionOptions, offset: int) -> None:
        self.options, self.names = options, vocabulary.tokens
        self.stream = StreamedText(vocabulary)
        self.held = ""  # text that a stop text may begin in
        self.offset = offset  # where `held` begins
        self.waiting: list[TokenLog] = []  # tokens of text that is held
        self.is_plain = not options.stop and options.logprobs is None

    def add(self, drawn: DrawnToken[Key]) -> CompletionPiece:
        """What may be said now that this token is known."""
        if self.is_plain and not drawn.is_last:  # nothing can be held: the usual case, once for each token of each row
            return CompletionPiece(self.stream.add(drawn.token), n_drawn=1)
        if not drawn.is_stop:
            if self.options.logprobs is not None:
                likeliest = tuple((self.names[token], log) for token, log in drawn.likeliest)
                place = self.offset + len(self.held)
                self.waiting.append(TokenLog(self.names[drawn.token], drawn.log_probability, likeliest, place))
            self.held += self.stream.add(drawn.token)
        if drawn.is_last:
            self.held += self.stream.end()
        found = [(self.held.find(text), text) for text in self.options.stop]
        found = [(place, text) for place, text in found if place >= 0]
        if found:
            place, text = min(found)
            return self._give(place, 1, "stop", text)
        if drawn.is_last:
            return self._give(len(self.held), 1, "stop" if drawn.is_stop else "length")
        return self._give(len(self.held) - self._n_uncertain(), 1)

    def cut(self) -> CompletionPiece:
        """What was held back, where nothing more is drawn for another reason."""
        self.held += self.stream.end()
        return self._give(len(self.held), 0, "length")

    def _n_uncertain(self) -> int:
        """How many of the last characters may be the beginning of a stop text."""
        longest = 0
        for stop in self.options.stop:
            for n in range(min(len(stop) - 1, len(self.held)), longest, -1):
                if self.held.endswith(stop[:n]):
                    longest = n
                    break
        return longest

    def _give(self, n_letters: int, n_drawn: int, finish: str = "", stop_text: str = "") -> CompletionPiece:
        text, self.held = self.held[:n_letters], self.held[n_letters:]
        self.offset += n_letters
        # A token is told with the text that it begins in; one that begins where a stop text cut is not.
        is_whole = bool(finish) and not stop_text
        tokens = tuple(one for one in self.waiting if is_whole or one.offset < self.offset)
        self.waiting = self.waiting[len(tokens) :]
        return CompletionPiece(text, tokens, n_drawn, finish, stop_text)


class CompletionBatch(Generic[Key]):
    """Prompts that a model goes on with together; they join and are finished, each at its own time.

    room: how many completions are drawn for at a time.
    """

    def __init__(self, model: LanguageModel, room: int) -> None:
        self.model, self.room = model, room
        self.exact: ContinuousBatch[Key] = ContinuousBatch(model.joinable_reading(), room)
        unsure = model.joinable_sampling_reading()
        self.unsure = self.exact if unsure is None else ContinuousBatch[Key](unsure, room)
        self._writing: dict[tuple[Key, int], _Writing] = {}
        self._echoes: list[tuple[Key, PreparedPrompt]] = []

    @property
    def n_running(self) -> int:
        """How many completions are drawn for."""
        return sum(batch.n_rows for batch in self._batches)

    def has_room(self, prompt: PreparedPrompt) -> bool:
        return self.n_running + prompt.options.n <= self.room

    @property
    def _batches(self) -> tuple[ContinuousBatch[Key], ...]:
        return (self.exact,) if self.unsure is self.exact else (self.unsure, self.exact)

    def add(self, key: Key, prompt: PreparedPrompt) -> None:
        """Let a prompt join at the next step; its key comes back with every piece."""
        if prompt.options.echo:
            self._echoes.append((key, prompt))
        if prompt.options.max_tokens:
            offset = len(prompt.text) if prompt.options.echo else 0
            for sample in range(prompt.options.n):
                self._writing[key, sample] = _Writing(self.model.vocabulary, prompt.options, offset)
            request = prompt.request
            # Log-probabilities that are told are exact to their last digit.
            is_told = prompt.options.logprobs is not None
            is_unsure = not is_told and allows_unsure(request.temperature, request.filters)
            (self.unsure if is_unsure else self.exact).add(key, request)

    def remove(self, key: Key) -> None:
        """Nothing more of a prompt."""
        for batch in self._batches:
            batch.remove(key)
        self._echoes = [echo for echo in self._echoes if echo[0] != key]
        for one in [one for one in self._writing if one[0] == key]:
            del self._writing[one]

    def cut(self, key: Key) -> list[tuple[int, CompletionPiece]]:
        """Nothing more of a prompt; back comes what was held back of each completion that was not finished."""
        held = [(sample, writing.cut()) for (one, sample), writing in self._writing.items() if one == key]
        self.remove(key)
        return held

    def step(self) -> list[tuple[Key, int, CompletionPiece]]:
        """One more token of everything that is here: key, which of the n, and what there is more of it."""
        found = []
        for key, prompt in self._echoes:
            piece = self._echo(prompt)
            found += [(key, sample, piece) for sample in range(prompt.options.n)]
        self._echoes = []
        for batch in self._batches:
            for drawn in batch.step():
                piece = self._writing[drawn.key, drawn.sample].add(drawn)
                found.append((drawn.key, drawn.sample, piece))
                if piece.finish:
                    del self._writing[drawn.key, drawn.sample]
                    if not drawn.is_last:
                        batch.remove(drawn.key, drawn.sample)
        return found

    def _echo(self, prompt: PreparedPrompt) -> CompletionPiece:
        """The prompt itself, with how likely each of its tokens was after those before it."""
        tokens: list[TokenLog] = []
        if prompt.options.logprobs is not None and prompt.tokens:
            names, stream, place = self.model.vocabulary.tokens, StreamedText(self.model.vocabulary), 0
            logs = self.model.token_logs(prompt.tokens, prompt.options.logprobs)
            for token, (log, likeliest) in zip(prompt.tokens, logs, strict=True):
                named = tuple((names[one], value) for one, value in likeliest)
                tokens.append(TokenLog(names[token], log, named, place))
                place += len(stream.add(token))
        finish = "" if prompt.options.max_tokens else "length"
        return CompletionPiece(prompt.text, tuple(tokens), 0, finish)
