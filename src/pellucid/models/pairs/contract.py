"""What every network for pairs answers, and the card that its file ends with.

Source and target share one vocabulary, whose token 0 is the boundary. A source comes as its tokens, padded on the right
with 0; how far it is padded changes nothing. A target is read and written as `0 a b c` with `a b c 0` to be said.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from pellucid.cards import cards
from pellucid.errors import require_one_of
from pellucid.models.network import Network, Recipe
from pellucid.models.wishes import PAIR_NETWORKS


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


@dataclass(frozen=True)
class PairCard:
    """What the catalogue knows of a network for pairs. `tiny` is what every contract is tried on."""

    name: str
    says: str
    config: type[Any]  # a frozen dataclass: vocab_size, longest_source, longest_target and its own fields
    build: Callable[[Any], PairModel]
    sized: Callable[[str, int, int, int], Any]  # size, vocab_size, longest_source, longest_target -> configuration
    tiny: Any
    recipe: Recipe = field(default_factory=Recipe)


def pair_networks() -> dict[str, PairCard]:
    """Every network of this room by its name."""
    return cards("pellucid.models.pairs", "MODEL", PairCard)


def pair_network_called(name: str) -> PairCard:
    """The network of this name; an unknown name is answered with the nearest known one, and no other file is loaded."""
    require_one_of("network", name, PAIR_NETWORKS)
    card: PairCard = importlib.import_module(f"pellucid.models.pairs.{name.replace('-', '_')}").MODEL
    return card
