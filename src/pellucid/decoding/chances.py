"""The chance in drawing: a pure function of (seed, step, sample)."""

import numpy as np

from pellucid.decoding.distributions import FloatArray
from pellucid.decoding.limits import require_seed


class Chances:
    """Numbers from 0 up to 1 for any step and sample.

    >>> a, b = Chances(seed=7), Chances(seed=7)
    >>> bool(a.at(step=3, n=2)[0] == b.at(step=3, n=100)[0])
    True
    """

    def __init__(self, seed: int) -> None:
        require_seed(seed)
        # Raw words of a counter-based generator, whose stream NumPy promises to keep, unlike that of its distributions.
        self._words = np.random.Philox(key=np.array([seed, 0], np.uint64))
        self._start = self._words.state

    def at(self, step: int, n: int) -> FloatArray:
        """Those of the samples 0 to n - 1; the first ones are the same whatever n is."""
        # To set the key of one generator takes a seventh of the time of making another.
        self._start["state"]["key"][1] = step
        self._words.state = self._start
        chances: FloatArray = (self._words.random_raw(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return chances
