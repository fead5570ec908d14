"""The loss over a whole side: the mean surprise of every predicted token, without learning from any."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import torch
from torch.nn import functional

from pellucid.data.sides import Side
from pellucid.models.neural import SequenceModel
from pellucid.records import Loss
from pellucid.training.batches import IGNORED, Batch, items_of

MOST_TOKENS = 4096  # of one pass: few enough to stay in a CPU's cache
MOST_SCORES = 1 << 22  # of one pass, so that a large vocabulary does not fill the memory


def loss_on(model: SequenceModel, side: Side, context: int) -> Loss:
    """The mean loss in nats over every token of the side but the first. The model is left in the mode it was in.

    A text is read in windows of `context` targets, one after another; each begins with the last token of the one
    before it and has seen nothing else.
    """
    was_training = model.training
    model.eval()
    total, n_tokens, n_impossible = 0.0, 0, 0
    try:
        with torch.inference_mode():
            for tokens, targets, n in passes(side, context, max(1, min(MOST_TOKENS, MOST_SCORES // model.vocab_size))):
                scores = model(tokens)
                losses = functional.cross_entropy(
                    scores.flatten(0, 1), targets.flatten(), ignore_index=IGNORED, reduction="none"
                )
                total += losses.sum(dtype=torch.float64).item()
                n_impossible += int(losses.isinf().sum())
                n_tokens += n
    finally:
        model.train(was_training)
    return Loss(total / n_tokens if n_tokens else math.nan, n_tokens, n_impossible)


def passes(side: Side, context: int, most_tokens: int) -> Iterator[Batch]:
    """The whole side in batches of at most so many tokens, or of one row where that is longer."""
    if side.n_predicted < 1:
        return
    if side.has_boundary:
        items = items_of(side)
        order = np.argsort(items.lengths, kind="stable")
        lengths = items.lengths[order].tolist()
        first = 0
        while first < len(order):
            end = first + 1
            # As many as fit beside the longest of them, which is the last: rows times its length.
            while end < len(order) and (end + 1 - first) * lengths[end] <= most_tokens:
                end += 1
            yield items.together(order[first:end])
            first = end
        return
    n_windows, n_left = divmod(side.n_predicted, context)
    each = max(1, most_tokens // context)
    for first in range(0, n_windows, each):
        n = min(each, n_windows - first)
        stretch = torch.from_numpy(side.tokens[first * context : (first + n) * context + 1].astype(np.int64))
        yield Batch(stretch[:-1].view(n, context), stretch[1:].view(n, context), n * context)
    if n_left:
        rest = torch.from_numpy(side.tokens[n_windows * context :].astype(np.int64))[None]
        yield Batch(rest[:, :-1], rest[:, 1:], n_left)
