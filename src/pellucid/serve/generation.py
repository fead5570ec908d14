"""One thread goes on with all prompts together, and a bounded queue stands before it.

Requests join the running batch between two tokens and leave it when they are done, late or given up. What comes of them
is handed to the event loop once for each token of the whole batch, not for each request.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from pellucid.api.serving import CompletionBatch, CompletionPiece, PreparedPrompt
from pellucid.errors import PellucidError
from pellucid.http.answers import Refusal
from pellucid.serve.metrics import Metrics

TIME_LIMIT = "time limit"
LONGEST_WAIT = 60  # seconds that a client is told to wait at most


class Busy(Refusal):
    """Too much is asked for; after so many seconds there may be room."""

    def __init__(self, retry_after: int) -> None:
        super().__init__(429, "too many completions are waiting", fix=f"Try again in {retry_after} s")
        self.retry_after = retry_after


class Said(NamedTuple):
    """A piece of one completion of a request."""

    prompt: int
    sample: int
    piece: CompletionPiece
    is_late: bool = False  # the time limit ended it


class Ticket:
    """One request while it waits and runs. Its pieces come in the event loop that made it."""

    def __init__(self, prompts: Sequence[PreparedPrompt], seconds: float, *, is_streamed: bool) -> None:
        self.prompts, self.is_streamed = prompts, is_streamed
        self.deadline = time.monotonic() + seconds
        self.first_token_at = 0.0
        self.n_open = sum(prompt.options.n for prompt in prompts)
        self._n_drawing = self.n_open  # in the thread that draws
        self._held: list[Said] = []
        self.loop = asyncio.get_running_loop()
        self._arrived: list[Said] = []
        self._fault: Exception | None = None
        self._has_news = asyncio.Event()

    def collect(self, found: list[Said]) -> list[Said]:
        """What is handed over now: of a stream each piece, else all at the end. In the thread that draws."""
        self.first_token_at = self.first_token_at or time.monotonic()
        self._n_drawing -= sum(bool(one.piece.finish) for one in found)
        if self.is_streamed:
            return found
        self._held += found
        return [] if self._n_drawing else self._held

    def put(self, found: list[Said] | Exception) -> None:
        """More of it, or why there is no more. In its event loop."""
        if isinstance(found, Exception):
            self._fault = found
        else:
            self._arrived += found
        self._has_news.set()

    async def next(self) -> list[Said]:
        """Everything that has come; it waits until something has. A fault of ours is raised.

        What piled up is taken at once, so that a stream never writes twice without giving the event loop a turn: in
        that turn it is told that its client has left.
        """
        await self._has_news.wait()
        found, self._arrived = self._arrived, []
        if self._fault is None:
            self._has_news.clear()
        elif not found:
            raise self._fault
        self.n_open -= sum(bool(one.piece.finish) for one in found)
        return found

    @property
    def is_finished(self) -> bool:
        return self.n_open <= 0


class GenerationThread:
    """Draws for all tickets until it is ended.

    queue: how many completions may wait beside those that are drawn for.
    """

    def __init__(self, batch: CompletionBatch[tuple[Ticket, int]], room: int, queue: int, metrics: Metrics) -> None:
        self.batch, self.room, self.queue, self.metrics = batch, room, queue, metrics
        self._changed = threading.Condition()
        self._waiting: deque[tuple[Ticket, int]] = deque()  # tickets, and which of their prompts
        self._n_waiting = 0  # completions
        self._running: dict[tuple[Ticket, int], int] = {}  # how many completions of each are not finished
        self._given_up: list[Ticket] = []
        self._is_over = False
        self._tokens_per_second = 0.0
        self._thread = threading.Thread(target=self._run, name="generation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stop at once; what runs is not finished."""
        with self._changed:
            self._is_over = True
            self._changed.notify()
        self._thread.join(10)

    @property
    def n_running(self) -> int:
        return self.batch.n_running

    @property
    def n_waiting(self) -> int:
        return self._n_waiting

    def submit(self, prompts: Sequence[PreparedPrompt], seconds: float, *, is_streamed: bool) -> Ticket:
        """Let a request wait for its turn; refused with `Busy` where too much waits already."""
        asked = sum(prompt.options.n for prompt in prompts)
        if max(prompt.options.n for prompt in prompts) > self.room:
            raise PellucidError(f"n is more than the {self.room} that are drawn at a time", fix="Ask for fewer")
        if asked > self.room + self.queue:
            raise PellucidError(
                f"{asked:,} completions are more than the {self.room + self.queue:,} that may wait and run",
                fix="Send fewer prompts at a time",
            )
        ticket = Ticket(prompts, seconds, is_streamed=is_streamed)
        with self._changed:
            if self._n_waiting + asked > self.queue + max(0, self.room - self.batch.n_running):
                raise Busy(self._estimate_wait())
            self._waiting.extend((ticket, place) for place in range(len(prompts)))
            self._n_waiting += asked
            self._changed.notify()
        return ticket

    def give_up(self, ticket: Ticket) -> None:
        """Nobody listens any more; its rows are free before the next token."""
        if not ticket.is_finished:
            with self._changed:
                self._given_up.append(ticket)
                self._changed.notify()

    def _estimate_wait(self) -> int:
        """Seconds until a good part of what waits is done, by how fast tokens came lately."""
        tokens = sum(ticket.prompts[place].options.max_tokens for ticket, place in self._waiting)
        rate = self._tokens_per_second or 100.0
        return min(LONGEST_WAIT, max(1, math.ceil(tokens / rate / 2)))

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._running or self._given_up or self._is_over):
                    self._changed.wait()
                if self._is_over:
                    return
                self._drop_given_up()
                found = self._drop_late(time.monotonic())
                self._admit()
            began = time.perf_counter()
            try:
                found += self._step()
            except Exception as error:
                self._fail(error)
                continue
            n_tokens = sum(said.piece.n_drawn for _, said in found)
            if n_tokens:
                rate = n_tokens / max(1e-6, time.perf_counter() - began)
                self._tokens_per_second += 0.05 * (rate - self._tokens_per_second)
                self.metrics.count_step(n_tokens)
            self._hand_over(found)

    def _step(self) -> list[tuple[Ticket, Said]]:
        found = []
        for key, sample, piece in self.batch.step():
            ticket, place = key
            found.append((ticket, Said(place, sample, piece)))
            if piece.finish:
                self._running[key] -= 1
                if not self._running[key]:
                    del self._running[key]
        return found

    def _drop_given_up(self) -> None:
        for ticket in self._given_up:
            self._forget_waiting(ticket)
            for key in [key for key in self._running if key[0] is ticket]:
                self.batch.remove(key)
                del self._running[key]
            self.metrics.count_given_up()
        self._given_up.clear()

    def _forget_waiting(self, ticket: Ticket) -> None:
        kept = deque(one for one in self._waiting if one[0] is not ticket)
        self._n_waiting -= sum(one.prompts[place].options.n for one, place in self._waiting if one is ticket)
        self._waiting = kept

    def _drop_late(self, now: float) -> list[tuple[Ticket, Said]]:
        """What has run too long is cut; what has waited too long without having begun is refused."""
        found = []
        late = {ticket for ticket, _ in (*self._waiting, *self._running) if ticket.deadline < now}
        for ticket in late:
            keys = [key for key in self._running if key[0] is ticket]
            begun = {place for _, place in keys} | (
                set(range(len(ticket.prompts))) - {place for one, place in self._waiting if one is ticket}
            )
            if not begun:
                self._forget_waiting(ticket)
                busy = Busy(self._estimate_wait())
                _call_in(ticket.loop, partial(ticket.put, busy))
                continue
            for key in keys:
                found += [(ticket, Said(key[1], sample, piece, True)) for sample, piece in self.batch.cut(key)]
                del self._running[key]
            for one, place in [one for one in self._waiting if one[0] is ticket]:
                nothing = CompletionPiece("", finish="length")
                found += [(one, Said(place, sample, nothing, True)) for sample in range(one.prompts[place].options.n)]
            self._forget_waiting(ticket)
        return found

    def _admit(self) -> None:
        """First come, first served: who needs much room is not overtaken for ever by those who need little."""
        while self._waiting and self.batch.has_room(self._waiting[0][0].prompts[self._waiting[0][1]]):
            ticket, place = self._waiting.popleft()
            self._n_waiting -= ticket.prompts[place].options.n
            self.batch.add((ticket, place), ticket.prompts[place])
            self._running[ticket, place] = ticket.prompts[place].options.n

    def _fail(self, error: Exception) -> None:
        """A fault of ours: whoever runs is told, and the others go on."""
        for key in self._running:
            self.batch.remove(key)
        for ticket in dict.fromkeys(ticket for ticket, _ in self._running):
            self._forget_waiting(ticket)
            _call_in(ticket.loop, partial(ticket.put, error))
        self._running.clear()

    def _hand_over(self, found: list[tuple[Ticket, Said]]) -> None:
        parts: dict[Ticket, list[Said]] = {}
        for ticket, said in found:
            parts.setdefault(ticket, []).append(said)
        ready = {ticket: now for ticket, said in parts.items() if (now := ticket.collect(said))}
        if ready:
            loop = next(iter(ready)).loop  # that of the server, which all share
            _call_in(loop, partial(_put_all, ready))


def _put_all(parts: dict[Ticket, list[Said]]) -> None:
    for ticket, said in parts.items():
        ticket.put(said)


def _call_in(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody listens
        loop.call_soon_threadsafe(call)
