"""Batches of rows and images: a pure function of the seed and the step."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from pellucid.data.examples import Examples
from pellucid.training.rng import numpy_rng


class ExampleBatch(NamedTuple):
    """numbers: (batch, …), codes: (batch, columns), targets: (batch,)."""

    numbers: Tensor
    codes: Tensor
    targets: Tensor

    @property
    def n_tokens(self) -> int:
        """Predictions: one for each example."""
        return len(self.targets)


def whole(examples: Examples) -> ExampleBatch:
    """All examples as one batch."""
    return ExampleBatch(*(torch.from_numpy(np.ascontiguousarray(part)) for part in _parts(examples)))


def _parts(examples: Examples) -> tuple[npt.NDArray[Any], ...]:
    return examples.numbers, examples.codes, examples.targets


class ExampleBatches:
    """Every example once in an epoch, in an order of the epoch's own.

    shift: images are moved by up to so many pixels up, down and sideways, by chance; what comes in is the edge again.

    >>> rows = Examples(np.ones((5, 2), np.float32), np.zeros((5, 0), np.int64), np.arange(5))
    >>> batches = ExampleBatches(rows, batch=2, seed=0)
    >>> sorted(target for step in (1, 2, 3) for target in batches.batch(step).targets.tolist())
    [0, 1, 2, 3, 4]
    """

    def __init__(self, examples: Examples, batch: int, seed: int, shift: int = 0) -> None:
        self.all = whole(examples)
        self.seed, self.shift = seed, shift
        self.per_epoch = -(-len(examples) // batch)
        self._epoch = -1
        self._order: list[npt.NDArray[Any]] = []

    def batch(self, step: int) -> ExampleBatch:
        epoch, place = divmod(step - 1, self.per_epoch)
        if epoch != self._epoch:
            shuffled = numpy_rng(self.seed, epoch, "batches").permutation(len(self.all.targets))
            self._order, self._epoch = np.array_split(shuffled, self.per_epoch), epoch
        rows = torch.from_numpy(self._order[place])
        batch = ExampleBatch(*(part.index_select(0, rows) for part in self.all))
        if not self.shift:
            return batch
        by = numpy_rng(self.seed, step, "shift").integers(-self.shift, self.shift + 1, (2, len(rows)))
        return batch._replace(numbers=shifted(batch.numbers, torch.from_numpy(by)))


def shifted(images: Tensor, by: Tensor) -> Tensor:
    """images: (batch, channels, height, width), each moved by its own whole pixels; by: (2, batch), down and right.

    >>> shifted(torch.tensor([[[[1.0, 2.0, 3.0]]]]), torch.tensor([[0], [1]]))
    tensor([[[[1., 1., 2.]]]])
    """
    most = int(by.abs().max())
    if not most:
        return images
    height, width = images.shape[2:]
    wide = functional.pad(images, (most,) * 4, mode="replicate")
    rows = (torch.arange(height) + most - by[0][:, None])[:, None, :, None]
    columns = (torch.arange(width) + most - by[1][:, None])[:, None, None, :]
    which = torch.arange(len(images))[:, None, None, None]
    channels = torch.arange(images.shape[1])[None, :, None, None]
    return wide[which, channels, rows, columns]
