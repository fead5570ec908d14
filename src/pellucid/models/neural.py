"""What every network of the ladder answers, and the card that its file ends with.

The sequence contract of `contract.py`, for models that learn: `forward` for whole sequences, `begin` and `advance` for
one token at a time. Both give the same numbers; advancing costs the same however much was read before.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor

from pellucid.models.network import Network

ANY_LENGTH = 1 << 62


class SequenceModel(Network):
    """A network that reads tokens and scores what comes next.

    `longest` is how many tokens one pass may have. What reads on past it begins anew with the last of them.
    """

    vocab_size: int
    longest: int = ANY_LENGTH

    @abstractmethod
    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: (batch, time) -> (batch, time, vocab); the scores at t have seen positions up to t only."""

    @abstractmethod
    def begin(self, batch: int) -> Any:
        """The state before anything was read."""

    @abstractmethod
    def advance(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """tokens: (batch,) -> (batch, vocab) and the next state. The state that came in is not used again."""

    @abstractmethod
    def keep(self, state: Any, rows: Tensor) -> Any:
        """The state of these rows alone, in this order; a row may come twice."""

    def read(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """tokens: (batch, time), at least one -> the scores after the last of them, (batch, vocab), and the state."""
        for column in tokens.unbind(1):
            scores, state = self.advance(column, state)
        return scores, state
