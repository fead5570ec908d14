"""A network for pairs as decoding reads it: one source, and rows of its target that grow by one token.

It is a `Reading` of `pellucid.decoding`, so that beam search and sampling answer a source as they go on with a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.models.pairs.contract import PairModel
from pellucid.models.pairs.sources import padded

IntArray = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]


class PairReading:
    """Reads the source once, and each token of the target once.

    >>> from pellucid.models.catalogue import find_network
    >>> card = find_network("transformer", "pairs")
    >>> reading = PairReading(card.build(card.tiny), source=[3, 1, 1])
    >>> reading.read(np.array([[0], [0]])).shape, reading.advance(np.array([1, 2])).shape
    ((2, 7), (2, 7))
    """

    def __init__(self, model: PairModel, source: Sequence[int]) -> None:
        self.model = model.for_inference()
        self.source = padded([source])
        self.state: Any = None

    @torch.inference_mode()
    def read(self, tokens: IntArray) -> FloatArray:
        """tokens: (batch, time), each row `0 a b …` -> scores after them, (batch, vocab).

        Before the opening boundary nothing is known: every score is 0.
        """
        once = self.model.begin(self.source)
        self.state = self.model.keep(once, torch.zeros(len(tokens), dtype=torch.int64))
        scores = np.zeros((len(tokens), self.model.vocab_size))
        for column in tokens.T:
            scores = self.advance(column)
        return scores

    @torch.inference_mode()
    def advance(self, tokens: IntArray) -> FloatArray:
        """tokens: (batch,), the next of each row -> scores after them, (batch, vocab)."""
        scores, self.state = self.model.advance(_tensor(tokens), self.state)
        # Scores of single precision become probabilities of double, so that small ones do not vanish on the way.
        found: FloatArray = scores.double().numpy()
        return found

    @torch.inference_mode()
    def keep(self, rows: IntArray) -> None:
        """Go on with these rows alone, in this order; a row may come twice."""
        self.state = self.model.keep(self.state, _tensor(rows))


def _tensor(tokens: IntArray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(tokens, np.int64))
