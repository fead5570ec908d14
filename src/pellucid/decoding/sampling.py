"""Drawing tokens one after another: look at the scores, draw, go on from there, stop at the boundary.

The chance in it is a pure function of (seed, step, sample): the i-th sample is the same however many are drawn with it,
as far as the scores of its row are. A table's are, to the bit. A network's may differ in their last bits with the
number of rows; where they are of double precision a token then falls otherwise about once in 10^14.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.decoding import filters
from pellucid.decoding.chances import Chances
from pellucid.decoding.limits import ALL, require_temperature, require_top_k, require_top_p
from pellucid.decoding.reading import FloatArray, FromContexts, IntArray, Reading, Scores

NEVER = -1  # no token stops
IDLE = 8  # finished rows are dropped once they are this part of all: to drop each at once would copy too much


@dataclass(frozen=True)
class Drawn:
    """The tokens drawn after the start, without the one that stopped, and their log-probability with it."""

    tokens: tuple[int, ...]
    log_probability: float  # under the scores as they came, not as temperature and filters bent them
    is_cut: bool  # stopped by length and not by the boundary


def draw(
    source: Reading | Scores,
    *,
    n_samples: int,
    longest: int,
    start: Sequence[int] = (),
    stop: int = NEVER,
    seed: int = 0,
    temperature: float = 1.0,
    top_k: int = ALL,
    top_p: float = 1.0,
) -> list[Drawn]:
    """Draw samples, all at once. Each begins after the tokens of `start` and ends at `stop` or after `longest`.

    Of each step's tokens the `top_k` likeliest are kept, and of these the fewest that hold a mass of `top_p`.

    >>> alternate = lambda contexts: np.log(np.eye(3)[(contexts[:, -1] + 1) % 3] + 1e-300)
    >>> [sample.tokens for sample in draw(alternate, n_samples=2, longest=9, start=[0], stop=0)]
    [(1, 2), (1, 2)]
    """
    chances = Chances(seed)
    require_temperature(temperature)
    require_top_k(top_k)
    require_top_p(top_p)
    reading = FromContexts(source) if callable(source) else source
    rows = np.arange(n_samples)  # which sample each row of the reading is
    scores = after_start(reading, start, n_samples)
    drawn = np.empty((n_samples, longest), np.int64)
    lengths = np.full(n_samples, longest)  # until it is known better
    logs = np.zeros(n_samples)
    for step in range(longest):
        chosen = _chosen(probabilities(scores, temperature, top_k, top_p), chances.at(step, n_samples)[rows])
        is_open = lengths[rows] > step
        logs[rows] += _log_probability(scores, chosen) * is_open
        drawn[rows, step] = chosen
        is_over = is_open & (chosen == stop)
        lengths[rows[is_over]] = step
        is_open &= ~is_over
        n_open = int(np.count_nonzero(is_open))
        if not n_open or step + 1 == longest:
            break
        if len(rows) - n_open >= len(rows) / IDLE:
            kept = np.flatnonzero(is_open)
            reading.keep(kept)
            rows, chosen = rows[kept], chosen[kept]
        scores = reading.advance(chosen)
    return [
        Drawn(tuple(tokens[:length].tolist()), float(log), length == longest and stop != NEVER)
        for tokens, length, log in zip(drawn, lengths.tolist(), logs, strict=True)
    ]


def after_start(reading: Reading, start: Sequence[int], n_rows: int) -> FloatArray:
    """The scores after the start, (rows, vocab); it is read once and then stands in every row."""
    scores = reading.read(np.array([start], np.int64).reshape(1, len(start)))
    rows = np.zeros(n_rows, np.int64)
    if n_rows > 1:
        reading.keep(rows)
    return scores[rows]


def probabilities(scores: FloatArray, temperature: float, top_k: int = ALL, top_p: float = 1.0) -> FloatArray:
    """(..., vocab) scores -> probabilities. Below 1 the likely become likelier; at 0 the first likeliest gets all.

    The filters come after the temperature, so that the mass is that of the bent probabilities.

    >>> probabilities(np.log([0.1, 0.6, 0.3]), 0).tolist()
    [0.0, 1.0, 0.0]
    >>> probabilities(np.log([0.1, 0.6, 0.3]), 1, top_k=2).round(4).tolist()
    [0.0, 0.6667, 0.3333]
    """
    highest = scores.max(axis=-1, keepdims=True)
    if temperature == 0:
        greedy: FloatArray = np.eye(scores.shape[-1])[scores.argmax(axis=-1)]
        return greedy
    with np.errstate(over="ignore"):  # a gap too large to hold is as good as impossible
        bent = (scores - highest) / temperature
    weights = np.exp(filters.nucleus(filters.top_k(bent, top_k), top_p))
    shares: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def _chosen(shares: FloatArray, chances: FloatArray) -> IntArray:
    """The token in whose part of the heap of probabilities the chance falls."""
    heaps = np.cumsum(shares, axis=-1)
    places: IntArray = (heaps <= chances[:, None] * heaps[:, -1:]).sum(axis=-1)
    return places


def _log_probability(scores: FloatArray, chosen: IntArray) -> FloatArray:
    """That of one token in each row, under the scores as they came."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    logs: FloatArray = shifted[np.arange(len(chosen)), chosen] - np.log(np.exp(shifted).sum(axis=-1))
    return logs
