"""Continuous batching: requests that draw tokens join a running batch and leave it, each as if it were alone.

A request draws the very tokens that `draw_tokens` draws for the same start, seed and options: chance is a function of
(seed, step, sample), and the step is the request's own. What differs between requests is only when they are there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from pellucid.decoding.options import require_temperature
from pellucid.decoding.sampling import (
    NEVER,
    Chances,
    Filter,
    FloatArray,
    ImpreciseScores,
    IntArray,
    UnsureReading,
    draw_rows,
    find_filters,
    log_softmax,
)

Key = TypeVar("Key", bound=Hashable)


class JoinableReading(Protocol):
    """Rows of tokens, numbered from 0 without gaps, that each have read something of their own."""

    def join(self, tokens: IntArray, n_rows: int = 1) -> FloatArray:
        """Rows at the end that have read these tokens, (time,), one or more -> the scores after them, (rows, vocab)."""

    def advance(self, tokens: IntArray) -> FloatArray:
        """tokens: (rows,), the next of each row -> scores after them, (rows, vocab)."""

    def leave(self, row: int) -> None:
        """Without that row; the last one takes its place."""


class UnsureJoinableReading(UnsureReading, JoinableReading):
    """Rows that join and leave, of which the scores are off by up to `error`."""

    @abstractmethod
    def read_exactly(self) -> FloatArray:
        """The scores that were given out last, without error, as all are from now on: (rows, vocab)."""


@dataclass(frozen=True)
class DrawRequest:
    """What one request draws: as the parameters of `draw_tokens`, and how many of the likeliest tokens are told."""

    start: tuple[int, ...]
    n_samples: int = 1
    longest: int = 16
    stop: int = NEVER
    seed: int = 0
    temperature: float = 1.0
    n_likeliest: int = 0
    filters: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))


class DrawnToken(NamedTuple, Generic[Key]):
    """One token of one sample."""

    key: Key  # of the request
    sample: int
    token: int
    log_probability: float  # under the scores as they are, not as temperature and filters bend them
    likeliest: tuple[tuple[int, float], ...]  # tokens and their log-probabilities, the likeliest first
    is_stop: bool  # it is the token that ends a sample
    is_last: bool  # nothing more is drawn for the sample


class _Running(Generic[Key]):
    """A request while it runs."""

    def __init__(self, key: Key, request: DrawRequest) -> None:
        require_temperature(request.temperature)
        self.key, self.request = key, request
        self.chances = Chances(request.seed)
        self.step = 0
        self.n_open = request.n_samples
        masks = tuple(find_filters(request.filters))
        self.bending = (request.temperature, masks)

    def draw_chances(self) -> list[float]:
        """One for each sample, for the next step."""
        self.step += 1
        found: list[float] = self.chances.at(self.step - 1, self.request.n_samples).tolist()
        return found


class _Row(NamedTuple, Generic[Key]):
    running: _Running[Key]
    sample: int


class ContinuousBatch(Generic[Key]):
    """Requests that are drawn for together, at most `room` samples of them at a time.

    >>> class Likely:
    ...     '''Token 1 is the likeliest, whatever was read.'''
    ...     join = lambda self, tokens, n_rows: np.log([[0.3, 0.7]] * n_rows)
    ...     advance = lambda self, tokens: np.log([[0.3, 0.7]] * len(tokens))
    ...     leave = lambda self, row: None
    >>> batch = ContinuousBatch(Likely(), room=2)
    >>> batch.add("a", DrawRequest(start=(0,), longest=2, temperature=0))
    >>> [(one.key, one.token, one.is_last) for one in batch.step()]
    [('a', 1, False)]
    >>> batch.add("b", DrawRequest(start=(1,), longest=2, temperature=0))
    >>> [(one.key, one.token, one.is_last) for one in batch.step()]
    [('a', 1, True), ('b', 1, False)]
    >>> batch.n_rows
    1
    """

    def __init__(self, reading: JoinableReading, room: int) -> None:
        self.reading, self.room = reading, room
        self.rows: list[_Row[Key]] = []
        self.chosen: npt.NDArray[Any] = np.zeros(0, np.int64)  # what was drawn last for each row
        self.arriving: list[_Running[Key]] = []

    @property
    def n_rows(self) -> int:
        """How many samples are drawn for, those that join at the next step included."""
        return len(self.rows) + sum(one.request.n_samples for one in self.arriving)

    def has_room(self, n_samples: int) -> bool:
        return self.n_rows + n_samples <= self.room

    def add(self, key: Key, request: DrawRequest) -> None:
        """Let a request join at the next step. Its key comes back with every token."""
        assert self.has_room(request.n_samples), "ask has_room first"
        self.arriving.append(_Running(key, request))

    def remove(self, key: Key, sample: int | None = None) -> None:
        """Draw no more for that sample of a request, or for any of it; what is not here is not missed."""
        self.arriving = [one for one in self.arriving if one.key != key]
        self._leave([at for at, row in enumerate(self.rows) if row.running.key == key and sample in (None, row.sample)])

    def step(self) -> list[DrawnToken[Key]]:
        """One more token of every sample that is here, in no certain order of the requests."""
        scores = [self.reading.advance(self.chosen)] if self.rows else []
        for one in self.arriving:
            scores.append(self.reading.join(np.array(one.request.start, np.int64), one.request.n_samples))
            self.rows += [_Row(one, sample) for sample in range(one.request.n_samples)]
        self.arriving = []
        if not self.rows:
            return []
        drawn = self._draw(np.concatenate(scores))
        self._leave([at for at, one in enumerate(drawn) if one.is_last])
        return drawn

    def _draw(self, scores: FloatArray) -> list[DrawnToken[Key]]:
        running = dict.fromkeys(row.running for row in self.rows)
        chances = {one: one.draw_chances() for one in running}
        chance = np.array([chances[row.running][row.sample] for row in self.rows])
        try:
            self.chosen, logs = self._choose(scores, chance)
        except ImpreciseScores:
            assert isinstance(self.reading, UnsureJoinableReading)
            scores = self.reading.read_exactly()
            self.chosen, logs = self._choose(scores, chance)
        found = []
        for at, (row, token, log) in enumerate(zip(self.rows, self.chosen.tolist(), logs.tolist(), strict=True)):
            request = row.running.request
            is_stop = token == request.stop
            is_last = is_stop or row.running.step == request.longest
            likeliest = _likeliest(scores[at], request.n_likeliest) if request.n_likeliest else ()
            found.append(DrawnToken(row.running.key, row.sample, token, log, likeliest, is_stop, is_last))
        return found

    def _choose(self, scores: FloatArray, chance: FloatArray) -> tuple[IntArray, FloatArray]:
        """The next token of every row, and its log-probability."""
        chosen, logs = np.empty(len(scores), np.int64), np.empty(len(scores))
        for (temperature, masks), places in self._by_bending():
            chosen[places], logs[places] = draw_rows(
                self.reading, places, scores[places], chance[places], temperature, masks
            )
        return chosen, logs

    def _by_bending(self) -> Iterable[tuple[tuple[float, tuple[Filter, ...]], IntArray]]:
        """The rows whose scores are bent alike, together."""
        found: dict[tuple[float, tuple[Filter, ...]], list[int]] = {}
        for at, row in enumerate(self.rows):
            found.setdefault(row.running.bending, []).append(at)
        return [(bending, np.array(places)) for bending, places in found.items()]

    def _leave(self, places: list[int]) -> None:
        for at in reversed(places):  # from the last on, so that whichever takes a place stays
            self.reading.leave(at)
            last, token = self.rows.pop(), self.chosen[len(self.rows)]
            if at < len(self.rows):
                self.rows[at], self.chosen[at] = last, token
        self.chosen = self.chosen[: len(self.rows)]


def _likeliest(scores: FloatArray, n: int) -> tuple[tuple[int, float], ...]:
    """The n likeliest tokens of one row, with their log-probabilities; of equals the first."""
    logs = log_softmax(scores)
    order = np.argsort(-logs, kind="stable")[:n]
    return tuple(zip(order.tolist(), logs[order].tolist(), strict=True))
