"""What every network of the ladder answers, and the card that its file ends with.

The sequence contract of `contract.py`, for models that learn: `forward` for whole sequences, `begin` and `advance` for
one token at a time. Both give the same numbers; advancing costs the same however much was read before.
"""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from torch import Tensor

from pellucid.cards import cards
from pellucid.errors import require_one_of
from pellucid.models.contract import ModelCard
from pellucid.models.network import SIZES, Network, Recipe, config_of
from pellucid.models.wishes import NETWORKS

__all__ = ["SIZES", "NeuralCard", "Recipe", "SequenceModel", "config_of", "network_called", "networks"]

ANY_LENGTH = 1 << 62


class SequenceConfig(Protocol):
    """What every configuration has beside its own fields. Each is a frozen dataclass of plain values."""

    @property
    def vocab_size(self) -> int: ...


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


@dataclass(frozen=True)
class NeuralCard:
    """What the catalogue knows of a network. `tiny` is the configuration that every contract is tried on."""

    name: str
    says: str
    config: type[Any]
    build: Callable[[Any], SequenceModel]
    sized: Callable[[str, int, int], Any]  # size, vocab_size, context -> configuration
    tiny: Any
    recipe: Recipe = field(default_factory=Recipe)
    is_causal: bool = True


def networks() -> dict[str, NeuralCard]:
    """Every network by its name. All files of this room are loaded for it; who wants one asks for that one."""
    found: dict[str, ModelCard | NeuralCard] = cards("pellucid.models", "MODEL", (ModelCard, NeuralCard))
    return {name: card for name, card in found.items() if isinstance(card, NeuralCard)}


def network_called(name: str) -> NeuralCard:
    """The network of this name; an unknown name is answered with the nearest known one, and no other file is loaded.

    >>> network_called("mlp").name
    'mlp'
    """
    require_one_of("network", name, NETWORKS)
    card: NeuralCard = importlib.import_module(f"pellucid.models.{name.replace('-', '_')}").MODEL
    return card
