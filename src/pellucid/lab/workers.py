"""Where heavy work is done: never in the thread that answers, and never two at once on one random state.

`speak` only reads networks, so that it may go on while something is measured. `measure` draws random numbers and
trains, one piece of work after another. What is asked for again before it was begun is not done twice: a slider that
is dragged leaves only its last place.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

from pellucid.http.answers import Refusal

Answer = TypeVar("Answer")
MOST_WAITING = 16


class Worker:
    """One thread and its queue."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=f"pellucid-{name}")
        self._waiting: dict[str, Future[object]] = {}
        self._n_waiting = 0
        self._begun: set[Future[object]] = set()

    async def do(self, work: Callable[[], Answer], *, key: str = "") -> Answer:
        """The answer of the work. key: of work that takes the place of the same that still waits."""
        if self._n_waiting >= MOST_WAITING:
            raise Refusal(429, "much is being worked on already", fix="Try again in a moment")
        if key and (before := self._waiting.get(key)) is not None:
            before.cancel()
        self._n_waiting += 1
        future: Future[Answer] = self._pool.submit(_on_one_thread, work)
        asked = cast("Future[object]", future)  # what it answers is nobody's business here
        self._begun.add(asked)
        asked.add_done_callback(self._begun.discard)
        if key:
            self._waiting[key] = asked
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            if future.cancelled():
                raise Refusal(409, "something newer was asked for", fix="Take its answer") from None
            future.cancel()
            raise
        finally:
            self._n_waiting -= 1
            if key and self._waiting.get(key) is future:
                del self._waiting[key]

    def close(self) -> list[Future[object]]:
        """Let go of what waits; what is begun, and ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        return list(self._begun)


def _on_one_thread(work: Callable[[], Answer]) -> Answer:
    """A training that runs beside it needs the other cores more."""
    import sys

    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_num_threads"):
        torch.set_num_threads(1)
    return work()
