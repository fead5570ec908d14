"""What every network has, whatever it reads: how it is used after training, and how it is best trained."""

from __future__ import annotations

import copy
import dataclasses
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, Self

from torch import nn

from pellucid.errors import PellucidError, did_you_mean, quoted
from pellucid.layers.norms import BatchNorm

SIZES = ("tiny", "small", "medium", "large")


class Network(nn.Module, ABC):
    """A network that pellucid can train."""

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
        return any(isinstance(part, BatchNorm | nn.BatchNorm1d | nn.BatchNorm2d) for part in self.modules())

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
    shift: int = 0  # pixels by which images are moved at random while training


class Card(Protocol):
    """What the cards of all families of networks have in common."""

    @property
    def name(self) -> str: ...

    @property
    def says(self) -> str: ...

    @property
    def config(self) -> type[Any]: ...

    @property
    def tiny(self) -> Any: ...

    @property
    def recipe(self) -> Recipe: ...

    def build(self, config: Any, /) -> Network: ...


def config_of(card: Card, stored: Mapping[str, object]) -> Any:
    """A configuration from its stored form. A key that the model does not know is refused, and so is one missing."""
    known = {field.name for field in dataclasses.fields(card.config)}
    for key in stored:
        if key not in known:
            raise PellucidError(
                f"{quoted(key)} is no setting of {card.name}",
                fix=did_you_mean(key, known, f"It has {', '.join(sorted(known))}"),
            )
    missing = sorted(
        field.name
        for field in dataclasses.fields(card.config)
        if field.name not in stored and field.default is dataclasses.MISSING
    )
    if missing:
        raise PellucidError(f"{missing[0]} of {card.name} is missing", fix="Give it a value")
    # JSON has no tuples.
    return card.config(**{key: tuple(value) if isinstance(value, list) else value for key, value in stored.items()})
