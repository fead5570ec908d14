"""What every model of sequences answers.

    forward(tokens)            (batch, time) -> (batch, time, vocab); the scores at t have seen positions up to t only
    begin(batch)               the state before anything was read
    advance(tokens, state)     (batch,) -> (batch, vocab) and the next state; the same numbers, one token at a time

Count models score with log-probabilities. They keep NumPy inside, so that sampling and scoring start without torch;
torch tensors are made at this door, when it is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

IntArray = npt.NDArray[Any]
FloatArray = npt.NDArray[np.float64]

SLICE = 1 << 15  # tokens scored at a time: few enough for the nearest cache, and memory stays flat


class Stream(Protocol):
    """Tokens in a row. With boundaries, token 0 stands before, between and after the items.

    closing: what is predicted where an item ends: 0 itself, or a token of its own.
    """

    @property
    def tokens(self) -> IntArray: ...

    @property
    def has_boundary(self) -> bool: ...

    @property
    def closing(self) -> int: ...


class CountModel(ABC):
    """A model made by counting: contexts to log-probabilities."""

    vocab_size: int
    reach: int  # how many of the last tokens it looks at
    has_boundary: bool  # then what stands before a boundary is never looked at
    closing: int  # the token that is predicted where the boundary, 0, stands

    @abstractmethod
    def after_each(self, tokens: IntArray) -> FloatArray:
        """tokens: (..., time) -> (..., time, vocab), the log-probabilities of the token after each position."""

    @abstractmethod
    def log_probabilities(self, contexts: IntArray) -> FloatArray:
        """contexts: (batch, length) -> (batch, vocab). Of each context only the last tokens matter, at most `reach`.

        A context may be shorter, even empty: a list's then begins at the boundary, a text's is simply not known.
        """

    @abstractmethod
    def of_each(self, tokens: IntArray) -> FloatArray:
        """tokens: (time,) -> (time - 1,), the log-probability of every token but the first, given those before it."""

    @property
    @abstractmethod
    def n_entries(self) -> int:
        """How many numbers a full table for this model has: one for each context and token."""

    @property
    @abstractmethod
    def n_stored(self) -> int:
        """How many numbers are really kept."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """tokens: (batch, time) -> (batch, time, vocab)."""
        import torch

        return torch.from_numpy(self.after_each(tokens.cpu().numpy())).to(tokens.device)

    def begin(self, batch: int) -> IntArray:
        """The state before anything was read: no tokens yet."""
        return np.zeros((batch, 0), np.int64)

    def advance(self, tokens: torch.Tensor, state: IntArray) -> tuple[torch.Tensor, IntArray]:
        """tokens: (batch,) -> (batch, vocab) and the next state, which is the window of the last tokens."""
        return self.read(tokens[:, None], state)

    def read(self, tokens: torch.Tensor, state: IntArray) -> tuple[torch.Tensor, IntArray]:
        """tokens: (batch, time) -> what comes after the last of them, (batch, vocab), and the next state."""
        import torch

        seen = np.concatenate([state, tokens.cpu().numpy()], axis=1)
        window = seen[:, seen.shape[1] - min(self.reach, seen.shape[1]) :]
        return torch.from_numpy(self.log_probabilities(window)).to(tokens.device), window

    def __deepcopy__(self, memo: object) -> CountModel:
        return self  # nothing of it ever changes, and it may be large


class WindowsApart:
    """The windows of rows of which each has read something of its own, at most `reach` tokens.

    >>> from pellucid.data.prepare.tokens import Corpus
    >>> from pellucid.models.counting.ngram import NGram, NGramConfig
    >>> model = NGram.fit(Corpus(np.array([0, 1, 0, 1, 1, 0]), has_boundary=False), NGramConfig(2, order=3))
    >>> rows = WindowsApart(model)
    >>> rows.put(0, np.array([0, 1]))
    >>> rows.put(1, np.array([1]))
    >>> found = rows.advance(np.array([1, 0]))
    >>> np.array_equal(found, model.log_probabilities(np.array([[1, 1], [1, 0]])))
    True
    """

    def __init__(self, model: CountModel) -> None:
        self.model = model
        self.windows = np.zeros((8, model.reach), np.int64)  # the last token at the end
        self.lengths = np.zeros(8, np.int64)

    def put(self, row: int, window: IntArray) -> None:
        """window: (length,), what that row has read, or the last of it."""
        if row >= len(self.windows):
            self.windows = np.concatenate([self.windows, np.zeros_like(self.windows)])
            self.lengths = np.concatenate([self.lengths, np.zeros_like(self.lengths)])
        length = min(len(window), self.model.reach)
        self.lengths[row] = length
        self.windows[row, self.model.reach - length :] = window[len(window) - length :]

    def move(self, source: int, target: int) -> None:
        self.windows[target], self.lengths[target] = self.windows[source], self.lengths[source]

    def advance(self, tokens: IntArray) -> FloatArray:
        """tokens: (rows,), the next of the rows 0, 1, … -> log-probabilities of what comes after, (rows, vocab)."""
        n, reach = len(tokens), self.model.reach
        if reach:
            self.windows[:n, :-1] = self.windows[:n, 1:]
            self.windows[:n, -1] = tokens
            self.lengths[:n] = np.minimum(self.lengths[:n] + 1, reach)
        lengths = self.lengths[:n]
        found = np.empty((n, self.model.vocab_size))
        for length in np.unique(lengths).tolist():  # one, as soon as all have read as much as is looked at
            rows = np.flatnonzero(lengths == length)
            found[rows] = self.model.log_probabilities(self.windows[rows, reach - length :])
        return found


class JoinableCounts:
    """A count model as continuous batching reads it: a `JoinableReading` of `pellucid.decoding`."""

    def __init__(self, model: CountModel) -> None:
        self.model = model
        self.windows = WindowsApart(model)
        self.n_rows = 0

    def join(self, tokens: IntArray, n_rows: int = 1) -> FloatArray:
        """Rows at the end that have read these tokens, (time,) -> the scores after them, (rows, vocab)."""
        for _ in range(n_rows):
            self.windows.put(self.n_rows, tokens)
            self.n_rows += 1
        window = tokens[len(tokens) - min(self.model.reach, len(tokens)) :]
        return self.model.log_probabilities(window[None])[np.zeros(n_rows, np.int64)]

    def advance(self, tokens: IntArray) -> FloatArray:
        """tokens: (rows,), the next of each row -> scores after them, (rows, vocab)."""
        return self.windows.advance(tokens)

    def leave(self, row: int) -> None:
        """Without that row; the last one takes its place."""
        self.n_rows -= 1
        if row < self.n_rows:
            self.windows.move(self.n_rows, row)


def logs(probabilities: FloatArray) -> FloatArray:
    """Natural logarithms; the impossible has -inf, without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)
