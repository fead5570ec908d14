"""A batch from a file of tensors. No torch until it is read, to refuse other files at once.

Nothing of a file is run: pickled objects are refused, since they could do anything.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any, NamedTuple

from pellucid.errors import PellucidError, TooLarge, quoted

SUFFIXES = (".npy", ".npz", ".safetensors", ".pt")
INPUTS, TARGETS = ("inputs", "input", "x", "tokens"), ("targets", "target", "y", "labels")  # the likeliest name first
LARGEST_FILE = 4 << 30
LARGEST_HEADER = 8 << 20  # of a safetensors file


class StoredBatch(NamedTuple):
    """What forward takes, and the targets where the file has them."""

    inputs: tuple[Any, ...]
    targets: Any = None  # a tensor, or a nest of them; from a file always one


def require_batch_file(path: Path) -> Path:
    """Refuse a file that is not there, too large, or of a format that is not read."""
    formats = f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"
    if not path.is_file():
        raise PellucidError(f"there is no file called {quoted(str(path))}", fix=f"Give a {formats} file")
    if path.suffix not in SUFFIXES:
        raise PellucidError(f"{quoted(path.name)} is no batch: no file of tensors", fix=f"Give a {formats} file")
    if path.stat().st_size > LARGEST_FILE:
        raise _too_large(path)
    return path


def read_batch(path: Path, *, needs_names: bool = False) -> StoredBatch:
    """The batch of a file: one tensor, a tuple (inputs, targets), or tensors by their names.

    Where none is called inputs or x, all but the targets are inputs, in the order of their names; needs_names: refuse
    these, since inputs may not be taken for targets.
    """
    require_batch_file(path)
    from torch import Tensor

    try:
        content = _content_of(path)
    except PellucidError:
        raise
    except Exception as error:  # a torn or foreign file fails in as many ways as there are readers
        raise PellucidError(
            f"{quoted(path.name)} cannot be read as plain tensors",
            fix="Save them with numpy.savez, safetensors or torch.save",
        ) from error
    if isinstance(content, Tensor):
        return StoredBatch((content,))
    if isinstance(content, dict) and content:
        return _by_name(content, path, needs_names)
    if isinstance(content, tuple | list) and len(content) == 2:
        inputs, targets = content
        if targets is None or isinstance(targets, Tensor):
            return StoredBatch(_as_tuple(inputs), targets)
    raise PellucidError(f"{quoted(path.name)} holds no batch", fix="Save a tuple (inputs, targets), or name them so")


def _content_of(path: Path) -> object:
    import numpy as np
    import torch

    if path.suffix == ".pt":
        return torch.load(path, weights_only=True, map_location="cpu")
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        with path.open("rb") as file:
            if int.from_bytes(file.read(8), "little") > LARGEST_HEADER:
                raise ValueError("a header so long is no header")
        return load_file(path)
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as packed:
            if sum(member.file_size for member in packed.infolist()) > LARGEST_FILE:
                raise _too_large(path)
    with path.open("rb") as file:
        read = np.load(file, allow_pickle=False)
        if isinstance(read, np.ndarray):
            return torch.from_numpy(read)
        return {name: torch.from_numpy(read[name]) for name in read.files}


def _by_name(content: dict[str, Any], path: Path, needs_names: bool) -> StoredBatch:
    inputs = next((content[name] for name in INPUTS if name in content), None)
    targets = next((content[name] for name in TARGETS if name in content), None)
    if inputs is None and needs_names:
        held = ", ".join(map(str, list(content)[:5]))
        raise PellucidError(f"{quoted(path.name)} has no inputs, only {held}", fix="Call them inputs and targets")
    if inputs is None:
        inputs = tuple(content[name] for name in sorted(content, key=str) if name not in TARGETS)
    return StoredBatch(_as_tuple(inputs), targets)


def _as_tuple(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)


def _too_large(path: Path) -> TooLarge:
    return TooLarge(f"{quoted(path.name)} is larger than {LARGEST_FILE >> 30} GB", fix="Give a few rows of it")
