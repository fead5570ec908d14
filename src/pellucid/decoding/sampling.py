"""Drawing tokens one after another: look at the scores, draw, go on from there, stop at the boundary.

The chance in it is a pure function of (seed, step, sample): the i-th sample is the same however many are drawn with it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pellucid.decoding.limits import require_seed, require_temperature

# (batch, time) tokens read so far -> (batch, vocab) scores: logits or log-probabilities, -inf for the impossible.
Scores = Callable[[npt.NDArray[Any]], npt.NDArray[np.float64]]

FloatArray = npt.NDArray[np.float64]

NEVER = -1  # no token stops


@dataclass(frozen=True)
class Drawn:
    """The tokens drawn after the start, without the one that stopped, and their log-probability with it."""

    tokens: tuple[int, ...]
    log_probability: float  # under the scores as they came, not as temperature bent them
    is_cut: bool  # stopped by length and not by the boundary


def draw(
    scores: Scores,
    *,
    n_samples: int,
    longest: int,
    start: Sequence[int] = (),
    stop: int = NEVER,
    seed: int = 0,
    temperature: float = 1.0,
) -> list[Drawn]:
    """Draw samples, all at once. Each begins after the tokens of `start` and ends at `stop` or after `longest`.

    >>> alternate = lambda contexts: np.log(np.eye(3)[(contexts[:, -1] + 1) % 3] + 1e-300)
    >>> [sample.tokens for sample in draw(alternate, n_samples=2, longest=9, start=[0], stop=0)]
    [(1, 2), (1, 2)]
    """
    require_seed(seed)
    require_temperature(temperature)
    read = np.empty((n_samples, len(start) + longest), np.int64)
    read[:, : len(start)] = start
    rows = np.arange(n_samples)  # which sample each row of `read` is; finished ones leave
    surprises = np.zeros(n_samples)
    done: dict[int, Drawn] = {}
    for step in range(longest):
        if not len(rows):
            break
        here = len(start) + step
        found = scores(read[:, :here])
        chosen = _chosen(found, temperature, _chances(seed, step, n_samples)[rows])
        surprises[rows] -= _log_probabilities(found)[np.arange(len(rows)), chosen]
        read[:, here] = chosen
        is_over = chosen == stop
        for row in np.flatnonzero(is_over).tolist():
            done[int(rows[row])] = Drawn(
                tuple(read[row, len(start) : here].tolist()), -float(surprises[rows[row]]), False
            )
        if is_over.any():
            read, rows = read[~is_over], rows[~is_over]
    for row, sample in enumerate(rows.tolist()):
        done[sample] = Drawn(tuple(read[row, len(start) :].tolist()), -float(surprises[sample]), stop != NEVER)
    return [done[sample] for sample in range(n_samples)]


def probabilities(scores: FloatArray, temperature: float) -> FloatArray:
    """(..., vocab) scores -> probabilities. Below 1 the likely become likelier; at 0 the first likeliest gets all.

    >>> probabilities(np.log([0.1, 0.6, 0.3]), 0).tolist()
    [0.0, 1.0, 0.0]
    """
    highest = scores.max(axis=-1, keepdims=True)
    if temperature == 0:
        greedy: FloatArray = np.eye(scores.shape[-1])[scores.argmax(axis=-1)]
        return greedy
    with np.errstate(over="ignore"):  # a gap too large to hold is as good as impossible
        weights = np.exp((scores - highest) / temperature)
    shares: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def _chosen(scores: FloatArray, temperature: float, chances: FloatArray) -> npt.NDArray[np.int64]:
    """The token in whose part of the heap of probabilities the chance falls."""
    heaps = np.cumsum(probabilities(scores, temperature), axis=-1)
    places: npt.NDArray[np.int64] = (heaps <= chances[:, None] * heaps[:, -1:]).sum(axis=-1)
    return places


def _log_probabilities(scores: FloatArray) -> FloatArray:
    highest = scores.max(axis=-1, keepdims=True)
    found = scores - highest
    shifted: FloatArray = found - np.log(np.exp(found).sum(axis=-1, keepdims=True))
    return shifted


def _chances(seed: int, step: int, n: int) -> FloatArray:
    """Numbers from 0 up to 1 for the samples 0 to n - 1; the first ones are the same whatever n is."""
    # Raw words of a counter-based generator, whose stream NumPy promises to keep, unlike that of its distributions.
    words = np.random.Philox(key=np.array([seed, step], np.uint64)).random_raw(n)
    chances: FloatArray = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return chances
