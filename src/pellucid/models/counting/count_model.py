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


def logs(probabilities: FloatArray) -> FloatArray:
    """Natural logarithms; the impossible has -inf, without a warning."""
    with np.errstate(divide="ignore"):
        return np.log(probabilities)
