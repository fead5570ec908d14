"""What a step of training does besides its updates: data that it writes on, and differences of a column and a row.

For a forked process: data are looked for among all tensors that there are, in closures, loaders and objects alike.
"""

from __future__ import annotations

import gc
import statistics
from typing import Any

import torch
from torch import Tensor

from pellucid.inspection.instrument.nests import tensors_in
from pellucid.inspection.instrument.recording import operator_name

MOST_NUMBERS = 5_000_000  # of one tensor that is looked at


class StoredData:
    """Tensors that hold the rows of a batch, wherever they are kept, as they were when this was made.

    >>> data = torch.randn(6, 3)
    >>> seen = StoredData((data[:2].clone(),))
    >>> data += 0.1
    >>> share, far = seen.written()
    >>> share, far < 1
    (1.0, True)
    """

    def __init__(self, inputs: tuple[Any, ...]) -> None:
        batch = [one for one in tensors_in(inputs) if one.is_floating_point() and one.dim() > 1 and len(one) > 1]
        self._kept: list[tuple[Tensor, Tensor]] = []
        known = {id(one) for one in batch}
        for one in gc.get_objects():  # by their types: some pretend to be of another class, and raise when asked
            if type(one) is Tensor and id(one) not in known and any(_holds(one, given) for given in batch):
                self._kept.append((one, one.detach().clone()))

    def written(self) -> tuple[float, float]:
        """The share of rows that were changed, and by how much of their size; of rows that are still like before.

        Rows that were replaced by others, as in a buffer of experience, are not counted.
        """
        found = [(0.0, 0.0)]
        for now, before in self._kept:
            old, new = before.flatten(1).double(), now.detach().flatten(1).double()
            apart = (new - old).norm(dim=1)
            is_changed = apart > 0
            if bool(is_changed.any()):
                alike = torch.cosine_similarity(old[is_changed], new[is_changed], dim=1)
                share = float(is_changed.double().mean()) if float(alike.median()) > 0.3 else 0.0
                sizes = old[is_changed].norm(dim=1).clamp(min=1e-12)
                found.append((share, statistics.median((apart[is_changed] / sizes).tolist())))
        return max(found)


def _holds(stored: Tensor, batch: Tensor) -> bool:
    """Whether the first rows of a batch are among those of a tensor."""
    if stored.dtype is not batch.dtype or stored.dim() != batch.dim() or stored.shape[1:] != batch.shape[1:]:
        return False
    if stored.requires_grad or stored.numel() > MOST_NUMBERS or stored.device != batch.device:
        return False
    return all(bool((stored == row).flatten(1).all(1).any()) for row in batch[:2].detach())


def crossed_shapes(operator: Any, given: tuple[Any, ...], made: object) -> str:
    """The shapes of a column and a row of as many numbers whose difference is a table; "" of all else.

    (N, 1) with (1, N) was written so on purpose; (N, 1) with (N) was not.
    """
    if not isinstance(made, Tensor) or made.dim() != 2 or made.shape[0] != made.shape[1] or len(made) < 2:
        return ""
    if operator_name(operator) != "sub":
        return ""
    read = [one for one in given if isinstance(one, Tensor) and one.numel() == len(made)]
    if len(read) != 2 or {one.dim() for one in read} != {1, 2}:
        return ""
    return " and ".join(str(tuple(one.shape)) for one in read)
