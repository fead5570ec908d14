"""The data of a training, read and turned into tokens once on each machine, and mapped by all of its processes.

The first process of a machine prepares the task and writes it to a file that only this user can read: a short
description, and behind it every array as it lies in memory. The others map that file, so that the arrays are in memory
once, however many processes there are, and where they are larger than memory they stay on the disk. It is deleted as
soon as all have it. The description is a pickle: it never leaves the machine, and is read by processes of the same
training alone.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from collections.abc import Callable
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch

from pellucid.errors import PellucidError
from pellucid.training.distributed import World, first_error
from pellucid.training.launch import OUTCOME

T = TypeVar("T")
ALIGNED = 64  # bytes, for every array


class _Pickler(pickle.Pickler):
    """Arrays beside the description, those of files and of torch too."""

    def reducer_override(self, value: object) -> Any:
        if isinstance(value, np.memmap):
            return np.asarray(value).__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        if type(value) is torch.Tensor:
            return torch.from_numpy, (value.detach().numpy(),)
        if isinstance(value, WeakKeyDictionary):
            return WeakKeyDictionary, ()  # what was remembered of models of this process
        return NotImplemented


def write_shared(value: object) -> str:
    """Write a value for other processes of this machine, and say where."""
    buffers: list[pickle.PickleBuffer] = []
    head = io.BytesIO()
    _Pickler(head, pickle.HIGHEST_PROTOCOL, buffer_callback=buffers.append).dump(value)
    try:
        # In the launcher's folder, if there is one: it goes with it, whoever is killed.
        folder = os.path.dirname(os.environ.get(OUTCOME, "")) or None
        with tempfile.NamedTemporaryFile(prefix="pellucid-shared-", dir=folder, delete=False) as file:  # 0600
            raws = [buffer.raw() for buffer in buffers]
            sizes = [len(raw) for raw in raws]
            table = np.array([len(head.getvalue()), len(sizes), *sizes], dtype="<i8").tobytes()
            file.write(table + head.getvalue())
            for raw in raws:
                file.write(bytes(-file.tell() % ALIGNED))
                file.write(raw)
            return file.name
    except OSError as error:
        raise PellucidError(
            f"the data could not be kept in {tempfile.gettempdir()}: {error.strerror}",
            fix="Make room there, or set TMPDIR to a folder with room",
        ) from error


def read_shared(path: str) -> Any:
    """A value that another process wrote; its arrays are mapped, and writing into one changes it here alone."""
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    n_head, n_buffers = np.frombuffer(mapped, dtype="<i8", count=2).tolist()
    sizes = np.frombuffer(mapped, dtype="<i8", count=n_buffers, offset=16).tolist()
    at = 8 * (2 + n_buffers)
    head = mapped[at : at + n_head]
    at += n_head
    view, buffers = memoryview(mapped), []
    for size in sizes:
        at += -at % ALIGNED
        buffers.append(view[at : at + size])
        at += size
    return pickle.loads(head, buffers=buffers)


def share_between_processes(world: World, make: Callable[[], T]) -> T:
    """What the first process of each machine makes, in all processes of that machine."""
    if not world.is_shared:
        return make()
    is_first = world.local_rank == 0
    made = first_error(world, lambda: (make() if is_first else None,))[0]
    path = first_error(world, lambda: (write_shared(made) if is_first and world.local_size > 1 else "",))[0]
    try:
        # Ranks of one machine follow one another.
        paths = world.gather(path)
        if not is_first:
            made = read_shared(paths[world.rank - world.local_rank])
        world.gather(True)  # nobody needs its name any more
    finally:
        if path:
            os.unlink(path)
    return cast(T, made)
