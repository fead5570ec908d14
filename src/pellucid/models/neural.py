"""What every network of the ladder answers, and the card that its file ends with.

The sequence contract of `contract.py`, for models that learn: `forward` for whole sequences, `begin` and `advance` for
one token at a time. Both give the same numbers; advancing costs the same however much was read before.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from torch import Tensor, nn

from pellucid.catalogue import cards
from pellucid.errors import PellucidError, nearest, quoted
from pellucid.layers.norms import BatchNorm
from pellucid.models.contract import ModelCard
from pellucid.models.wishes import NETWORKS, require_one_of

ANY_LENGTH = 1 << 62
SIZES = ("tiny", "small", "medium", "large")


class SequenceConfig(Protocol):
    """What every configuration has beside its own fields. Each is a frozen dataclass of plain values."""

    @property
    def vocab_size(self) -> int: ...


class SequenceModel(nn.Module, ABC):
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

    def for_inference(self) -> Self:
        """The same function in eval mode, perhaps with parts folded into one another; the original stays as it is."""
        return copy.deepcopy(self).eval()

    @property
    def rows_meet(self) -> bool:
        """Whether the rows of a training batch are seen together, as by batch norm.

        Then a batch has to be a fair sample. Items of one length only would be told by their statistics, and the
        network would lean on a length that no statistics tell it when it reads a single item: wavenet's dev loss on
        names was 2.67 with batches by length and 2.01 with mixed ones.
        """
        return any(isinstance(part, BatchNorm) for part in self.modules())

    @property
    def n_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())


@dataclass(frozen=True)
class Recipe:
    """How a network is best trained, as far as was measured; whoever trains may choose otherwise."""

    optimizer: str = "adamw"
    rate: float = 3e-3
    matrix_rate: float = 0.0
    batch: int = 128
    weight_decay: float = 0.01
    clip: float = 1.0
    decay: str = "linear"
    epochs: float = 10.0  # passes over the training side after which dev was seen to rise again
    dropout: float = 0.0  # where a plan has so many passes that it pays, if the network has dropout


@dataclass(frozen=True)
class NeuralCard:
    """What the catalogue knows of a network. `tiny` is the configuration that every contract is tried on."""

    name: str
    says: str
    config: type[Any]
    build: Callable[[Any], SequenceModel]
    sized: Callable[[str, int, int], Any]  # size, vocab_size, context -> configuration
    tiny: Any
    recipe: Recipe = Recipe()
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


def config_of(card: NeuralCard, stored: Mapping[str, object]) -> Any:
    """A configuration from its stored form. A key that the model does not know is refused, and so is one missing."""
    known = {field.name for field in dataclasses.fields(card.config)}
    for key in stored:
        if key not in known:
            meant = nearest(key, known)
            raise PellucidError(
                f"{quoted(key)} is no setting of {card.name}",
                fix=f"Perhaps you meant {meant}" if meant else f"It has {', '.join(sorted(known))}",
            )
    missing = sorted(
        field.name
        for field in dataclasses.fields(card.config)
        if field.name not in stored and field.default is dataclasses.MISSING
    )
    if missing:
        raise PellucidError(f"{missing[0]} of {card.name} is missing", fix="Give it a value")
    return card.config(**stored)
