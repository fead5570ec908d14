"""One training in several processes: who is who, what they tell each other, and the data that they share.

torchrun starts the processes and tells each its rank by the environment; `world_of_environment` reads it. Rank 0
leads: it reads the data, plans, writes the run's folder and speaks. The others hold the same network, learn from their
shares of the same batches, and do what rank 0 says. A process that was started alone is a world of one, and nothing
here runs.

What must be the same for any number of processes (batches, losses, evaluations) is cut by `Share`: a pure function of
the rank and the number of processes, with no state.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch import distributed as dist

from pellucid.errors import PellucidError
from pellucid.layers.norms import BatchNorm
from pellucid.training.launch import EXIT_LOST, OUTCOME, end_with_parent

T = TypeVar("T")

MEETING = timedelta(minutes=2)  # to reach the process where all meet
TIMEOUT = timedelta(minutes=30)  # of one exchange: rank 0 may fit simple models, sample or save for so long
# What an exchange says when another process is gone or silent; torch has no class for it.
SIGNS_OF_LOSS = ("onnection closed by peer", "onnection reset", "onnection refused", "gloo", "Broken pipe", "imed out")
# Groups that this process has parted from. To take one apart, torch waits for Gloo's threads without letting go of the
# interpreter, and one of them may wait for that, to let go of the tensors of an exchange that failed. So none is.
_PARTED: list[Any] = []


@dataclass(frozen=True)
class Share:
    """One of the parts that work is dealt into, the first being 0."""

    index: int = 0
    of: int = 1

    def rows(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Its stretch of rows; where there are fewer rows than parts, those that would have none get the first.

        >>> [Share(i, 3).rows(np.array([5, 6, 7, 8])).tolist() for i in range(3)]
        [[5, 6], [7], [8]]
        """
        if self.of == 1:
            return rows
        return np.array_split(rows, self.of)[self.index] if self.index < len(rows) else rows[:1]

    def within(self, inner: Share) -> Share:
        """Of the parts that each part is cut into again, this one's.

        >>> Share(1, 2).within(Share(0, 3))
        Share(index=3, of=6)
        """
        return Share(self.index * inner.of + inner.index, self.of * inner.of)


WHOLE = Share()


@dataclass(frozen=True)
class World:
    """The processes of a training, as one of them sees it."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # on its machine
    local_size: int = 1

    @property
    def is_main(self) -> bool:
        """Whether this one reads, plans, writes and speaks."""
        return self.rank == 0

    @property
    def is_shared(self) -> bool:
        return self.size > 1

    @property
    def share(self) -> Share:
        return Share(self.rank, self.size)

    def deal(self, passes: Iterable[T], *, in_step: bool = False) -> Iterator[tuple[T, bool]]:
        """Every so-many-th pass, and whether it counts.

        in_step: all make as many, as a network that is divided over them needs; where none is left for one, it makes
        that of another again, and it does not count.

        >>> [list(World(rank, 3).deal("abcde", in_step=True)) for rank in (0, 2)]
        [[('a', True), ('d', True)], [('c', True), ('d', False)]]
        """
        n_passes, first = 0, None
        for n_passes, one in enumerate(passes, 1):
            turn = (n_passes - 1) % self.size
            first = first if turn else one
            if turn == self.rank:
                yield one, True
        if in_step and first is not None and 0 < n_passes % self.size <= self.rank:
            yield first, False

    def broadcast(self, value: T) -> T:
        """What rank 0 holds, in every process."""
        if not self.is_shared:
            return value
        found = [value]
        dist.broadcast_object_list(found, src=0, device=torch.device("cpu"))
        return found[0]

    def gather(self, value: T) -> list[T]:
        """What each holds, by rank."""
        if not self.is_shared:
            return [value]
        found: list[Any] = [None] * self.size
        dist.all_gather_object(found, value)
        return found

    def add(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum over all processes. Where each place was filled by one of them and is 0 elsewhere, it is exact."""
        if not self.is_shared:
            return numbers
        # A copy: what came is not changed.
        total = torch.from_numpy(np.array(numbers))
        dist.all_reduce(total, group=_cpu_group())
        summed: npt.NDArray[Any] = total.numpy()
        return summed

    def broadcast_tensors(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The tensors of rank 0 by name, on the CPU, one after another so that no more than one is on its way."""
        if not self.is_shared:
            return dict(tensors)
        shapes = self.broadcast([(name, tuple(one.shape), one.dtype) for name, one in tensors.items()])
        found = {}
        for name, shape, dtype in shapes:
            tensor = tensors[name].detach().cpu().contiguous() if self.is_main else torch.empty(shape, dtype=dtype)
            dist.broadcast(tensor, src=0, group=_cpu_group())
            found[name] = tensor
        return found


ALONE = World()


def _cpu_group() -> Any:
    """The group for what stays on the CPU. With NCCL beside it, gloo is chosen by the tensor's device."""
    return dist.group.WORLD


def world_of_environment(environment: Mapping[str, str] = os.environ) -> World:
    """Who this process is, as torchrun says; a world of one where nothing did.

    >>> world_of_environment({}), world_of_environment({"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}).size
    (World(rank=0, size=1, local_rank=0, local_size=1), 2)
    """
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return ALONE
    try:
        rank, size = int(environment["RANK"]), int(environment["WORLD_SIZE"])
        local_rank = int(environment.get("LOCAL_RANK", rank))
        local_size = int(environment.get("LOCAL_WORLD_SIZE", size))
    except ValueError as error:
        raise PellucidError(f"RANK or WORLD_SIZE is no number: {error}", fix="Start it with torchrun") from error
    if not 0 <= rank < size:
        raise PellucidError(f"RANK is {rank} and WORLD_SIZE {size}", fix="Start it with torchrun")
    return World(rank, size, local_rank, local_size)


@contextmanager
def joined_world(device: str = "cpu") -> Iterator[World]:
    """Meet the other processes, if there are any, and part from them at the end."""
    world = world_of_environment()
    if not world.is_shared or dist.is_initialized():
        yield world if world.is_shared else ALONE
        return
    end_with_parent()
    backend = "cpu:gloo,cuda:nccl" if device.startswith("cuda") else "gloo"
    if world.local_size == world.size:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # nothing leaves the machine
    try:
        dist.init_process_group(
            backend, store=_meeting_place(world), rank=world.rank, world_size=world.size, timeout=TIMEOUT
        )
    except (RuntimeError, ValueError, KeyError) as error:
        where = f"{os.environ.get('MASTER_ADDR', '?')}:{os.environ.get('MASTER_PORT', '?')}"
        raise PellucidError(
            f"process {world.rank} could not meet the {world.size - 1} others at {where}",
            fix="Look whether that machine can be reached and all of them were started",
        ) from error
    try:
        yield world
    finally:
        if dist.is_initialized():
            _PARTED.append(dist.group.WORLD)
            dist.destroy_process_group()


def _meeting_place(world: World) -> Any:
    """Where processes tell each other their addresses: the launcher's store, or one that rank 0 opens.

    After a restart the launcher's store still holds the addresses of those that are gone, and torch would wait for them
    for half an hour: every attempt has names of its own.
    """
    is_launchers = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = dist.TCPStore(  # type: ignore[attr-defined]  # as its documentation names it
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        world.size,
        is_master=world.is_main and not is_launchers,
        timeout=MEETING,
        wait_for_workers=False,
        multi_tenant=True,
    )
    store.set_timeout(TIMEOUT)
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return dist.PrefixStore(f"pellucid/{attempt}", store)  # type: ignore[attr-defined]  # the same


class ProcessLost(PellucidError):
    """Another process of the training is gone; everything up to the last checkpoint is intact."""

    def __init__(self, run: str) -> None:
        is_restarted = OUTCOME in os.environ
        again = (
            "All start again from the last checkpoint" if is_restarted else f"Go on with pellucid train --resume {run}"
        )
        super().__init__("another process of this training was lost", fix=again)
        self.exit_code = EXIT_LOST if is_restarted else 3


@contextmanager
def noticing_loss(run: str) -> Iterator[None]:
    """Inside, an exchange that fails because another process is gone is told as that."""
    try:
        yield
    except dist.DistBackendError as error:
        raise ProcessLost(run) from error
    except RuntimeError as error:
        if any(sign in str(error) for sign in SIGNS_OF_LOSS):
            raise ProcessLost(run) from error
        raise


def share_batch_norms(model: nn.Module) -> None:
    """Let every batch norm see the rows of all processes: a batch is the same whoever holds its rows."""
    for part in model.modules():
        if isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
            raise PellucidError(
                f"{type(part).__name__} of torch sees the rows of one process alone",
                fix="Train this network in one process",
            )
        if isinstance(part, BatchNorm):
            part.is_shared = True


def require_equal(world: World, what: str, value: str) -> None:
    """Refuse to train where processes see different things, such as other files under the same name."""
    found = world.gather(value)
    odd = next((rank for rank, one in enumerate(found) if one != found[0]), None)
    if odd is not None:
        raise PellucidError(
            f"process {odd} has other {what} than process 0 ({found[odd][:12]} in place of {found[0][:12]})",
            fix="Give every machine the same files and versions",
        )


def first_error(world: World, work: Callable[[], T]) -> T:
    """Do it, and raise in every process what went wrong in any of them, so that none waits for one that is gone."""
    found: T | None = None
    error: PellucidError | None = None
    try:
        found = work()
    except PellucidError as one:
        error = one
    told = world.gather(None if error is None else (str(error), error.exit_code))
    if error is not None:
        raise error
    for rank, other in enumerate(told):
        if other is not None:
            raise PellucidError(f"process {rank} stopped: {other[0].rstrip('.')}", fix="Mend it there")
    assert found is not None
    return found
