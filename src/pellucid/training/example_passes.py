"""A network for examples over a whole side: what it says of each, and what it should say."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from pellucid.data.examples import Examples
from pellucid.models.examples.contract import ExampleModel, Reconstructor
from pellucid.training.example_batches import ExampleBatch, whole

AT_ONCE = 512  # examples of one pass that is not learned from


def wanted(model: ExampleModel, batch: ExampleBatch) -> Tensor:
    """What the scores should be: the targets, or the example itself."""
    return model.wanted(batch.numbers, batch.codes) if isinstance(model, Reconstructor) else batch.targets


def passed(model: ExampleModel, examples: Examples) -> Iterator[tuple[Tensor, ExampleBatch]]:
    """The scores of all examples, in passes that memory holds. The model is left in the mode it was in."""
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            for first in range(0, len(examples), AT_ONCE):
                batch = whole(examples.rows(slice(first, first + AT_ONCE)))
                yield model(batch.numbers, batch.codes), batch
    finally:
        model.train(was_training)
