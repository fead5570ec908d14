"""What every network for rows and images answers, and the card that its file ends with."""

from __future__ import annotations

import importlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from torch import Tensor

from pellucid.cards import cards
from pellucid.errors import require_one_of
from pellucid.models.network import Network, Recipe
from pellucid.models.wishes import EXAMPLE_NETWORKS


@dataclass(frozen=True)
class Inputs:
    """The shape of one example, and how many scores are wanted for it.

    >>> Inputs(numbers=(1, 8, 8), categories=(), outputs=10).is_image
    True
    """

    numbers: tuple[int, ...]  # (features,) of a table; (channels, height, width) of an image
    categories: tuple[int, ...]  # how many codes each category column has, 0 for "unknown" included
    outputs: int  # classes; 1 for a number

    @property
    def is_image(self) -> bool:
        return len(self.numbers) == 3

    @property
    def n_numbers(self) -> int:
        return prod(self.numbers)


class ExampleModel(Network):
    """A network that reads one example at a time; in a batch none sees another, unless by batch norm in training."""

    @abstractmethod
    def forward(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """numbers: (batch, features) or (batch, channels, height, width); codes: (batch, columns) -> scores.

        Scores are (batch, outputs). An image has no categories, and its codes are (batch, 0).
        """


class Reconstructor(ExampleModel):
    """A network whose answer is the example itself, gone through a narrow place."""

    @abstractmethod
    def wanted(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """The example as one row of numbers, (batch, features): what `forward` should give back."""

    @abstractmethod
    def latent(self, numbers: Tensor, codes: Tensor) -> Tensor:
        """What is left of the example in the narrow place: (batch, latent)."""


@dataclass(frozen=True)
class ExampleCard:
    """What the catalogue knows of a network for examples. `tiny` is what every contract is tried on."""

    name: str
    says: str
    config: type[Any]  # a frozen dataclass: numbers, categories and outputs as in Inputs, and its own fields
    build: Callable[[Any], ExampleModel]
    sized: Callable[[str, Inputs], Any]  # size, inputs -> configuration
    tiny: Any
    tiny_inputs: Inputs  # what the tiny one reads
    kinds: tuple[str, ...] = ("table", "images")  # of data that it can read
    recipe: Recipe = field(default_factory=Recipe)


def example_networks() -> dict[str, ExampleCard]:
    """Every network of this room by its name."""
    return cards("pellucid.models.examples", "MODEL", ExampleCard)


def example_network_called(name: str) -> ExampleCard:
    """The network of this name; an unknown name is answered with the nearest known one, and no other file is loaded."""
    require_one_of("network", name, EXAMPLE_NETWORKS)
    card: ExampleCard = importlib.import_module(f"pellucid.models.examples.{name.replace('-', '_')}").MODEL
    return card
