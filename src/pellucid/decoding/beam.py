"""Beam search: instead of the likeliest next token, follow the likeliest beginnings side by side.

The product of all probabilities decides. A longer text has a smaller product, so that its logarithm may be divided by a
power of its length: at 0 products are compared, at 1 the means of the logarithms.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pellucid.decoding.options import require_beam, require_length_penalty
from pellucid.decoding.sampling import (
    NEVER,
    Drawn,
    FloatArray,
    FromContexts,
    IntArray,
    Reading,
    Scores,
    log_softmax,
    read_start,
)
from pellucid.records import BeamCandidate, BeamLevel


@dataclass(frozen=True)
class Hypothesis:
    """One way to go on, and what it is compared by."""

    drawn: Drawn
    score: float  # its log-probability over a power of its length


def beam_search(
    source: Reading | Scores,
    *,
    width: int,
    longest: int,
    start: Sequence[int] = (),
    stop: int = NEVER,
    length_penalty: float = 0.0,
    on_level: Callable[[BeamLevel], None] | None = None,
) -> list[Hypothesis]:
    """The best ways to go on that were found, at most `width`, the best first.

    Of every step's candidates the `width` likeliest stay; those among them that stopped are finished. With a width of 1
    it is greedy; when no candidate ever has to be left out, it is exhaustive. Of equals the one found first is better:
    that of the better beginning, and of one beginning that of the first token. on_level: told of every step, for those
    who want to see what stayed and what had to go.

    >>> after_last = np.log([[1e-9, 0.6, 0.4], [0.4, 0.3, 0.3], [0.9, 0.05, 0.05]])
    >>> for width in (1, 2):
    ...     best = beam_search(lambda read: after_last[read[:, -1]], width=width, longest=9, start=[0], stop=0)[0]
    ...     print(best.drawn.tokens, round(np.exp(best.score), 2))
    (1,) 0.24
    (2,) 0.36
    """
    require_beam(width)
    require_length_penalty(length_penalty)
    reading = FromContexts(source) if callable(source) else source
    scores = read_start(reading, start)
    begun = np.zeros((1, 0), np.int64)  # (beginning, tokens), the likeliest first
    logs = np.zeros(1)
    finished: list[Hypothesis] = []
    for step in range(1, longest + 1):
        candidates = logs[:, None] + log_softmax(scores)
        parents, tokens, logs = _likeliest(candidates, width)
        if on_level is not None:
            on_level(_level(candidates, width, stop))
        begun = np.concatenate([begun[parents], tokens[:, None]], axis=1)
        is_over = tokens == stop
        finished += [
            _hypothesis(row[:-1], log, step, length_penalty, is_cut=False)
            for row, log in zip(begun[is_over], logs[is_over], strict=True)
        ]
        begun, logs = begun[~is_over], logs[~is_over]
        finished = _best(finished, width)
        if not len(begun) or step == longest or _is_settled(finished, float(logs[0]), width, longest, length_penalty):
            break
        reading.keep(parents[~is_over])
        scores = reading.advance(begun[:, -1])
    if len(begun) and begun.shape[1] == longest:
        finished += [
            _hypothesis(row, log, longest, length_penalty, is_cut=stop != NEVER)
            for row, log in zip(begun, logs, strict=True)
        ]
    return _best(finished, width)


def _level(candidates: FloatArray, width: int, stop: int) -> BeamLevel:
    """The candidates that stay, and as many of the next ones, which do not."""
    parents, tokens, logs = _likeliest(candidates, 2 * width)
    return BeamLevel(
        tuple(
            BeamCandidate(int(parent), int(token), float(log), at < width, bool(token == stop))
            for at, (parent, token, log) in enumerate(zip(parents, tokens, logs, strict=True))
        )
    )


def _likeliest(candidates: FloatArray, width: int) -> tuple[IntArray, IntArray, FloatArray]:
    """candidates: (beginning, vocab) -> the best `width`: beginning, token and log-probability, the likeliest first."""
    flat = candidates.ravel()
    width = min(width, len(flat))
    # All that are as good as the last one: which of equals stays is then decided by place, not by how they are sorted.
    good = np.flatnonzero(flat >= np.partition(flat, -width)[-width])
    good = good[np.argsort(-flat[good], kind="stable")[:width]]
    good = good[flat[good] > -np.inf]
    parents, tokens = np.divmod(good, candidates.shape[1])
    return parents, tokens, flat[good]


def _hypothesis(tokens: IntArray, log: float, length: int, length_penalty: float, *, is_cut: bool) -> Hypothesis:
    return Hypothesis(Drawn(tuple(tokens.tolist()), float(log), is_cut), float(log) / length**length_penalty)


def _best(found: list[Hypothesis], width: int) -> list[Hypothesis]:
    return sorted(found, key=lambda one: -one.score)[:width]


def _is_settled(finished: list[Hypothesis], likeliest: float, width: int, longest: int, length_penalty: float) -> bool:
    """Whether no beginning can still become better than the finished ones.

    A log-probability only falls, and is divided by no more than the greatest length.
    """
    return len(finished) == width and likeliest / longest**length_penalty <= finished[-1].score
