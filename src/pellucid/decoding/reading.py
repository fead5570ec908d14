"""What decoding asks of whoever knows the scores: go on by one token for each row, and go on with some rows alone."""

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
