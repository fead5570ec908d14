"""Many independent pieces of work at once: in processes of this machine, or on a Ray cluster.

A piece is a function of a module with its arguments, so that another process can be asked for it. Results come in the
order in which they are done, each with its number; what they are does not depend on where they were made. A worker that
is killed loses nothing but time: its piece is done again.
"""

from __future__ import annotations

import importlib.util
import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, TypeVar

from pellucid.errors import PellucidError
from pellucid.options import check_options, option

T = TypeVar("T")
PLACES = ("processes", "ray")
TRIES = 4  # of a piece whose worker was killed
POLL_SECONDS = 0.5  # between two looks at whether the time is over


@dataclass(frozen=True)
class WorkerOptions:
    """Where independent pieces of work run, and how many at once."""

    on: str = option("processes", "Where to run: processes of this machine, or ray", noun="place", choices=PLACES)
    workers: int = option(0, "Pieces of work at once; by default one for each core.", minimum=0, maximum=4096)
    address: str = option(
        "", "Address of a Ray cluster; without it Ray starts on this machine.", example="ray://head:10001"
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.on == "ray" and importlib.util.find_spec("ray") is None:
            raise PellucidError("Ray is not installed", fix='Install it: pip install "pellucid[ray]"')
        if self.address and self.on != "ray":
            raise PellucidError(
                "{address} is that of a Ray cluster", fix="Add {on}", options={"address": None, "on": "ray"}
            )

    def n_at_once(self, n_pieces: int) -> int:
        """As many as were asked for, or cores are here, and never more than there are pieces."""
        return max(1, min(self.workers or len(os.sched_getaffinity(0)), n_pieces))


HERE = WorkerOptions()


def run_pieces(
    work: Callable[..., T],
    pieces: Sequence[tuple[Any, ...]],
    options: WorkerOptions = HERE,
    *,
    deadline: float = math.inf,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[int, T]]:
    """Each result with the number of its piece, as they are done.

    deadline: by the monotonic clock, after which none is begun. is_stopped: asked now and then; then what runs is ended
    and nothing more comes.
    """
    run = _on_ray if options.on == "ray" else _on_processes
    yield from run(work, pieces, options, deadline, is_stopped)


def _on_processes(
    work: Callable[..., T],
    pieces: Sequence[tuple[Any, ...]],
    options: WorkerOptions,
    deadline: float,
    is_stopped: Callable[[], bool],
) -> Iterator[tuple[int, T]]:
    n = options.n_at_once(len(pieces))
    if n == 1 and options.workers <= 1:
        for number, piece in enumerate(pieces):
            if time.monotonic() >= deadline or is_stopped():
                return
            yield number, work(*piece)
        return
    left, tries = list(reversed(range(len(pieces)))), [0] * len(pieces)
    while left:
        pool = _start_pool(n)
        waiting: dict[Future[T], int] = {}
        try:
            while waiting or (left and time.monotonic() < deadline):
                while left and len(waiting) < n and time.monotonic() < deadline:
                    number = left.pop()
                    tries[number] += 1
                    waiting[pool.submit(work, *pieces[number])] = number
                ended, _ = wait(waiting, timeout=POLL_SECONDS, return_when=FIRST_COMPLETED)
                if is_stopped():
                    return
                for future in ended:
                    result = future.result()  # raises what the piece raised, or that its worker is gone
                    yield waiting.pop(future), result
            return
        except BrokenProcessPool as error:
            # Whatever was under way is done again by new workers.
            again = sorted(waiting.values(), reverse=True)
            if worn := [number for number in again if tries[number] >= TRIES]:
                raise PellucidError(
                    f"the worker of piece {worn[0] + 1} of {len(pieces)} was gone {TRIES} times",
                    fix="Look whether there is memory for so many at once ({workers} asks for fewer), and whether a "
                    'script that calls this does so under if __name__ == "__main__"',
                    options={"workers": max(1, n // 2)},
                ) from error
            left += again
        finally:
            _end_pool(pool)


def _start_pool(n: int) -> ProcessPoolExecutor:
    # Spawned, not forked: a forked process inherits threads of torch that are not there.
    import multiprocessing

    return ProcessPoolExecutor(n, mp_context=multiprocessing.get_context("spawn"), initializer=_begin_worker)


def _end_pool(pool: ProcessPoolExecutor) -> None:
    """End its processes now: what one of them still does is not waited for."""
    processes: Mapping[int, Any] = dict(getattr(pool, "_processes", None) or {})
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes.values():
        process.terminate()
    for process in processes.values():
        process.join()


def _begin_worker() -> None:
    import signal

    from pellucid.training.launch import end_with_parent

    os.environ["OMP_NUM_THREADS"] = "1"
    # Ctrl-C comes to all of a terminal's processes; the one that was started decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()


def _on_ray(
    work: Callable[..., T],
    pieces: Sequence[tuple[Any, ...]],
    options: WorkerOptions,
    deadline: float,
    is_stopped: Callable[[], bool],
) -> Iterator[tuple[int, T]]:
    with _ray(options) as ray:
        # One core for each, so that a cluster takes as many at once as it has cores; Ray does a lost one again.
        remote = ray.remote(_work_in_folder).options(num_cpus=1, max_retries=TRIES - 1)
        limit = options.workers or len(pieces)
        left, waiting = list(reversed(range(len(pieces)))), dict[Any, int]()
        while waiting or (left and time.monotonic() < deadline):
            while left and len(waiting) < limit and time.monotonic() < deadline:
                number = left.pop()
                waiting[remote.remote(os.getcwd(), work, pieces[number])] = number
            ended, _ = ray.wait(list(waiting), num_returns=1, timeout=POLL_SECONDS)
            if is_stopped():
                for reference in waiting:
                    ray.cancel(reference, force=True)
                return
            for reference in ended:
                number = waiting.pop(reference)
                try:
                    yield number, ray.get(reference)
                except ray.exceptions.RayTaskError as error:
                    raise (error.cause if isinstance(error.cause, PellucidError) else error) from error
                except ray.exceptions.RayError as error:
                    raise PellucidError(
                        f"piece {number + 1} of {len(pieces)} was lost {TRIES} times on Ray: {type(error).__name__}",
                        fix="Look at the cluster with ray status",
                    ) from error


def _work_in_folder(folder: str, work: Callable[..., T], piece: tuple[Any, ...]) -> T:
    """On a worker: the piece, in the folder of the one who asked; run folders are on a disk that both see."""
    os.chdir(folder)
    return work(*piece)


class _ray:
    """Ray, connected to the cluster or started here; what was started is ended again."""

    def __init__(self, options: WorkerOptions) -> None:
        self.options = options
        self.is_ours = False

    def __enter__(self) -> Any:
        import ray

        if not ray.is_initialized():
            try:
                ray.init(
                    address=self.options.address or None,
                    num_cpus=self.options.workers or None if not self.options.address else None,
                    include_dashboard=None if self.options.address else False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    configure_logging=False,
                )
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise PellucidError(
                    f"no Ray cluster answers at {self.options.address or 'this machine'}",
                    fix="Look at the address, or leave {address} out to start one here",
                    options={"address": None},
                ) from error
            self.is_ours = True
        return ray

    def __exit__(self, *_: object) -> None:
        import ray

        if self.is_ours:
            ray.shutdown()
