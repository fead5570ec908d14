"""What every network for pairs answers.

Source and target share one vocabulary, whose token 0 is the boundary. A source comes as its tokens, padded on the right
with 0; how far it is padded changes nothing. A target is read and written as `0 a b c` with `a b c 0` to be said.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from torch import Tensor

from pellucid.models.network import Network


class PairModel(Network):
    """A network that reads a whole source and scores the tokens of its target.

    `longest_source` and `longest_target` (both without boundaries) are how much it was made for.
    """

    vocab_size: int
    longest_source: int
    longest_target: int

    @abstractmethod
    def forward(self, sources: Tensor, tokens: Tensor) -> Tensor:
        """sources: (batch, source), tokens: (batch, time), each row `0 a b …` -> scores, (batch, time, vocab).

        The scores at t have seen the whole source, and of the target the tokens up to t only: teacher forcing.
        """

    @abstractmethod
    def begin(self, sources: Tensor) -> Any:
        """The state when the sources were read and nothing is written yet."""

    @abstractmethod
    def advance(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """tokens: (batch,), at first 0 -> (batch, vocab) and the next state; the same numbers as `forward`."""

    @abstractmethod
    def keep(self, state: Any, rows: Tensor) -> Any:
        """The state of these rows alone, in this order; a row may come twice."""
