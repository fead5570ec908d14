"""Drawing tokens one after another: look at the scores, draw, go on from there, stop at the boundary.

Scores are logits or log-probabilities of the next token; whoever has them is asked token by token, as a `Reading`.

The chance in it is a pure function of (seed, step, sample): the i-th sample is the same however many are drawn with it,
as far as the scores of its row are. A table's are, to the bit, and those of a transformer that compiled code reads.
Other networks' may differ in their last bits with the number of rows; where they are of double precision a token then
falls otherwise about once in 10^14. A reading that is less sure of its scores says so, as an `UnsureReading`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from pellucid.decoding.options import FILTERS, require_seed, require_temperature
from pellucid.errors import require_one_of

IntArray = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]

# (batch, time) tokens read so far -> (batch, vocab) scores: logits or log-probabilities, -inf for the impossible.
Scores = Callable[[IntArray], FloatArray]

NEVER = -1  # no token stops
Filter = tuple[Callable[[FloatArray, Any], FloatArray], float]  # the function of a filter, and the value asked for
AT_ONCE = 1024  # samples drawn together: more are no faster, and memory stays flat
LARGEST_ERROR = 50.0  # beyond it every chance is near an edge
EXACT = 1e-12  # of a sum of shares in double precision
COLDEST_UNSURE = 0.1  # temperature; below it errors are stretched so far that too much would be read again
IDLE = 32  # finished rows are dropped once they are this part of all: to drop each at once would cost more


class Reading(Protocol):
    """Rows of tokens that were read so far, and what may come next in each."""

    at_once: int  # samples that are best drawn together, all of their tokens before those of the next; a multiple of 4

    def read(self, tokens: IntArray) -> FloatArray:
        """tokens: (batch, time), perhaps of no time at all -> scores after them, (batch, vocab)."""

    def advance(self, tokens: IntArray) -> FloatArray:
        """tokens: (batch,), the next of each row -> scores after them, (batch, vocab)."""

    def keep(self, rows: IntArray) -> None:
        """Go on with these rows alone, in this order; a row may come twice."""


class ImpreciseScores(ArithmeticError):
    """Scores are further off than their reading had said."""


class UnsureReading(ABC):
    """A reading whose scores are off by up to `error`, and which can read single rows again without."""

    error: float  # by so much two scores of a row may be off against each other

    @abstractmethod
    def read_again(self, rows: IntArray) -> FloatArray:
        """The scores that were given out last for these rows, exactly: (rows, vocab). It may raise ImpreciseScores."""


def allows_unsure(temperature: float, filters: Mapping[str, float]) -> bool:
    """Whether tokens can be drawn so by an `UnsureReading`: a filter has edges of its own, and cold is exact."""
    return not filters and temperature >= COLDEST_UNSURE


class FromContexts:
    """A reading by a function that looks at everything read so far, as a table of counts does."""

    at_once = AT_ONCE

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


@dataclass(frozen=True)
class Drawn:
    """The tokens drawn after the start, without the one that stopped, and their log-probability with it."""

    tokens: tuple[int, ...]
    log_probability: float  # under the scores as they came, not as temperature and filters bent them
    is_cut: bool  # stopped by length and not by the boundary


def draw_tokens(
    source: Reading | Scores,
    *,
    n_samples: int,
    longest: int,
    start: Sequence[int] = (),
    stop: int = NEVER,
    seed: int = 0,
    temperature: float = 1.0,
    **filters: float,
) -> list[Drawn]:
    """Draw samples, many at once. Each begins after the tokens of `start` and ends at `stop` or after `longest`.

    filters: values of the sampling filters of `FILTERS` by name, such as top_k=5 and top_p=0.9, applied in its order.

    >>> alternate = lambda contexts: np.log(np.eye(3)[(contexts[:, -1] + 1) % 3] + 1e-300)
    >>> [sample.tokens for sample in draw_tokens(alternate, n_samples=2, longest=9, start=[0], stop=0)]
    [(1, 2), (1, 2)]
    """
    require_temperature(temperature)
    masks = find_filters(filters)
    chances = Chances(seed)
    reading = FromContexts(source) if callable(source) else source
    found: list[Drawn] = []
    for first in range(0, n_samples, reading.at_once):
        rows = _Rows(first, min(reading.at_once, n_samples - first), longest, stop)
        found += _draw_together(reading, start, rows, chances, temperature, masks)
    return found


def _draw_together(
    reading: Reading,
    start: Sequence[int],
    rows: "_Rows",
    chances: "Chances",
    temperature: float,
    masks: Sequence[Filter],
) -> list[Drawn]:
    scores = read_start(reading, start)
    # Samples that have drawn the same so far are one row of the reading: at first all are, and after a few tokens none.
    read_as, is_apart = np.zeros(rows.n_samples, np.int64), rows.n_samples == 1
    for step in range(rows.longest):
        chance = chances.at(step, rows.n_samples, rows.first)[rows.samples]
        chosen, logs = draw_rows(reading, read_as, scores[read_as], chance, temperature, masks)
        rows.add(step, chosen, logs)
        if not rows.n_open or step + 1 == rows.longest:
            break
        if len(chosen) - rows.n_open >= len(chosen) / IDLE:
            kept = rows.put_aside()
            chosen, read_as, is_apart = chosen[kept], read_as[kept], False
        if not is_apart:
            first, same = _find_same(read_as * scores.shape[1] + chosen)
            reading.keep(read_as[first])
            chosen, read_as, is_apart = chosen[first], same, len(first) == len(same)
        scores = reading.advance(chosen)
    return rows.all()


def _find_same(values: IntArray) -> tuple[IntArray, IntArray]:
    """Where each value stands first, and for all of them which of those it is; where none stands twice, in order.

    >>> [found.tolist() for found in _find_same(np.array([7, 3, 7, 5]))]
    [[1, 3, 0], [2, 0, 2, 1]]
    >>> [found.tolist() for found in _find_same(np.array([7, 3]))]
    [[0, 1], [0, 1]]
    """
    _, first, same = np.unique(values, return_index=True, return_inverse=True)
    if len(first) == len(values):
        return (places := np.arange(len(values))), places
    return first, same


def draw_rows(
    reading: object,
    rows: IntArray,
    scores: FloatArray,
    chances: FloatArray,
    temperature: float,
    masks: Sequence[Filter],
) -> tuple[IntArray, FloatArray]:
    """The next token of each row, and its log-probability before temperature and filters bent it.

    scores: (rows, vocab), as the reading gave them out for these of its rows.
    """
    chosen, logs, heaps = _choose(scores, chances, temperature, masks)
    if isinstance(reading, UnsureReading) and reading.error:
        assert not masks, "a filter has edges of its own"
        if len(unsure := near_edges(heaps, chosen, chances, reading.error / temperature)):
            again = reading.read_again(rows[unsure])
            chosen[unsure], logs[unsure], _ = _choose(again, chances[unsure], temperature, masks)
    return chosen, logs


def _choose(
    scores: FloatArray, chances: FloatArray, temperature: float, masks: Sequence[Filter]
) -> tuple[IntArray, FloatArray, FloatArray]:
    """The token of each row, its log-probability before temperature and filters bent it, and the heaps it fell into."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    weights = np.exp(shifted)
    heaps = np.cumsum(bend_scores(shifted, weights, temperature, masks), axis=-1)
    chosen = _fall(heaps, chances)
    logs = shifted[np.arange(len(chosen)), chosen] - np.log(weights.sum(axis=-1))
    return chosen, logs, heaps


def near_edges(heaps: FloatArray, chosen: IntArray, chances: FloatArray, error: float) -> IntArray:
    """The rows in which the chance is so near to an edge of the chosen share that other scores could change the token.

    heaps: sums of weights, (row, vocab). Where scores are off by up to e against each other, a sum of shares F is off
    by (exp(e) - 1) F (1 - F) at most. That changes less from edge to edge than they are apart, so the two edges of the
    chosen share are enough.

    >>> heaps, chances = np.array([[0.5, 1.0], [0.5, 1.0], [0.5, 1.0]]), np.array([0.5001, 0.51, 0.4999])
    >>> near_edges(heaps, np.array([1, 1, 0]), chances, error=0.001).tolist()
    [0, 2]
    """
    rows = np.arange(len(chosen))
    reach, is_near = np.expm1(min(error, LARGEST_ERROR)), np.zeros(len(chosen), bool)
    for edge in (chosen - 1, chosen):
        share = np.where(edge < 0, 0.0, heaps[rows, edge] / heaps[:, -1])
        is_near |= np.abs(share - chances) <= reach * share * (1 - share) + EXACT
    return np.flatnonzero(is_near)


class _Rows:
    """What was drawn so far, in the order in which the reading has its rows; finished ones are put aside."""

    def __init__(self, first: int, n_samples: int, longest: int, stop: int) -> None:
        self.first, self.n_samples, self.longest, self.stop = first, n_samples, longest, stop
        self.samples = np.arange(n_samples)  # which sample each row is, from the first on
        self.places = np.arange(n_samples)
        self.tokens = np.empty((n_samples, longest), np.int64)
        self.lengths = np.full(n_samples, longest)  # until it is known better
        self.logs = np.zeros(n_samples)
        self.is_open = np.ones(n_samples, bool)
        self.n_open = n_samples
        self.done: dict[int, Drawn] = {}

    def add(self, step: int, chosen: IntArray, logs: FloatArray) -> None:
        """One more token in each row; those that had ended before are not listened to."""
        self.tokens[:, step] = chosen
        np.add(self.logs, logs, out=self.logs, where=self.is_open)
        if self.stop != NEVER and (is_over := self.is_open & (chosen == self.stop)).any():
            self.lengths[is_over] = step
            self.is_open &= ~is_over
            self.n_open = int(np.count_nonzero(self.is_open))

    def put_aside(self) -> IntArray:
        """Take the finished rows out; back comes which rows are left."""
        self._finish(np.flatnonzero(~self.is_open))
        kept = np.flatnonzero(self.is_open)
        self.samples, self.tokens, self.lengths = self.samples[kept], self.tokens[kept], self.lengths[kept]
        self.logs, self.is_open, self.places = self.logs[kept], self.is_open[kept], np.arange(len(kept))
        return kept

    def all(self) -> list[Drawn]:
        """Every sample, in order."""
        self._finish(self.places)
        return [self.done[sample] for sample in range(len(self.done))]

    def _finish(self, places: IntArray) -> None:
        # As lists at once: to take one number after another out of an array costs more than to draw them did.
        columns = (self.samples, self.tokens, self.lengths, self.logs)
        for sample, tokens, length, log in zip(*(column[places].tolist() for column in columns), strict=True):
            is_cut = length == self.longest and self.stop != NEVER
            self.done[sample] = Drawn(tuple(tokens[:length]), log, is_cut)


def read_start(reading: Reading, start: Sequence[int]) -> FloatArray:
    """The scores after the start, (1, vocab)."""
    return reading.read(np.array([start], np.int64).reshape(1, len(start)))


def sampling_probabilities(scores: FloatArray, temperature: float, **filters: float) -> FloatArray:
    """(..., vocab) scores -> probabilities. Below 1 the likely become likelier; at 0 the first likeliest gets all.

    The filters come after the temperature, so that the mass is that of the bent probabilities.

    >>> sampling_probabilities(np.log([0.1, 0.6, 0.3]), 0).tolist()
    [0.0, 1.0, 0.0]
    >>> sampling_probabilities(np.log([0.1, 0.6, 0.3]), 1, top_k=2).round(4).tolist()
    [0.0, 0.6667, 0.3333]
    """
    shifted = scores - scores.max(axis=-1, keepdims=True)
    weights = bend_scores(shifted, np.exp(shifted), temperature, find_filters(filters))
    shares: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def find_filters(given: Mapping[str, float]) -> list[Filter]:
    """The filters that were asked for, in the order of `FILTERS`, each with its value."""
    for name in given:
        require_one_of("sampling filter", name, [one.name for one in FILTERS])
    asked = [one for one in FILTERS if one.name in given]
    for one in asked:
        one.option.check(one.option.noun, given[one.name], one.type)
    return [(one.mask, given[one.name]) for one in asked]


def bend_scores(shifted: FloatArray, weights: FloatArray, temperature: float, masks: Sequence[Filter]) -> FloatArray:
    """Scores of which the highest is 0, and their exponentials -> exponentials as temperature and filters bend them."""
    if temperature == 0:
        greedy: FloatArray = np.eye(shifted.shape[-1])[shifted.argmax(axis=-1)]
        return greedy
    if temperature == 1 and not masks:
        return weights
    with np.errstate(over="ignore"):  # a gap too large to hold is as good as impossible
        bent = shifted / temperature
    for mask, value in masks:
        bent = mask(bent, value)
    return np.exp(bent)


def _fall(heaps: FloatArray, chances: FloatArray) -> IntArray:
    """The token in whose part of the heap of weights the chance falls."""
    places: IntArray = (heaps <= (chances * heaps[:, -1])[:, None]).sum(axis=-1)
    return places


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

    def at(self, step: int, n: int, first: int = 0) -> FloatArray:
        """Those of n samples from the first on; each is the same whatever the others are. first: a multiple of 4.

        >>> chances = Chances(seed=7)
        >>> bool((chances.at(step=3, n=2, first=8) == chances.at(step=3, n=10)[8:]).all())
        True
        """
        assert first % 4 == 0, "a number of the counter stands for four words"
        # To set the key of one generator takes a seventh of the time of making another.
        self._start["state"]["key"][1] = step
        self._start["state"]["counter"][0] = first // 4
        self._words.state = self._start
        chances: FloatArray = (self._words.random_raw(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return chances
