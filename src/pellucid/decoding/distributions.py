"""Scores as probabilities: the two forms that drawing and searching need."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


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
