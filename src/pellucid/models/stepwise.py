"""Networks as decoding reads them: rows of tokens that grow by one, NumPy at the door and torch inside.

A network that holds only so many tokens (`longest`) begins anew when they are one too many, with the last half of them.
That is one pass for each half window; to slide by one token at a time would be one for each token. Until the window is
first full the scores are those of one long pass; after that each has seen at least half a window.

The classes here are each a `Reading` of `pellucid.decoding`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from pellucid.models.contracts import PairModel, SequenceModel
from pellucid.models.pairs.padding import pad_rows
from pellucid.models.sequences.compiled_decoding import hold_weights, rows_at_once
from pellucid.models.sequences.on_counting import OnCounting
from pellucid.models.sequences.transformer import Transformer

IntArray = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]
AT_ONCE = 1024  # rows read on or sources answered together: more are no faster, and memory stays flat


class NeuralReading:
    """Reads each token once and remembers what the network needs to go on.

    >>> from pellucid.models.catalogue import find_network
    >>> card = find_network("transformer", "list")
    >>> reading = NeuralReading(card.build(card.tiny))
    >>> reading.read(np.array([[0, 3], [0, 4]])).shape, reading.advance(np.array([1, 2])).shape
    ((2, 11), (2, 11))
    """

    def __init__(self, model: SequenceModel, *, is_ready: bool = False) -> None:
        """is_ready: it is a copy for inference already, which nobody changes."""
        self.model = _hold(model) if is_ready else _hold(model.for_inference())
        self.at_once = min((rows_at_once(part, AT_ONCE) for part in _transformers(self.model)), default=AT_ONCE)
        self.state: Any = None
        self.columns: list[IntArray] = []  # the tokens that are in the state, each (batch,)

    @torch.inference_mode()
    def read(self, tokens: IntArray) -> FloatArray:
        """tokens: (batch, time) -> scores after them, (batch, vocab). Of more than `longest` the last are read.

        Before the first token nothing is known: every score is 0.
        """
        tokens = tokens[:, -self.model.longest :]
        self.state = self.model.begin(len(tokens))
        self.columns = list(tokens.T)
        if not self.columns:
            return np.zeros((len(tokens), self.model.vocab_size))
        scores, self.state = self.model.read(_tensor(tokens), self.state)
        return _array(scores)

    @torch.inference_mode()
    def advance(self, tokens: IntArray) -> FloatArray:
        """tokens: (batch,), the next of each row -> scores after them, (batch, vocab)."""
        self.columns.append(tokens)
        if len(self.columns) > self.model.longest:
            return self.read(np.stack(self.columns[-_half(self.model) :], axis=1))
        scores, self.state = self.model.advance(_tensor(tokens), self.state)
        return _array(scores)

    @torch.inference_mode()
    def keep(self, rows: IntArray) -> None:
        """Go on with these rows alone, in this order; a row may come twice."""
        self.state = self.model.keep(self.state, _tensor(rows))
        self.columns = [column[rows] for column in self.columns]


class JoinableNeuralReading:
    """Rows that each have read something of their own; some join while others leave. A `JoinableReading` of decoding.

    What a row reads is read alone, when it joins and when its window is full; only single tokens are read together.
    So the scores of a row do not depend on which others are there.

    >>> from pellucid.models.catalogue import find_network
    >>> card = find_network("transformer", "list")
    >>> reading = JoinableNeuralReading(card.build(card.tiny))
    >>> reading.join(np.array([0, 3, 1]), n_rows=2).shape, reading.join(np.array([0])).shape
    ((2, 11), (1, 11))
    >>> reading.leave(0)  # the last row takes its place
    >>> reading.advance(np.array([5, 4])).shape
    (2, 11)
    """

    @torch.inference_mode()
    def __init__(self, model: SequenceModel, *, is_ready: bool = False) -> None:
        """is_ready: it is a copy for inference already, which nobody changes."""
        self.model = _hold(model) if is_ready else _hold(model.for_inference())
        self.rows = self.model.rows_apart()
        self.tokens: list[list[int]] = []  # what is in the state of each row

    @torch.inference_mode()
    def join(self, tokens: IntArray, n_rows: int = 1) -> FloatArray:
        """Rows at the end that have read these tokens, (time,), one or more -> the scores after them, (rows, vocab)."""
        begun = tokens[-self.model.longest :]
        scores, state = self.model.read(_tensor(begun[None]), self.model.begin(1))
        for _ in range(n_rows):
            self.rows.put(len(self.tokens), state)
            self.tokens.append(begun.tolist())
        return _array(scores)[np.zeros(n_rows, np.int64)]

    @torch.inference_mode()
    def advance(self, tokens: IntArray) -> FloatArray:
        """tokens: (rows,), the next of each row -> scores after them, (rows, vocab)."""
        for row, (seen, token) in enumerate(zip(self.tokens, tokens.tolist(), strict=True)):
            seen.append(token)
            if len(seen) > self.model.longest:
                self._begin_anew(row)
        return _array(self.rows.advance(_tensor(tokens)))

    def _begin_anew(self, row: int) -> None:
        """Of a row that is one too long, all of the last half but the newest, which is read with the other rows."""
        seen = self.tokens[row] = self.tokens[row][-_half(self.model) :]
        state = self.model.begin(1)
        if len(seen) > 1:
            _, state = self.model.read(torch.tensor([seen[:-1]]), state)
        self.rows.put(row, state)

    @torch.inference_mode()
    def leave(self, row: int) -> None:
        """Without that row; the last one takes its place."""
        last = self.tokens.pop()
        if row < len(self.tokens):
            self.tokens[row] = last
            self.rows.move(len(self.tokens), row)


def rows_keep_their_bits(model: SequenceModel, n_rows: int = 64, n_steps: int = 9) -> bool:
    """Whether a row's scores are the same to the bit alone and among others, measured on this machine.

    Where they are not they still agree to about 15 digits, and so a token falls otherwise about once in 10^14.
    """
    chance = np.random.default_rng(0)
    tokens = chance.integers(0, model.vocab_size, (n_rows, n_steps + 1))
    together = JoinableNeuralReading(model)
    for row in range(n_rows):
        together.join(tokens[row, : 1 + row % 3])
    among = [together.advance(column) for column in tokens.T[1:]]
    for row in (0, 1, n_rows // 2, n_rows - 1):
        alone = JoinableNeuralReading(model)
        alone.join(tokens[row, : 1 + row % 3])
        for step, token in enumerate(tokens[row, 1:]):
            if not np.array_equal(alone.advance(np.array([token]))[0], among[step][row]):
                return False
    return True


class ForwardReading:
    """Remembers nothing but the tokens, and reads all of them again for each new one: the slow twin."""

    at_once = AT_ONCE

    def __init__(self, model: SequenceModel) -> None:
        self.model = model.for_inference()
        self.tokens: IntArray = np.zeros((1, 0), np.int64)

    @torch.inference_mode()
    def read(self, tokens: IntArray) -> FloatArray:
        self.tokens = tokens[:, -self.model.longest :]
        if not self.tokens.shape[1]:
            return np.zeros((len(tokens), self.model.vocab_size))
        return _array(self.model(_tensor(self.tokens))[:, -1])

    def advance(self, tokens: IntArray) -> FloatArray:
        grown = np.concatenate([self.tokens, tokens[:, None]], axis=1)
        return self.read(grown[:, -_half(self.model) :] if grown.shape[1] > self.model.longest else grown)

    def keep(self, rows: IntArray) -> None:
        self.tokens = self.tokens[rows]


@torch.inference_mode()
def scores_after_each(model: SequenceModel, tokens: IntArray) -> FloatArray:
    """tokens: (time,) -> (time, vocab): what reading on token by token would give, in one pass for each window."""
    ready = model.for_inference()
    return _array(torch.cat([ready(window)[0, first:] for window, first in _windows(model, tokens)]))


@torch.inference_mode()
def parts_after_each(model: OnCounting, tokens: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The same in its parts: scores (time, vocab), what is counted (time, vocab), how far that is trusted (time,)."""
    ready = model.for_inference()
    found = [(ready.predict(window), first) for window, first in _windows(model, tokens)]
    scores, counted, gates = (
        _array(torch.cat([getattr(parts, name)[0, first:] for parts, first in found]))
        for name in ("logits", "counted", "gate")
    )
    return scores, counted, gates[:, 0]


def _windows(model: SequenceModel, tokens: IntArray) -> Iterator[tuple[Tensor, int]]:
    """Windows as reading token by token has them, each (1, time), and from where on they tell something new."""
    yield _tensor(tokens[None, : model.longest]), 0
    fresh = model.longest + 1 - _half(model)  # tokens that a window is further on than the one before
    for began in range(fresh, max(fresh, len(tokens) - _half(model) + 1), fresh):
        yield _tensor(tokens[None, began : began + model.longest]), _half(model) - 1


class PairReading:
    """Reads the source once, and each token of the target once.

    A network for pairs as decoding reads it: one source, and rows of its target that grow by one token. It is a
    `Reading` of `pellucid.decoding`, so that beam search and sampling answer a source as they go on with a text.

    >>> from pellucid.models.catalogue import find_network
    >>> card = find_network("transformer", "pairs")
    >>> reading = PairReading(card.build(card.tiny), source=[3, 1, 1])
    >>> reading.read(np.array([[0], [0]])).shape, reading.advance(np.array([1, 2])).shape
    ((2, 7), (2, 7))
    """

    at_once = AT_ONCE

    def __init__(self, model: PairModel, source: Sequence[int]) -> None:
        self.model = model.for_inference()
        self.source = pad_rows([source])
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
        return _array(scores)

    @torch.inference_mode()
    def keep(self, rows: IntArray) -> None:
        """Go on with these rows alone, in this order; a row may come twice."""
        self.state = self.model.keep(self.state, _tensor(rows))


@torch.inference_mode()
def greedy_answers(model: PairModel, sources: Tensor) -> list[list[int]]:
    """The greedy answer to each source, without its closing boundary. sources: (batch, source), padded with 0.

    The likeliest token, then the likeliest after it, to the end; a beam search over a `PairReading` finds better ones.

    One that has not ended after `longest_target` + 1 tokens is cut there: it is longer than any target, and so cannot
    be taken for a right one.

    >>> from pellucid.models.catalogue import find_network
    >>> card = find_network("transformer", "pairs")
    >>> model = card.build(card.tiny)  # it knows nothing yet, and of equals the first is said: 0, the end
    >>> greedy_answers(model, torch.tensor([[3, 1, 0], [2, 2, 2]]))
    [[], []]
    """
    ready = model.for_inference()
    starts = range(0, len(sources), AT_ONCE)
    return [answer for start in starts for answer in _together(ready, sources[start : start + AT_ONCE])]


def _together(model: PairModel, sources: Tensor) -> list[list[int]]:
    """The answers of one batch. Rows that have ended are left out of what is still computed."""
    found: list[list[int]] = [[] for _ in sources]
    state = model.begin(sources)
    is_whose = list(range(len(sources)))  # which source each open row answers
    tokens = torch.zeros(len(sources), dtype=torch.int64, device=sources.device)
    for _ in range(model.longest_target + 1):
        scores, state = model.advance(tokens, state)
        tokens = scores.argmax(-1)  # of equals the first
        is_open = tokens != 0
        if not is_open.all():
            rows = is_open.nonzero().flatten()
            if not len(rows):
                break
            state, tokens = model.keep(state, rows), tokens[rows]
            is_whose = [is_whose[row] for row in rows.tolist()]
        for source, token in zip(is_whose, tokens.tolist(), strict=True):
            found[source].append(token)
    return found


def _hold(model: SequenceModel) -> SequenceModel:
    """The network, which nobody changes, with its weights laid out once."""
    for part in _transformers(model):
        hold_weights(part)
    return model


def _transformers(model: SequenceModel) -> list[Transformer]:
    return [part for part in model.modules() if isinstance(part, Transformer)]


def _half(model: SequenceModel) -> int:
    return max(1, model.longest // 2)


def _tensor(tokens: IntArray) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(tokens, np.int64))


def _array(scores: Tensor) -> FloatArray:
    # Scores of single precision become probabilities of double, so that small ones do not vanish on the way.
    found: FloatArray = scores.double().numpy()
    return found
