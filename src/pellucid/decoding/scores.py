"""Scores (logits) of the next token: how decoding asks for them, token by token, and as probabilities."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]

# (batch, time) tokens read so far -> (batch, vocab) scores: logits or log-probabilities, -inf for the impossible.
Scores = Callable[[IntArray], FloatArray]


class Reading(Protocol):
    """Rows of tokens that were read so far, and what may come next in each."""

    def read(self, tokens: IntArray) -> FloatArray:
        """tokens: (batch, time), perhaps of no time at all -> scores after them, (batch, vocab)."""

    def advance(self, tokens: IntArray) -> FloatArray:
        """tokens: (batch,), the next of each row -> scores after them, (batch, vocab)."""

    def keep(self, rows: IntArray) -> None:
        """Go on with these rows alone, in this order; a row may come twice."""


class FromContexts:
    """A reading by a function that looks at everything read so far, as a table of counts does."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores
        self.tokens: IntArray = np.zeros((0, 0), np.int64)

    def read(self, tokens: IntArray) -> FloatArray:
        self.tokens = np.asarray(tokens, np.int64)
        return self.scores(self.tokens)

    def advance(self, tokens: IntArray) -> FloatArray:
        self.tokens = np.concatenate([self.tokens, np.asarray(tokens, np.int64)[:, None]], axis=1)
        return self.scores(self.tokens)

    def keep(self, rows: IntArray) -> None:
        self.tokens = self.tokens[rows]


def softmax(scores: FloatArray) -> FloatArray:
    """(..., vocab) scores -> probabilities. -inf gets 0; at least one score of each row is finite.

    >>> softmax(np.log([1.0, 2.0, 1.0])).tolist()
    [0.25, 0.5, 0.25]
    """
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def log_softmax(scores: FloatArray) -> FloatArray:
    """(..., vocab) scores -> log-probabilities, without the rounding of a probability near 0 or 1 in between.

    >>> log_softmax(np.array([0.0, -1000.0])).tolist()
    [0.0, -1000.0]
    """
    shifted = scores - scores.max(axis=-1, keepdims=True)
    logs: FloatArray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    return logs
